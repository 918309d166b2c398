"""
Are grades classes or numbers?
==============================

Neither: they have an order, but the steps between them need not be equal. A classifier does not
know that grade 1 is next to grade 2, and regression takes the step from 0 to 1 for as large as that
from 3 to 4. The loss ``"ordinal"`` of :class:`~sklearn_bundle.BMRMRanker` uses the order alone.

The data is the diabetes set that ships with scikit-learn, with the progression of the disease cut
into five grades: 0 for the milder half, and then ever rarer ones. If the environment variable
``SKLEARN_BUNDLE_DATA`` names a folder with Ben-David's sets ERA, ESL, LEV and SWD, they come next.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, RepeatedKFold
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMRanker
from sklearn_bundle.datasets import load_dataset

X, progression = load_diabetes(return_X_y=True)
cuts = np.quantile(progression, [0.5, 0.75, 0.875, 0.95])
sets = {"diabetes": (X, np.searchsorted(cuts, progression))}
real = {name: load_dataset(name) for name in ("ERA", "ESL", "LEV", "SWD")}
sets |= {name: data for name, data in real.items() if data is not None}

# %%
# A ranker gives scores, the higher the better. After the fit, ``thresholds_`` cut them into grades
# where the mean absolute error on the training data is the smallest.

X, y = sets["diabetes"]
scores = np.empty(len(y))
for train, test in KFold(5, shuffle=True, random_state=0).split(X):
    scaler = StandardScaler().fit(X[train])
    ranker = BMRMRanker("ordinal", reg_lambda=1e-2).fit(scaler.transform(X[train]), y[train])
    scores[test] = ranker.predict(scaler.transform(X[test]))
    print(
        f"{ranker.status_}: {ranker.lower_bound_:.4f} <= minimum <= {ranker.objective_:.4f}, "
        f"thresholds {np.round(ranker.thresholds_, 2)}, pairs of held-out samples in the right "
        f"order: {ranker.score(scaler.transform(X[test]), y[test]):.3f}"
    )

# %%
# What does it gain? Three models with the same amount of regularisation, in repeated
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


tables = {}
for name, (X, y) in sets.items():
    y = np.unique(y, return_inverse=True)[1]
    n = 4 * len(y) // 5
    tables[name] = {
        "BMRMRanker": errors(BMRMRanker("ordinal", reg_lambda=reg_lambda), X, y),
        "LogisticRegression": errors(
            LogisticRegression(C=1 / (n * reg_lambda), max_iter=1000), X, y
        ),
        "Ridge, rounded": errors(Ridge(alpha=n * reg_lambda), X, y),
    }
    print(f"\n{name}: {len(y)} samples, grades 0 to {y.max()}, {np.bincount(y)} of each")
    print(f"{'':<20}" + "".join(f"{measure:>26}" for measure in measures))
    for model, rows in tables[name].items():
        print(f"{model:<20}" + "".join(f"{value:>26.3f}" for value in rows.mean(axis=0)))

# %%
# On the diabetes grades each model is ahead in what it was made for. The order gives the smallest
# mean absolute error. Logistic regression is wrong least often, but it is far off more often than
# the others, since to it all wrong grades are alike. Ridge is seldom far off, but most often wrong.
# The differences to the ranker, fold by fold, and twice their standard error (the folds
# overlap, so that it is a rough guide only):

for name, table in tables.items():
    for model in ("LogisticRegression", "Ridge, rounded"):
        difference = (table[model] - table["BMRMRanker"])[:, 0]
        error = 2 * difference.std(ddof=1) / np.sqrt(len(difference))
        print(f"{name:<9} {model:<20} mean absolute error {difference.mean():+.3f} +- {error:.3f}")

# %%
# Left, the scores of the diabetes samples when their fold was held out, a row for each true grade.
# The rows overlap much, but up to grade 3 they move to the right; grade 4 can hardly be told from
# it and, beyond the last threshold, is hardly ever predicted. Right, the table above.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
y = sets["diabetes"][1]
jitter = np.random.default_rng(0).uniform(-0.3, 0.3, len(y))
left.scatter(scores, y + jitter, s=12, color="#0072B2", alpha=0.7)
for k in range(5):
    left.plot(np.median(scores[y == k]), k, "k|", markersize=28, markeredgewidth=2)
left.plot([], [], "k|", markersize=12, markeredgewidth=2, label="median")
for threshold in ranker.thresholds_:
    left.axvline(threshold, color="#D55E00", linestyle="dashed", linewidth=1)
left.plot([], [], color="#D55E00", linestyle="dashed", label="thresholds of the last fold")
left.set(xlabel="score", ylabel="true grade", title="diabetes, held-out samples", yticks=range(5))
left.set_ylim(-0.5, 5.3)
left.legend(loc="upper left")

colours = ("#0072B2", "#D55E00", "#009E73")
for shift, (model, rows), marker, colour in zip(
    (-0.15, 0, 0.15), tables["diabetes"].items(), "os^", colours, strict=True
):
    error = 2 * rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
    right.errorbar(
        np.arange(3) + shift, rows.mean(axis=0), error, fmt=marker, color=colour, label=model
    )
right.set_xticks(range(3), ["mean absolute\nerror [grades]", "share\nwrong", "wrong by 2\nor more"])
right.set(title="diabetes, cross-validation (bars: 2 standard errors)", ylim=(0, None))
right.legend()
plt.show()
