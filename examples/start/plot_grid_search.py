"""
How small must tol be in a grid search?
=======================================

Learn to tell a better setting from a fit that ran longer. A grid search compares scores of models
that an optimizer has stopped somewhere. If one of two settings is stopped early, its score says
nothing about the setting. With a certificate there is no such doubt: every fit reaches the same
relative gap, ``tol``. Here ``tol`` itself is on the grid, to see how small it has to be.

The data is the breast cancer set.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.plotting import ConvergenceDisplay

X, y = load_breast_cancer(return_X_y=True)
print(f"{X.shape[0]} samples, {X.shape[1]} features")

# %%
# A pipeline, a grid and folds, as for any estimator of scikit-learn.

pipeline = make_pipeline(StandardScaler(), BMRMClassifier(loss="hinge", solver="line-search"))
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
# Compare these differences with the noise, the standard error over the folds of each setting:

deviations = results["std_test_score"].reshape(shape)
errors = deviations / np.sqrt(folds.n_splits - 1)
print(f"standard errors: {errors.min():.4f} to {errors.max():.4f}")
for k, tol in enumerate(tols[:-1]):
    change = np.abs(scores[:, k] - scores[:, -1]).max()
    print(f"tol {tol:<5g} changes a mean accuracy by at most {change:.4f} against {tols[-1]:g}")

# %%
# The refitted best model has its own certificate:

best = search.best_estimator_[-1]
print(f"best: reg_lambda {best.reg_lambda:.0e}, tol {best.tol:g}, converged {best.converged_}")
print(f"objective {best.objective_:.5f}, gap / objective {best.relative_gap_:.1e}")

# %%
# How far a score moves because the fit stopped early: the largest change over the grid, next to the
# noise. With the default ``tol``, 1e-3, no score moves, so differences between the values of
# ``reg_lambda`` are not a matter of convergence.

changes = np.abs(scores[:, :-1] - scores[:, -1:]).max(axis=0)
figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
bars = ax.bar(range(len(changes)), changes, color="#0072B2", width=0.6)
ax.bar_label(bars, [f"{change:.4f}" for change in changes])
ax.axhspan(
    errors.min(),
    errors.max(),
    color="#E69F00",
    alpha=0.3,
    zorder=0,
    label="standard errors (noise)",
)
ax.set_xticks(range(len(changes)), [f"{tol:g}" for tol in tols[:-1]])
ax.set(xlabel="tol", ylabel=f"largest change of a score against tol = {tols[-1]:g}")
enough = max(tol for tol, change in zip(tols, changes, strict=False) if not change)
ax.set_title(f"tol = {enough:g} is small enough: all scores are those of {tols[-1]:g}")
ax.legend()
plt.show()

# %%
# The scores themselves. The curve of ``tol = 0.001`` lies exactly on that of 0.0001: its circles
# ring the dots. With a ``tol`` of 0.5 you would have chosen another ``reg_lambda``.

figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
colors = ("#000000", "#E69F00", "#009E73", "#D55E00", "#0072B2")
for k, (tol, color, marker) in enumerate(zip(tols, colors, "XvDo.", strict=True)):
    ring = {"markersize": 12, "markerfacecolor": "none", "markeredgewidth": 2} if k == 3 else {}
    line = "-" if k == len(tols) - 1 else "--"
    look = {"color": color, "marker": marker, "label": f"tol = {tol:g}"}
    ax.plot(reg_lambdas, scores[:, k], line, **look, **ring)
ax.fill_between(
    reg_lambdas,
    scores[:, -1] - errors[:, -1],
    scores[:, -1] + errors[:, -1],
    color=colors[-1],
    alpha=0.15,
    label=f"one standard error, tol = {tols[-1]:g}",
)
ax.set(xscale="log", xlabel="reg_lambda", ylabel="accuracy, mean of the folds")
ax.invert_xaxis()
ax.set_title(
    f"tol = {tols[0]:g} chooses reg_lambda = {reg_lambdas[scores[:, 0].argmax()]:g}, "
    f"tol = {tols[3]:g} chooses {reg_lambdas[scores[:, 3].argmax()]:g}"
)
ax.legend()
plt.show()

# %%
# A limit on the iterations, the same for all fits, would not do: the smaller ``reg_lambda``, the
# more iterations the same gap takes. (The steep ends come from the hinge loss, which is piecewise
# linear: once the model knows the right pieces, it is exact.)

settings = {"solver": "line-search", "tol": 1e-4}
X = StandardScaler().fit_transform(X)
fits = {
    f"reg_lambda = {value:g}": BMRMClassifier(reg_lambda=value, **settings).fit(X, y)
    for value in reg_lambdas[::-2]
}
figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
ConvergenceDisplay.from_estimators(fits, ax=ax)
ax.set(ylim=(1e-5, 2), title="Less regularization takes more iterations to the same gap")
plt.show()
