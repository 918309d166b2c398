"""
Why should the intercept not be penalised?
==========================================

Because then it matters where the features have their zero. Shifting all samples by a constant
vector is undone by the intercept, if the intercept is free, as it is here. LIBLINEAR, and with it
:class:`~sklearn.svm.LinearSVC`, penalises it like a weight, and so solves another problem after
each shift.

The data is the breast cancer set, standardised, with a constant added to all features: think of
degrees Celsius and kelvin, or of years counted from the year 0. If the environment variable
``SKLEARN_BUNDLE_DATA`` names a folder with the set cpusmall, it is 1,000 samples of that, with the
question whether a system is busier than the median.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sklearn_bundle import BMRMClassifier, PragamSVC
from sklearn_bundle.datasets import load_dataset

real = load_dataset("cpusmall")
if real is None:
    X, y = load_breast_cancer(return_X_y=True)
else:
    X, y = real[0][:2000], real[1][:2000] > np.median(real[1])
    X = csr_array(X).toarray()
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
scaler = StandardScaler().fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)
print(f"{'breast cancer' if real is None else 'cpusmall'}: {X.shape[0]} samples to train")
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
    penalised = objective(shifted, peer.coef_[0], peer.intercept_[0])
    penalised += 0.5 * reg_lambda * peer.intercept_[0] ** 2
    cells = "".join(f"{value:>16.1e}" for value in row)
    print(f"{shift:>5}{cells}{excess(penalised, own.lower_bound_):>31.1e}")

print("\naccuracy on test data")
print(f"{'shift':>5}" + "".join(f"{name:>16}" for name in names))
for shift, row in zip(shifts, accuracies, strict=True):
    print(f"{shift:>5}" + "".join(f"{value:>16.4f}" for value in row))

# %%
# On the left, the certified fits stay within their ``tol`` wherever the zero is. With the penalised
# intercept the objective is above the minimum already at shift 0, where all features have mean
# zero, and far above it once they have not: what the intercept may not do, the weights must do, by
# way of their sum, and that excludes the good ones. (The figure draws what is below 1e-6 at 1e-6.)
# On the right, what that does to predictions.

positions = np.arange(len(shifts))
colours = ("#0072B2", "#009E73", "#D55E00")
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
for k, (name, colour) in enumerate(zip(names, colours, strict=True)):
    look = {"marker": "os^"[k], "linestyle": ("-", ":", "--")[k], "color": colour, "label": name}
    left.semilogy(positions, np.maximum(np.array(table)[:, k], 1e-6), **look)
    right.plot(positions, np.array(accuracies)[:, k], **look)
left.axhline(1e-4, color="black", linestyle="dashed", label="tol of the certified fits")
left.set(ylabel="relative excess of the objective, at most")
right.set(ylabel="accuracy on test data")
for panel in (left, right):
    panel.set_xticks(positions, shifts)
    panel.set_xlabel("shift of all features [standard deviations]")
    panel.legend()
plt.show()
