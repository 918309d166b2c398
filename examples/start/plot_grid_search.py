"""
Is a better score only better convergence?
==========================================

A grid search compares scores of models that an optimiser has stopped somewhere. If one of two
settings is stopped early, its score says nothing about the setting. With a certificate there is
no such doubt: every fit reaches the same relative gap, ``tol``. Here ``tol`` itself is on the grid,
to see how small it has to be.

The data is the breast cancer set that ships with scikit-learn. If the environment variable
``SKLEARN_BUNDLE_DATA`` names a folder with the set a9a, it is the first 5,000 samples of that (123
binary features, in a CSR matrix).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.datasets import load_dataset
from sklearn_bundle.plotting import ConvergenceDisplay

real = load_dataset("a9a")
if real is None:
    name, (X, y) = "breast cancer", load_breast_cancer(return_X_y=True)
else:
    name, X, y = "a9a, its beginning", real[0][:5000], real[1][:5000]
print(f"{name}: {X.shape[0]} samples, {X.shape[1]} features")

# %%
# A pipeline, a grid, folds: as for any estimator of scikit-learn. Sparse data is scaled without
# being centred, so that it stays sparse. The intercept is free, so nothing is lost by that.

pipeline = make_pipeline(
    StandardScaler(with_mean=False), BMRMClassifier(loss="hinge", solver="line-search")
)
reg_lambdas, tols = np.logspace(-5, -1, 5), (0.5, 1e-1, 1e-2, 1e-3, 1e-4)
grid = {"bmrmclassifier__reg_lambda": reg_lambdas, "bmrmclassifier__tol": tols}
folds = StratifiedKFold(5, shuffle=True, random_state=0)
search = GridSearchCV(pipeline, grid, cv=folds).fit(X, y)

results = search.cv_results_
shape = len(reg_lambdas), len(tols)
scores = results["mean_test_score"].reshape(shape)
print("mean accuracy of the folds")
print(f"{'reg_lambda':<12}" + "".join(f"{f'tol {tol:g}':>12}" for tol in tols))
for reg_lambda, row in zip(reg_lambdas, scores, strict=True):
    print(f"{reg_lambda:<12.0e}" + "".join(f"{score:>12.4f}" for score in row))
print("chosen for each tol: " + ", ".join(f"{reg_lambdas[k]:.0e}" for k in scores.argmax(axis=0)))

# %%
# The noise that these differences are to be compared with is the standard error over the folds. It
# is known for each setting:

deviations = results["std_test_score"].reshape(shape)
errors = deviations / np.sqrt(folds.n_splits - 1)
print(f"standard errors: {errors.min():.4f} to {errors.max():.4f}")
for k, tol in enumerate(tols[:-1]):
    change = np.abs(scores[:, k] - scores[:, -1]).max()
    print(f"tol {tol:<5g} changes a mean accuracy by at most {change:.4f} against {tols[-1]:g}")

# %%
# The refitted best model has its own certificate:

best = search.best_estimator_[-1]
print(f"best: reg_lambda {best.reg_lambda:.0e}, tol {best.tol:g}, {best.status_}")
print(f"objective {best.objective_:.5f}, gap / objective {best.relative_gap_:.1e}")

# %%
# Left, the scores. On the breast cancer set the two smallest values of ``tol`` give the same
# scores: what differs between the values of ``reg_lambda`` there is not convergence, and the
# default, 1e-3, is small enough. A ``tol`` of 0.1 or 0.01 moves some scores, within the noise; one
# of 0.5 moves most of them, and with it another ``reg_lambda`` would have been taken.
#
# Right, why a limit on the iterations, the same for all fits, would not do: the smaller
# ``reg_lambda``, the more iterations the same gap takes. (The steep ends come from the hinge
# loss, which is piecewise linear: once the model knows the right pieces, it is exact.)

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
colours = ("#000000", "#E69F00", "#009E73", "#D55E00", "#0072B2")
for k, (tol, colour, marker) in enumerate(zip(tols, colours, "XvD^o", strict=True)):
    line = "-" if k == len(tols) - 1 else "--"
    left.plot(reg_lambdas, scores[:, k], line, marker=marker, color=colour, label=f"tol = {tol:g}")
left.fill_between(
    reg_lambdas,
    scores[:, -1] - errors[:, -1],
    scores[:, -1] + errors[:, -1],
    color=colours[-1],
    alpha=0.15,
    label=f"one standard error, tol = {tols[-1]:g}",
)
left.set(xscale="log", xlabel="reg_lambda", ylabel="accuracy, mean of the folds")
left.invert_xaxis()
left.legend()

settings = {"solver": "line-search", "tol": 1e-4}
X = StandardScaler(with_mean=False).fit_transform(X)
fits = {
    f"reg_lambda = {value:g}": BMRMClassifier(reg_lambda=value, **settings).fit(X, y)
    for value in reg_lambdas[::-2]
}
ConvergenceDisplay.from_estimators(fits, ax=right)
right.set_ylim(1e-5, 2)
plt.show()
