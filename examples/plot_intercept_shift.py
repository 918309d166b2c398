"""
Does it matter where the features have their zero?
==================================================

It should not: shifting all samples by a constant vector is undone by the intercept. That holds if
the intercept is free, as it is here. LIBLINEAR, and with it :class:`~sklearn.svm.LinearSVC`,
penalises it like a weight, and so solves another problem after each shift.

The data is the breast cancer set, standardised, with a constant added to all features: think of
degrees Celsius and kelvin, or of years counted from the year 0.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sklearn_bundle import BMRMClassifier, PragamSVC

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
signs = np.where(y, 1.0, -1.0)
reg_lambda = 0.1
shifts = (0, 1, 5, 20, 100)


def objective(X, w, b):
    """reg_lambda/2 ||w||^2 + the mean hinge loss; b is not penalised."""
    margins = signs * (X @ w + b)
    return 0.5 * reg_lambda * (w @ w) + np.mean(np.maximum(0.0, 1.0 - margins))


def excess(value, bound):
    """How far a value can be above the minimum, as a share of a lower bound."""
    return value / bound - 1.0


# %%
# ``LinearSVC`` gets a small ``tol`` and many iterations. For features far from zero its coordinate
# descent may use up all of them. So that the rest of this page does not depend on that, its own
# objective is certified too: it is the one of ``BMRMClassifier`` with a column of ones and no
# intercept. The last column of the table says how far ``LinearSVC`` can be from the minimum of its
# own objective: it has converged, and what is left in the column before is the penalty's doing.

peer = LinearSVC(
    loss="hinge", C=1 / (len(y) * reg_lambda), tol=1e-8, max_iter=2_000_000, random_state=0
)
own = BMRMClassifier(reg_lambda=reg_lambda, fit_intercept=False, tol=1e-6)
certified = [
    BMRMClassifier(reg_lambda=reg_lambda, tol=1e-4),
    PragamSVC(reg_lambda=reg_lambda, tol=1e-4),
]
names = [type(model).__name__ for model in (*certified, peer)]
table = []

print("relative excess of the objective with a free intercept, at most")
print(
    f"{'shift':>5}" + "".join(f"{name:>16}" for name in names) + "   LinearSVC, its own objective"
)
for shift in shifts:
    shifted = X + shift
    for model in certified:
        model.fit(shifted, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer.fit(shifted, y)
    bound = max(model.lower_bound_ for model in certified)
    row = [
        excess(objective(shifted, model.coef_[0], model.intercept_[0]), bound)
        for model in (*certified, peer)
    ]
    table.append(row)
    own.fit(np.column_stack([shifted, np.ones(len(y))]), y)
    penalised = objective(shifted, peer.coef_[0], peer.intercept_[0])
    penalised += 0.5 * reg_lambda * peer.intercept_[0] ** 2
    print(
        f"{shift:>5}"
        + "".join(f"{value:>16.1e}" for value in row)
        + f"{excess(penalised, own.lower_bound_):>31.1e}"
    )

# %%
# The certified fits stay within their ``tol`` wherever the zero is. With the penalised intercept
# the objective is 1 % above the minimum already at shift 0, where all features have mean zero. From
# shift 5 on, it is almost three times the minimum: what the intercept may not do, the weights must
# do, by way of their sum, and on this data that excludes the good ones. (The figure draws what is
# below 1e-6 at 1e-6.)

positions = np.arange(len(shifts))
figure, axes = plt.subplots(layout="constrained")
for name, values, marker in zip(names, np.transpose(table), "os^", strict=True):
    axes.semilogy(positions, np.maximum(values, 1e-6), marker=marker, label=name)
axes.axhline(1e-4, color="black", linestyle="dashed", label="tol of the certified fits")
axes.set_xticks(positions, shifts)
axes.set(xlabel="shift of all features", ylabel="relative excess of the objective, at most")
axes.legend()
plt.show()
