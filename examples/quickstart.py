"""
Three answers that need a certificate
=====================================

A search whose choice is certain, an intercept that is free, and a quantile regression, each beside
the estimator of scikit-learn. The data come with scikit-learn.

    python examples/quickstart.py
"""

import warnings
from functools import partial
from time import process_time

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import QuantileRegressor
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sklearn_bundle import BMRMClassifier, BMRMClassifierCV, BMRMRegressor


def fit_twice(model, X, y):
    """The fitted model and the CPU seconds of its second fit: the first may compile."""
    model.fit(X, y)
    start = process_time()
    model.fit(X, y)
    return model, process_time() - start


print("1. A search: the digits, eights against the others, standardized, hinge loss")
X, digit = load_digits(return_X_y=True)
X, y = StandardScaler().fit_transform(X), digit == 8
strengths = [1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001]
C = [1 / (0.8 * len(y) * reg_lambda) for reg_lambda in strengths]  # of folds with 80 % of the rows
with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
    for seed in (0, 1, 2):
        peer = LinearSVC(loss="hinge", random_state=seed)
        search = GridSearchCV(peer, {"C": C}).fit(X, y)
        print(f"   LinearSVC, seed {seed}, chooses  reg_lambda = {strengths[search.best_index_]:g}")
ours = BMRMClassifierCV("hinge", reg_lambdas=strengths, tol=1e-6).fit(X, y)
print(f"   BMRMClassifierCV chooses   reg_lambda = {ours.reg_lambda_:g}")
print("   (LinearSVC warns that it did not converge, and penalizes its intercept.)\n")

print("2. An intercept: the breast cancer data, standardized, before and after adding 5 to all")
X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
scaler = StandardScaler().fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)
peer = LinearSVC(loss="hinge", C=10 / len(y), max_iter=100_000, random_state=0)
for model in (peer, BMRMClassifier("hinge", reg_lambda=0.1, tol=1e-6)):
    before, after = (model.fit(X + s, y).score(X_test + s, y_test) for s in (0, 5))
    print(f"   {type(model).__name__:<18} test accuracy {before:.3f} and {after:.3f}")
print("   (LinearSVC penalizes its intercept, so the zero of the features matters.)\n")

print("3. A quantile: 5,000 rows of make_friedman1, the 0.9 quantile, L1")
X, y = make_friedman1(5_000, noise=1.0, random_state=0)
X, y, alpha = StandardScaler().fit_transform(X), (y - y.mean()) / y.std(), 1e-3


def objective(model):
    """alpha ||w||_1 + the mean pinball loss."""
    residuals = y - model.predict(X)
    return alpha * np.abs(model.coef_).sum() + np.maximum(0.9 * residuals, -0.1 * residuals).mean()


make = partial(BMRMRegressor, "quantile", quantile=0.9, regularizer="l1", reg_lambda=alpha)
for model in (QuantileRegressor(quantile=0.9, alpha=alpha), make()):
    model, seconds = fit_twice(model, X, y)
    print(f"   {type(model).__name__:<18} {seconds:6.3f} s, objective {objective(model):.5f}")
print(f"   at most {model.dual_gap_:.5f} above the optimum, says its certificate")
print(f"\n{process_time():.0f} s of CPU time in all, with imports and what numba compiled.")
