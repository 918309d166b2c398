"""
How far is my model from the optimum?
=====================================

Learn to read the certificate that every fit returns: the objective, a lower bound of the minimum,
and the gap between them. The objective of the best model so far is never below the minimum. The
lower bound is never above it. The fit stops when the gap is at most ``tol`` times the objective.
Every estimator of this package reports this, under the same names.

The data is the digits set, odd digits against even ones.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.plotting import ConvergenceDisplay

X, digit = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, digit % 2 == 1, test_size=0.5, random_state=0)
scaler = StandardScaler().fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)
print(f"{X.shape[0]} samples, {X.shape[1]} features")

# %%
# The certificate. ``converged_`` and ``relative_gap_`` are what you usually look at.

classifier = BMRMClassifier(loss="hinge", reg_lambda=1e-3, solver="line-search", tol=1e-4)
classifier.fit(X, y)
print(f"converged    {classifier.converged_} after {classifier.n_iter_} iterations")
print(f"objective    {classifier.objective_:.6f}")
print(f"lower bound  {classifier.lower_bound_:.6f}")
print(f"relative gap {classifier.relative_gap_:.1e}, tol {classifier.tol:.0e}")

# %%
# The minimum lies in the shaded band, wherever you stop the run. (The bound begins at 0, because
# no loss can fall below 0.)

history = classifier.history_
figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
band = history["iteration"], history["lower_bound"], history["objective"]
ax.fill_between(*band, color="#56B4E9", alpha=0.4, label="the minimum is in here")
ax.plot(*band[::2], color="#0072B2", linewidth=2, label="objective of the best model so far")
ax.plot(*band[:2], color="#D55E00", linewidth=2, linestyle="--", label="lower bound")
ax.set(xscale="log", ylim=(0, 4 * classifier.objective_))
ax.set(xlabel="iterations", ylabel="objective and lower bound")
ax.set_title(
    f"After {classifier.n_iter_} iterations the model is\n"
    f"at most {100 * classifier.relative_gap_:.2g} % above the minimum"
)
ax.legend()
plt.show()

# %%
# Is it true? A much tighter fit by another solver encloses the minimum between two numbers of its
# own. Both pairs of numbers enclose the same minimum, so the two intervals must overlap.

tight = BMRMClassifier(loss="hinge", reg_lambda=1e-3, solver="newton", tol=1e-8).fit(X, y)
print(f"{tight.lower_bound_:.9f} <= minimum <= {tight.objective_:.9f}")
overlap = max(classifier.lower_bound_, tight.lower_bound_) <= min(
    classifier.objective_, tight.objective_
)
print(f"overlap: {overlap}")

# %%
# A fit that reaches ``max_iter`` first has a certificate too, and warns once.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", ConvergenceWarning)
    short = BMRMClassifier(reg_lambda=1e-3, solver="line-search", tol=1e-4, max_iter=25).fit(X, y)
print(
    f"converged {short.converged_}: {short.lower_bound_:.4f} <= minimum <= {short.objective_:.4f}"
)
for warning in caught:
    print(f"{warning.category.__name__}: {warning.message}")

# %%
# Which ``tol`` do you need? For predictions, seldom a small one. To compare two models by their
# objectives, one that is smaller than their difference.

print(f"{'tol':<7}{'iterations':>11}{'objective':>11}{'test accuracy':>15}")
accuracies = []
for tol in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
    model = BMRMClassifier(reg_lambda=1e-3, solver="line-search", tol=tol).fit(X, y)
    accuracies.append(model.score(X_test, y_test))
    print(f"{tol:<7.0e}{model.n_iter_:>11}{model.objective_:>11.6f}{accuracies[-1]:>15.4f}")
print(f"range of the accuracies: {np.ptp(accuracies):.4f}")

# %%
# The relative gap is the width of the band as a share of the objective. It never grows, because the
# best objective and the best bound are kept. The dashed line is ``tol``.

figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
ConvergenceDisplay.from_estimator(classifier, y="gap", label="hinge", ax=ax)
ax.set_title("The fit stops when the relative gap reaches tol")
plt.show()
