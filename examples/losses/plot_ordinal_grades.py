"""
Are grades classes or numbers?
==============================

Learn to predict grades by their order alone. Grades are neither classes nor numbers. A classifier
does not know that grade 1 is next to grade 2. Regression takes the step from 0 to 1 to be as large
as that from 3 to 4. The loss ``"ordinal"`` of :class:`~sklearn_bundle.BMRMRanker` uses the order,
and nothing else.

The data is the diabetes set, with the progression of the disease cut into five grades: 0 for the
milder half, and then ever rarer ones.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, RepeatedKFold
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMRanker

X, progression = load_diabetes(return_X_y=True)
cuts = np.quantile(progression, [0.5, 0.75, 0.875, 0.95])
y = np.searchsorted(cuts, progression)
print(f"{len(y)} samples; of the grades 0 to 4: {np.bincount(y)}")

# %%
# A ranker gives scores, the higher the better. After the fit, ``thresholds_`` cut them into grades
# where the mean absolute error on the training data is the smallest.

scores = np.empty(len(y))
for train, test in KFold(5, shuffle=True, random_state=0).split(X):
    scaler = StandardScaler().fit(X[train])
    ranker = BMRMRanker("ordinal", reg_lambda=1e-2).fit(scaler.transform(X[train]), y[train])
    scores[test] = ranker.predict(scaler.transform(X[test]))
    print(
        f"{ranker.lower_bound_:.4f} <= minimum <= {ranker.objective_:.4f}, "
        f"thresholds {np.round(ranker.thresholds_, 2)}, pairs of held-out samples in the right "
        f"order: {ranker.score(scaler.transform(X[test]), y[test]):.3f}"
    )

# %%
# What does it gain? Three models with the same amount of regularization, in repeated
# cross-validation. The mean absolute error counts a mistake by two grades twice; the share of
# wrong grades counts it once; the last measure counts only mistakes by two grades or more.

reg_lambda = 1e-2
measures = ("mean absolute error", "share wrong", "share wrong by 2 or more")


def grades(model, X, K):
    """Predicted grades, out of 0, ..., K - 1."""
    if isinstance(model, BMRMRanker):
        return model.predict_grades(X)
    return np.clip(np.rint(model.predict(X)), 0, K - 1).astype(int)


def errors(model, X, y):
    """The three measures, in a row for each fold."""
    rows = []
    for train, test in RepeatedKFold(n_splits=5, n_repeats=4, random_state=0).split(X):
        scaler = StandardScaler().fit(X[train])
        model.fit(scaler.transform(X[train]), y[train])
        wrong = np.abs(grades(model, scaler.transform(X[test]), y.max() + 1) - y[test])
        rows.append([wrong.mean(), np.mean(wrong >= 1), np.mean(wrong >= 2)])
    return np.array(rows)


n = 4 * len(y) // 5
table = {
    "BMRMRanker": errors(BMRMRanker("ordinal", reg_lambda=reg_lambda), X, y),
    "LogisticRegression": errors(LogisticRegression(C=1 / (n * reg_lambda), max_iter=1000), X, y),
    "Ridge, rounded": errors(Ridge(alpha=n * reg_lambda), X, y),
}
print(f"{'':<20}" + "".join(f"{measure:>26}" for measure in measures))
for model, rows in table.items():
    print(f"{model:<20}" + "".join(f"{value:>26.3f}" for value in rows.mean(axis=0)))

# %%
# Each model is ahead in what it was made for. The order gives the smallest mean absolute error.
# Logistic regression is wrong least often, but it is far off more often than the others, since to
# it all wrong grades are alike. Ridge is seldom far off, but most often wrong. The differences from
# the ranker, fold by fold, and twice their standard error (the folds overlap, so this is a rough
# guide only):

for model in ("LogisticRegression", "Ridge, rounded"):
    difference = (table[model] - table["BMRMRanker"])[:, 0]
    error = 2 * difference.std(ddof=1) / np.sqrt(len(difference))
    print(f"{model:<20} mean absolute error {difference.mean():+.3f} +- {error:.3f}")

# %%
# The same as a figure. The bars are two standard errors.

figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
for shift, (model, rows), marker, color in zip(
    (-0.15, 0, 0.15), table.items(), "os^", ("#0072B2", "#D55E00", "#009E73"), strict=True
):
    error = 2 * rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
    look = {"fmt": marker, "markersize": 9, "capsize": 4, "color": color, "label": model}
    ax.errorbar(np.arange(3) + shift, rows.mean(axis=0), error, **look)
ax.set_xticks(
    range(3), ["mean absolute error\n[grades]", "share wrong", "share wrong\nby 2 or more"]
)
best = min(table, key=lambda model: table[model][:, 0].mean())
ax.set(ylim=(0, None), title=f"The smallest mean absolute error: {best}")
ax.legend()
plt.show()

# %%
# The scores of the samples when their fold was held out, a row per true grade. The rows overlap
# much, but up to grade 3 they move to the right. Grade 4 can hardly be told from it and, beyond the
# last threshold, is hardly ever predicted.

figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
jitter = np.random.default_rng(0).uniform(-0.3, 0.3, len(y))
ax.scatter(scores, y + jitter, s=12, color="#0072B2", alpha=0.7)
for k in range(5):
    ax.plot(np.median(scores[y == k]), k, "k|", markersize=28, markeredgewidth=2)
ax.plot([], [], "k|", markersize=12, markeredgewidth=2, label="median")
for threshold in ranker.thresholds_:
    ax.axvline(threshold, color="#D55E00", linestyle="dashed", linewidth=1)
ax.plot([], [], color="#D55E00", linestyle="dashed", label="thresholds of the last fold")
ax.set(xlabel="score of a held-out sample", ylabel="true grade", yticks=range(5), ylim=(-0.5, 5.3))
ax.set_title("One score, cut by thresholds into grades")
ax.legend(loc="upper left")
plt.show()
