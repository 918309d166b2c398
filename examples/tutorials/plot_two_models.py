"""
Two models compared honestly: is the difference real?
=====================================================

Before you report that one model beats another, rule out two other reasons: a solver that stopped
early or had another seed, and a test set that happens to favor one of them. The certificate rules
out the first, and a paired test measures the second.

The question to the digits data: odd or even? The contest: the hinge loss against the logistic loss.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import binomtest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sklearn_bundle import BMRMClassifier

X, digit = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, digit % 2, test_size=0.5, random_state=0)
scaler = StandardScaler().fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)
REG_LAMBDA = 1e-3
C = 1 / (len(y) * REG_LAMBDA)
print(f"{len(y)} digits to train, {len(y_test)} to test")

# %%
# First reason: the solver
# ------------------------
#
# ``score_bounds`` says between which two accuracies that of the exact optimum lies. At the default
# gap it says little; at a small one the range shrinks to a point, and no solver, seed or further
# iteration can move that accuracy.

models = {}
print(f"{'loss':<10}{'tol':>8}{'accuracy':>10}{'accuracy of the optimum':>26}")
for loss in ("hinge", "log_loss"):
    for tol in (1e-3, 1e-10):
        model = BMRMClassifier(loss, reg_lambda=REG_LAMBDA, tol=tol).fit(X, y)
        low, high = model.score_bounds(X_test, y_test)
        print(
            f"{loss:<10}{tol:>8.0e}{model.score(X_test, y_test):>10.4f}{low:>15.4f} to {high:.4f}"
        )
    models[loss] = model
bounds = {loss: model.score_bounds(X_test, y_test) for loss, model in models.items()}

# %%
# The peers have no such range. Their accuracies for ten seeds show some of it, for ``LinearSVC`` as
# it comes and with 100 times the iterations. (It penalizes the intercept, which is another
# objective. ``LogisticRegression`` has no seed in its default solver, and settles by itself.)


def by_seeds(make):
    accuracies = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for seed in range(10):
            accuracies.append(make(seed).fit(X, y).score(X_test, y_test))
    return min(accuracies), max(accuracies)


peers = {
    "LinearSVC, as it comes": lambda seed: LinearSVC(loss="hinge", C=C, random_state=seed),
    "LinearSVC, long": lambda seed: LinearSVC(
        loss="hinge", C=C, tol=1e-8, max_iter=100_000, random_state=seed
    ),
    "LogisticRegression": lambda seed: LogisticRegression(C=C, max_iter=1000, random_state=seed),
}
ranges = {name: by_seeds(make) for name, make in peers.items()}
for name, (low, high) in ranges.items():
    print(f"{name:<24} {low:.4f} to {high:.4f}")

# %%
# Second reason: the test set
# ---------------------------
#
# Both models are asked the same questions, so only those count that one gets right and the other
# wrong. If the models were equally good, each of these would be a toss of a coin: this is the exact
# test of McNemar.

right = {loss: model.predict(X_test) == y_test for loss, model in models.items()}
only_hinge = np.sum(right["hinge"] & ~right["log_loss"])
only_log = np.sum(right["log_loss"] & ~right["hinge"])
p_value = binomtest(only_hinge, only_hinge + only_log).pvalue if only_hinge + only_log else 1.0
difference = right["hinge"].astype(float) - right["log_loss"]
error = difference.std(ddof=1) / np.sqrt(len(difference))
print(f"right only by hinge: {only_hinge}, only by log_loss: {only_log}; p = {p_value:.2f}")
print(f"difference of the accuracies {difference.mean():+.4f}, standard error {error:.4f}")

# %%
# A third reason is the training set, which was one of many. Ten other halves show it. They share
# rows, so the usual standard error is too small; Nadeau and Bengio (2003) add the ratio of the test
# rows to the training rows, here 1.


def accuracies(seed):
    halves = train_test_split(*load_digits(return_X_y=True), test_size=0.5, random_state=seed)
    scaler = StandardScaler().fit(halves[0])
    A, B = scaler.transform(halves[0]), scaler.transform(halves[1])
    a, b = halves[2] % 2, halves[3] % 2
    return [
        BMRMClassifier(loss, reg_lambda=REG_LAMBDA, tol=1e-6).fit(A, a).score(B, b)
        for loss in models
    ]


others = np.array([accuracies(seed) for seed in range(1, 11)])
differences = others[:, 0] - others[:, 1]
corrected = differences.std(ddof=1) * np.sqrt(1 / len(differences) + 1)
print(f"ten halves: difference {differences.mean():+.4f}, standard error {corrected:.4f}")

# %%
# A difference of less than two such errors says nothing about the losses, however exactly each
# accuracy is known. What would it take? The error of the test set falls with the root of its rows:

needed = (2 * difference.std(ddof=1) / max(abs(differences.mean()), 1e-12)) ** 2
print(
    f"to show {abs(differences.mean()):.4f} at two standard errors: about {needed:,.0f} test rows"
)

# %%
# The picture
# -----------
#
# How far each reason alone can move the difference of the two accuracies. At our default ``tol``
# the certified range is far wider, as the first table says; at 1e-10 nothing is left of it.

reasons = {
    "solver: seeds of LinearSVC,\nas it comes": np.ptp(ranges["LinearSVC, as it comes"]),
    "solver: seeds of LinearSVC, long": np.ptp(ranges["LinearSVC, long"]),
    "solver: ours at tol=1e-10,\ncertified": sum(high - low for low, high in bounds.values()),
    "test set: two standard errors": 2 * error,
    "training and test set:\ntwo standard errors": 2 * corrected,
}
figure, ax = plt.subplots(figsize=(7.4, 4.5), layout="constrained")
colors = ["#D55E00", "#D55E00", "#0072B2", "0.5", "0.5"]
bars = ax.barh(list(reasons), list(reasons.values()), color=colors)
ax.bar_label(bars, [f"{width:.4f}" for width in reasons.values()], padding=3)
ax.axvline(
    abs(difference.mean()), color="black", linestyle="--", label="difference found, as it is"
)
ax.invert_yaxis()
ax.set(xlabel="accuracy", xlim=(0, 1.2 * max(reasons.values())))
ax.legend()
real = "real" if abs(differences.mean()) > 2 * corrected else "not shown to be real"
ax.set_title(
    f"hinge {right['hinge'].mean():.4f}, log_loss {right['log_loss'].mean():.4f}:\n"
    f"a difference that is {real}"
)
plt.show()
