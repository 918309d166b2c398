"""
Why should the intercept not be penalized?
==========================================

Learn what a penalized intercept costs: it makes the model depend on where the features have their
zero. A free intercept, as here, undoes a shift of all samples by a constant vector. LIBLINEAR, and
with it :class:`~sklearn.svm.LinearSVC`, penalizes the intercept like a weight, and so solves a
different problem after each shift.

The data is the breast cancer set, standardized, with a constant added to all features: think of
degrees Celsius and kelvin, or of years counted from the year 0.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sklearn_bundle import BMRMClassifier, PragamSVC

X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
scaler = StandardScaler().fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)
print(f"{X.shape[0]} samples to train")
signs = np.where(y, 1.0, -1.0)
reg_lambda = 0.1
shifts = (0, 1, 5, 20, 100)


def objective(X, w, b):
    """reg_lambda/2 ||w||^2 + the mean hinge loss; b is not penalized."""
    margins = signs * (X @ w + b)
    return 0.5 * reg_lambda * (w @ w) + np.mean(np.maximum(0.0, 1.0 - margins))


def excess(value, bound):
    """How far a value can be above the minimum, as a share of a lower bound."""
    return value / bound - 1.0


# %%
# ``LinearSVC`` gets a small ``tol`` and many iterations, because coordinate descent is slow if the
# features are far from zero. To be sure that it has converged, we certify its own objective too: it
# is that of ``BMRMClassifier`` with a column of ones and no intercept. The last column of the table
# says how far ``LinearSVC`` can be from the minimum of its own objective. It has converged, so the
# excess in the column before is due to the penalty alone.

peer = LinearSVC(
    loss="hinge", C=1 / (len(y) * reg_lambda), tol=1e-8, max_iter=2_000_000, random_state=0
)
own = BMRMClassifier(reg_lambda=reg_lambda, fit_intercept=False, tol=1e-6)
certified = [
    BMRMClassifier(reg_lambda=reg_lambda, tol=1e-4),
    PragamSVC(reg_lambda=reg_lambda, tol=1e-4),
]
names = [type(model).__name__ for model in (*certified, peer)]
table, accuracies = [], []

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
    models = (*certified, peer)
    bound = max(model.lower_bound_ for model in certified)
    row = [excess(objective(shifted, m.coef_[0], m.intercept_[0]), bound) for m in models]
    table.append(row)
    accuracies.append([model.score(X_test + shift, y_test) for model in models])
    own.fit(np.column_stack([shifted, np.ones(len(y))]), y)
    penalized = objective(shifted, peer.coef_[0], peer.intercept_[0])
    penalized += 0.5 * reg_lambda * peer.intercept_[0] ** 2
    cells = "".join(f"{value:>16.1e}" for value in row)
    print(f"{shift:>5}{cells}{excess(penalized, own.lower_bound_):>31.1e}")

print("\naccuracy on test data")
print(f"{'shift':>5}" + "".join(f"{name:>16}" for name in names))
for shift, row in zip(shifts, accuracies, strict=True):
    print(f"{shift:>5}" + "".join(f"{value:>16.4f}" for value in row))

# %%
# Once the features do not have mean zero, the penalized intercept costs accuracy: what the
# intercept may not do, the weights must do through their sum, and that excludes the good ones.

names[-1] += ", penalized intercept"
looks = [
    {"color": color, "marker": marker, "linestyle": line, "markersize": size, "label": name}
    for color, marker, line, size, name in zip(
        ("#0072B2", "#009E73", "#D55E00"), "os^", ("-", ":", "--"), (11, 5, 7), names, strict=True
    )
]


def draw(ax, columns):
    """A line per model over the shift, true to scale beyond 1."""
    for values, look in zip(np.transpose(columns), looks, strict=True):
        ax.plot(shifts, values, **look)
    ax.set_xscale("symlog", linthresh=1)
    ax.set_xticks(shifts, shifts)
    ax.set_xlabel("shift of all features [standard deviations]")
    ax.legend()


figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
draw(ax, accuracies)
ax.set(ylabel="accuracy on test data")
lost = 100 * (accuracies[0][2] - accuracies[2][2])
ax.set_title(
    f"A shift of 5 costs LinearSVC {lost:.0f} points of accuracy,\n"
    "and models with a free intercept nothing"
)
plt.show()

# %%
# The certified fits stay within their ``tol`` wherever the zero is. The objective of ``LinearSVC``
# is above the minimum already at shift 0, where all features have mean zero.

figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
draw(ax, table)
ax.axhline(1e-4, color="black", linestyle="dashed", label="tol of the certified fits")
ax.set(yscale="log", ylim=(1e-5, 10), ylabel="relative excess of the objective, at most")
ax.set_title(f"LinearSVC ends up to {100 * np.max(table):.0f} % above the minimum")
ax.legend()
plt.show()
