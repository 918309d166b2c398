"""
How good is this linear model, and how far is it from the optimum?
==================================================================

Choose ``reg_lambda`` by cross-validation on the digits data, odd digits against even ones, and
compare the result with :class:`~sklearn.svm.LinearSVC` at the same amount of regularization.
``BMRMClassifier`` certifies its own distance from the optimum; ``LinearSVC`` reports none, so this
script evaluates its objective by the same formula, with the intercept that it returned.

    python examples/quickstart.py
"""

import warnings
from time import perf_counter

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sklearn_bundle import BMRMClassifier

digits, target = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    digits, target % 2 == 1, test_size=0.3, random_state=0
)

# The main job: a pipeline, a grid search over reg_lambda, a certificate.
pipeline = make_pipeline(StandardScaler(), BMRMClassifier(loss="hinge", tol=1e-5))
grid = {"bmrmclassifier__reg_lambda": [1.0, 1e-1, 1e-2, 1e-3, 1e-4]}
start = perf_counter()
search = GridSearchCV(pipeline, grid, cv=5).fit(X_train, y_train)
search_seconds = perf_counter() - start
reg_lambda = search.best_params_["bmrmclassifier__reg_lambda"]


def objective(model):
    """reg_lambda/2 ||w||^2 + the mean hinge loss, with the model's own intercept."""
    linear = model[-1]
    scores = model.decision_function(X_train)
    margins = np.where(y_train, 1.0, -1.0) * scores
    return 0.5 * reg_lambda * np.sum(linear.coef_**2) + np.mean(np.maximum(0.0, 1.0 - margins))


peer = make_pipeline(
    StandardScaler(),
    LinearSVC(loss="hinge", C=1 / (len(y_train) * reg_lambda), max_iter=20_000, random_state=0),
)

# One table. The search above has compiled what the fit needs.
print(f"digits, odd against even: {X_train.shape[0]} samples, {X_train.shape[1]} features")
print(f"grid search, 5 values of reg_lambda, 5 folds: {search_seconds:.1f} s with compilation")
print(f"best reg_lambda: {reg_lambda:g}\n")
print(f"{'estimator':<16}{'objective':>12}{'certified gap':>16}{'accuracy':>11}{'seconds':>10}")
best = clone(search.best_estimator_)
for model in (best, peer):
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X_train, y_train)
    seconds = perf_counter() - start
    gap = getattr(model[-1], "dual_gap_", None)
    print(
        f"{type(model[-1]).__name__:<16}{objective(model):>12.6f}"
        f"{'not reported' if gap is None else format(gap, '.1e'):>16}"
        f"{model.score(X_test, y_test):>11.4f}{seconds:>10.3f}"
    )
difference = objective(peer) - best[-1].lower_bound_
print(f"""
The objective of BMRMClassifier is at most its certified gap above the minimum. The same lower
bound says how far LinearSVC, which penalizes its intercept, may be from it: {difference:.1e}.""")
