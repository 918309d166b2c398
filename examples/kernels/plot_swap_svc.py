"""
Which Frank-Wolfe step converges how fast?
==========================================

Learn how the methods of :class:`~sklearn_bundle.SwapSVC` that take Frank-Wolfe steps differ. They
minimize the same objective, and each certifies how far it is from the minimum. The data is two half
moons with noise, the kernel is the RBF.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle import SwapSVC
from sklearn_bundle.plotting import ConvergenceDisplay

X, y = make_moons(1500, noise=0.3, random_state=0)

# %%
# The methods differ in the direction of a step. ``history_`` counts each kind. Runs end at a
# relative gap of 1e-5, or at ``max_iter``, on purpose.

limits = {"C": 10.0, "tol": 1e-5, "max_iter": 50_000}
kinds = ("fw", "swap_add", "swap_drop", "away", "away_drop")
models = {}

print(f"{'solver':<9}{'converged':<11}{'gap':>8}" + "".join(f"{kind:>11}" for kind in kinds))
for solver in ("fw", "mfw", "swap", "swap-2o"):
    model = models[solver] = SwapSVC(solver=solver, **limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    gap = model.relative_gap_
    counts = "".join(f"{model.history_[kind][-1]:>11}" for kind in kinds)
    print(f"{solver:<9}{model.converged_!s:<11}{gap:>8.0e}{counts}")

# %%
# A Frank-Wolfe step ("fw") moves all weights toward one point. Near the optimum, much of that
# undoes what the steps before it did: its gap falls ever more slowly, until ``max_iter`` ends the
# run. An away step ("mfw" has them) moves weight off one point. A SWAP step moves it from one point
# to another and leaves the rest as it is. "swap-2o" chooses the partner by the gain of the step,
# and takes the fewest steps.

steps = {solver: model.history_["iteration"][-1] for solver, model in models.items()}
figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
ConvergenceDisplay.from_estimators(models, ax=ax)
ax.set(xscale="log", ylim=(1e-6, 2))
done = [solver for solver, model in models.items() if model.converged_]
ax.set_title(
    f"Fewest steps to the same gap: {min(done, key=steps.get)}\n"
    + ", ".join(f"{solver} {steps[solver]:,}" for solver in done)
)
plt.show()

# %%
# On large data the time goes into rows of the kernel matrix. Rows are kept, so that no method
# computes more of them than there are samples, and on the moons the methods differ little in that.
# Most rows are computed while the gap is still large. The steps after that move weight among points
# whose rows are there.

figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
ConvergenceDisplay.from_estimators(models, x="passes", ax=ax)
ax.set(ylim=(1e-6, 2), title="The rows that they compute differ little")
plt.show()
