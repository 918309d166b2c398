"""
How far is my model from the optimum?
=====================================

At every iteration a fit knows two numbers: the objective of the best model so far, which is never
below the minimum, and a lower bound, which is never above it. Their difference is the gap. The fit
stops when the gap is at most ``tol`` times the objective, and the estimator keeps all of it. Every
estimator of this package does so, under the same names.

The data is the digits set, odd digits against even ones. If the environment variable
``SKLEARN_BUNDLE_DATA`` names a folder with the set a9a, it is that.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.datasets import load_dataset
from sklearn_bundle.plotting import ConvergenceDisplay

real = load_dataset("a9a")
if real is None:
    X, digit = load_digits(return_X_y=True)
    split = train_test_split(X, digit % 2 == 1, test_size=0.5, random_state=0)
    X, X_test, y, y_test = split
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
else:
    X, y, X_test, y_test = real
print(f"{'digits' if real is None else 'a9a'}: {X.shape[0]} samples, {X.shape[1]} features")

# %%
# The certificate:

classifier = BMRMClassifier(loss="hinge", reg_lambda=1e-3, solver="line-search", tol=1e-4)
classifier.fit(X, y)
print(f"status      {classifier.status_} after {classifier.n_iter_} iterations")
print(f"objective   {classifier.objective_:.6f}")
print(f"lower bound {classifier.lower_bound_:.6f}")
print(f"gap         {classifier.dual_gap_:.1e}, tol * objective {1e-4 * classifier.objective_:.1e}")

# %%
# Is it true? A much tighter fit, by another solver, encloses the minimum between two
# numbers of its own. Both enclosures are of the same minimum, so they must overlap.

tight = BMRMClassifier(loss="hinge", reg_lambda=1e-3, solver="newton", tol=1e-8).fit(X, y)
print(f"{tight.lower_bound_:.9f} <= minimum <= {tight.objective_:.9f}")
overlap = max(classifier.lower_bound_, tight.lower_bound_) <= min(
    classifier.objective_, tight.objective_
)
print(f"overlap: {overlap}")

# %%
# A fit that ends before its time has a certificate too, and says so once, in a warning.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", ConvergenceWarning)
    short = BMRMClassifier(reg_lambda=1e-3, solver="line-search", tol=1e-4, max_iter=25).fit(X, y)
print(f"status {short.status_}: {short.lower_bound_:.4f} <= minimum <= {short.objective_:.4f}")
for warning in caught:
    print(f"{warning.category.__name__}: {warning.message}")

# %%
# Which ``tol`` does one need? To predict, seldom a small one; to tell two models apart by their
# objectives, one smaller than their difference.

print(f"{'tol':<7}{'iterations':>11}{'objective':>11}{'test accuracy':>15}")
for tol in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
    model = BMRMClassifier(reg_lambda=1e-3, solver="line-search", tol=tol).fit(X, y)
    accuracy = model.score(X_test, y_test)
    print(f"{tol:<7.0e}{model.n_iter_:>11}{model.objective_:>11.6f}{accuracy:>15.4f}")

# %%
# Left, the minimum lies in the shaded band, wherever the run is stopped. (The bound begins at 0,
# below which no loss can fall.) The two curves soon look like one; so on the right is the width of
# the band as a share of the objective, on a logarithmic scale. This is the number that ``tol``, the
# dashed line, is compared with. It never grows, for the best objective and the best bound are kept.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
ConvergenceDisplay.from_estimator(classifier, y="objective", label="hinge", ax=left)
left.set_ylim(0, 3 * classifier.objective_)
ConvergenceDisplay.from_estimator(classifier, y="gap", label="hinge", ax=right)
plt.show()
