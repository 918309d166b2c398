"""
Which reg_lambda do I take, and what does the whole path cost?
==============================================================

Learn to fit many values of ``reg_lambda`` in one go, and to choose one. The planes that a bundle
method collects bound the loss, and the loss does not contain ``reg_lambda``. So the planes of one
value serve the next: :func:`~sklearn_bundle.bmrm_path` fits from the largest value down, and
:class:`~sklearn_bundle.BMRMClassifierCV` does that in each fold of a cross-validation.

The data is the breast cancer set.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMClassifier, BMRMClassifierCV, bmrm_path
from sklearn_bundle.plotting import RegularizationPathDisplay

data = load_breast_cancer()
X, y, names = StandardScaler().fit_transform(data.data), data.target, data.feature_names
print(f"{X.shape[0]} samples, {X.shape[1]} features")


def timed(function):
    start = perf_counter()
    result = function()
    return perf_counter() - start, result


# %%
# The cost of 13 values, against one fit per value, and against the fit of the smallest value alone,
# which is the hardest. The solver is the same for all; the first, untimed call compiles.

values = np.geomspace(1e-1, 1e-5, 13)
settings = {"loss": "log_loss", "solver": "line-search"}
bmrm_path(X, y, reg_lambdas=values[:2], **settings)


def alone(reg_lambda):
    return BMRMClassifier(reg_lambda=reg_lambda, **settings).fit(X, y)


seconds, path = timed(lambda: bmrm_path(X, y, reg_lambdas=values, **settings))
of_all, models = timed(lambda: [alone(value) for value in values])
of_last, last = timed(lambda: alone(values[-1]))
print(f"{'':<24}{'iterations':>10}{'seconds':>9}")
print(f"{'path':<24}{path.n_iters.sum():>10}{seconds:>9.3f}")
print(f"{'one fit per value':<24}{sum(model.n_iter_ for model in models):>10}{of_all:>9.3f}")
print(f"{'smallest value alone':<24}{last.n_iter_:>10}{of_last:>9.3f}")

# %%
# Every value has its own certificate, to the same ``tol``, here the default 1e-3.

print(f"largest gap / objective on the path: {np.max(path.dual_gaps / path.objectives):.1e}")

# %%
# With the L1 regularizer, a coefficient is zero until its feature reduces the loss by more than the
# penalty. The values begin where all coefficients are zero, at
# :func:`~sklearn_bundle.reg_lambda_max`, and end at a hundredth of that.

l1_path = bmrm_path(X, y, loss="log_loss", regularizer="l1", n_reg_lambdas=25, eps=1e-2)
used = np.count_nonzero(l1_path.coefs, axis=0)
print("reg_lambda   features used, L1")
for value, count in zip(l1_path.reg_lambdas[::6], used[::6], strict=True):
    print(f"{value:<12.4f} {count}")

# %%
# Which value? The one with the best score on data that the fit has not seen.

search = BMRMClassifierCV("log_loss", reg_lambdas=values, cv=5).fit(X, y)
chosen = np.flatnonzero(search.reg_lambdas_ == search.reg_lambda_)[0]
error = search.scores_.std(axis=0, ddof=1)[chosen] / np.sqrt(5)
print(f"chosen: {search.reg_lambda_:.1e}, accuracy {search.mean_test_scores_.max():.4f}")
within = search.mean_test_scores_ >= search.mean_test_scores_.max() - error
print(f"one standard error is {error:.4f}; values within it of the best: {within.sum()}")
print(f"final fit: {search.status_}, gap / objective {search.relative_gap_:.1e}")

# %%
# With L1, features enter a few at a time as the penalty gets smaller, from left to right. The
# dotted line counts them. The six with the largest coefficients have names.

figure, ax = plt.subplots(figsize=(6.8, 5.4), layout="constrained")
RegularizationPathDisplay.from_path(l1_path, feature_names=names, nonzeros=True, ax=ax)
ax.set_title(f"L1: the less penalty, the more features, {used.max()} of {len(names)} at the end")
ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)
plt.show()

# %%
# With L2, all coefficients move from the beginning. The scores of the folds, below, rise as the
# penalty gets smaller, and fall again where the coefficients grow fast. On other data the curve may
# stay level; a flat curve says that the exact value matters little.

figure, (above, below) = plt.subplots(2, 1, figsize=(6.8, 9), layout="constrained")
RegularizationPathDisplay.from_path(path, feature_names=names, ax=above)
above.set_title("L2: all coefficients move from the beginning")
above.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)
RegularizationPathDisplay.from_estimator(search, ax=below)
below.set_title(
    f"Cross-validation takes reg_lambda = {search.reg_lambda_:.1e},\n"
    f"accuracy {search.mean_test_scores_.max():.1%}"
)
plt.show()
