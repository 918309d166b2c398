"""
How far is my model from the optimum?
=====================================

At every iteration BMRM knows two numbers: the objective of the best model so far, which is never
below the minimum, and a lower bound, which is never above it. ``history_`` keeps both. The fit
stops when they are within ``tol`` of each other, as a share of the objective.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMClassifier

X, digit = load_digits(return_X_y=True)
X = StandardScaler().fit_transform(X)
classifier = BMRMClassifier(loss="hinge", reg_lambda=1e-2, tol=1e-4).fit(X, digit % 2 == 1)

print(f"status      {classifier.status_} after {classifier.n_iter_} iterations")
print(f"objective   {classifier.objective_:.6f}")
print(f"lower bound {classifier.lower_bound_:.6f}")
relative_gap = classifier.dual_gap_ / classifier.objective_
print(f"gap         {classifier.dual_gap_:.1e}, relative {relative_gap:.1e}")

# %%
# The minimum lies in the shaded band. On the right, its width as a share of the objective, on a
# logarithmic scale: this is the number that ``tol`` is compared with.

history = classifier.history_
iteration, objective, bound = (history[name] for name in ("iteration", "objective", "lower_bound"))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.plot(iteration, objective, label="objective")
left.plot(iteration, bound, label="lower bound")
left.fill_between(iteration, bound, objective, alpha=0.2)
left.set(xlabel="iteration", ylim=(0, 2 * classifier.objective_))
left.legend()
right.semilogy(iteration, (objective - bound) / objective)
right.axhline(classifier.tol, color="black", linestyle="dashed", label="tol")
right.set(xlabel="iteration", title="gap / objective")
right.legend()
plt.show()
