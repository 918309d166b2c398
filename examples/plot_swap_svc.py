"""
Which Frank-Wolfe step converges how fast?
==========================================

:class:`~sklearn_bundle.SwapSVC` minimises the same objective by five methods, and certifies how far
each of them is from the minimum. The data are two half moons with noise, the kernel is the RBF.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from sklearn_bundle import SwapSVC

X, y = make_moons(2000, noise=0.3, random_state=0)
X_test, y_test = make_moons(10_000, noise=0.3, random_state=1)

# %%
# The settings of ``SVC``, and its attributes. The losses are not the same, the hinge for ``SVC``
# and its square here, so a value of C does not mean the same either, nor are there as many support
# vectors.

print(f"{'':<9}{'C':>5}{'support vectors':>17}{'accuracy':>10}   certificate")
for C in (1.0, 10.0, 100.0):
    for model in (SVC(C=C), SwapSVC(C=C)):
        model.fit(X, y)
        name, gap = type(model).__name__, "none"
        if isinstance(model, SwapSVC):
            gap = f"{model.lower_bound_:.2f} <= minimum <= {model.objective_:.2f}"
        accuracy = model.score(X_test, y_test)
        print(f"{name:<9}{C:>5g}{model.n_support_.sum():>17}{accuracy:>10.4f}   {gap}")

# %%
# The methods differ in the direction of a step. ``history_`` counts each kind. Runs end at a
# relative gap of 1e-5, or at ``max_iter``, on purpose.

limits = {"C": 10.0, "tol": 1e-5, "max_iter": 100_000}
kinds = ("fw", "swap_add", "swap_drop", "away", "away_drop")
histories = {}

print(f"{'solver':<9}{'status':<11}{'gap':>8}" + "".join(f"{kind:>11}" for kind in kinds))
for solver in ("fw", "mfw", "swap", "swap-2o"):
    model = SwapSVC(solver=solver, **limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        history = histories[solver] = model.fit(X, y).history_
    gap = model.dual_gap_ / model.objective_
    counts = "".join(f"{history[kind][-1]:>11}" for kind in kinds)
    print(f"{solver:<9}{model.status_:<11}{gap:>8.0e}{counts}")

# %%
# A Frank-Wolfe step moves all weights towards one point, and near the optimum much of that undoes
# what the steps before it did: the gap falls ever more slowly. An away step moves weight off one
# point, a SWAP step moves it from one point to another and leaves the rest as it is. ``"swap-2o"``
# chooses the partner by the gain of the step and takes the fewest.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
for solver, history in histories.items():
    gap = (history["objective"] - history["lower_bound"]) / history["objective"]
    left.loglog(history["iteration"], gap, label=solver)
left.axhline(limits["tol"], color="black", linestyle="dashed", label="tol")
left.set(xlabel="steps", ylabel="gap / objective")
left.legend()

model = SwapSVC(C=10.0).fit(X, y)
across, up = np.meshgrid(np.linspace(-2, 3, 200), np.linspace(-1.5, 2, 200))
scores = model.decision_function(np.column_stack([across.ravel(), up.ravel()]))
right.scatter(*X.T, c=y, s=4, cmap="coolwarm")
right.contour(across, up, scores.reshape(across.shape), levels=[0], colors="black")
right.set(title="SwapSVC(C=10)", xlim=(-2, 3), ylim=(-1.5, 2))
plt.show()
