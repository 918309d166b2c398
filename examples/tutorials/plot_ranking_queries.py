"""
Learn to rank the answers to a query
====================================

Put the best candidates on top of each list, from lists that people made. You choose between losses
for ranking, compare them with plain classifiers and trees by NDCG, and see how much of a difference
is noise.

The lists are real: the authors of scipy and scikit-learn end a docstring with "See Also". A query
is a function or class, the candidates are the 20 of its package whose descriptions are the most
similar, and those that its authors list are relevant. The text of a query leaves out its list.
"""

from time import process_time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import ndcg_score
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from texts import docstrings  # a file beside this one

from sklearn_bundle import BMRMRanker

# %%
# From texts to rows
# ------------------
#
# A row is a pair of query and candidate. Its features say how similar texts and names are, and
# whether the two come from the same module.

N_CANDIDATES, K = 20, 10
FEATURES = ["words", "parts of words", "name", "begin of name", "end of name", "same module"]
FEATURES += ["length of text", "named in text"]


def similarity(strings, **settings):
    rows = TfidfVectorizer(sublinear_tf=True, **settings).fit_transform(strings)
    return (rows @ rows.T).toarray()


def common(a, b):
    """Length of the common beginning."""
    pairs = zip(a, b, strict=False)
    return next((k for k, (c, d) in enumerate(pairs) if c != d), min(len(a), len(b)))


def pairs_of(entries):
    """X, relevance, query, module and candidate of all pairs of the entries of a package."""
    texts, names = [e.text for e in entries], [e.name for e in entries]
    words = similarity(texts, stop_words="english")
    parts = similarity(texts, analyzer="char_wb", ngram_range=(3, 5))
    by_name = similarity(names, analyzer="char_wb", ngram_range=(1, 3))
    X, relevance, query, module, candidate = [], [], [], [], []
    for q, entry in enumerate(entries):
        score = words[q] + parts[q]
        score[q] = -1.0
        candidates = np.argsort(-score, kind="stable")[:N_CANDIDATES]
        listed = [names[c] in entry.see_also for c in candidates]
        if not any(listed):
            continue
        for c, hit in zip(candidates, listed, strict=True):
            a, b = entry.name, names[c]
            X.append([words[q, c], parts[q, c], by_name[q, c], common(a, b)])
            X[-1] += [common(a[::-1], b[::-1]), entry.topic == entries[c].topic]
            X[-1] += [np.log1p(len(texts[c])), b in entry.text]
            relevance.append(hit)
            query.append(f"{entry.topic}.{a}")
            module.append(entry.topic)
            candidate.append(b)
    return X, relevance, query, module, candidate


entries = docstrings()
packages = {entry.topic.split(".")[0] for entry in entries}
tables = [pairs_of([e for e in entries if e.topic.startswith(p)]) for p in sorted(packages)]
X, relevance, query, module, candidate = map(np.concatenate, zip(*tables, strict=True))
X, relevance = X.astype(float), relevance.astype(int)
queries, query = np.unique(query, return_inverse=True)
print(f"{len(queries)} queries, {len(X)} rows, {relevance.mean():.0%} of them relevant")

# %%
# The contest
# -----------
#
# Whole modules are held out: "A lists B" often comes with "B lists A", and both have the same row.
# Each model has its ``reg_lambda`` or ``C`` from one grid, by the mean NDCG@10 of these folds, so
# that all have the same advantage.


def ranker(loss, reg_lambda):
    settings = {"k": K} if loss == "ndcg" else {}
    return BMRMRanker(loss, reg_lambda=reg_lambda, **settings)


def fit(model, X, y, group):
    """A function that scores rows."""
    pipeline = make_pipeline(StandardScaler(), model)
    if isinstance(model, BMRMRanker):
        pipeline.fit(X, y, bmrmranker__group=group)
        return pipeline.predict
    pipeline.fit(X, y)
    return lambda rows: pipeline.predict_proba(rows)[:, 1]


def ndcg(scores):
    """NDCG@10 of each query."""
    rows = [np.flatnonzero(query == q) for q in range(len(queries))]
    return np.array([ndcg_score([relevance[r]], [scores[r]], k=K) for r in rows])


def unseen(model):
    """Scores of each row by a model that has not seen its module, and CPU seconds."""
    scores, start = np.empty(len(X)), process_time()
    for train, test in GroupKFold(3).split(X, groups=module):
        scores[test] = fit(model, X[train], relevance[train], query[train])(X[test])
    return scores, process_time() - start


reg_lambdas = (1e-1, 1e-2, 1e-3)
contest = {
    "ndcg": [ranker("ndcg", reg_lambda) for reg_lambda in reg_lambdas],
    "ordinal, within queries": [ranker("ordinal", reg_lambda) for reg_lambda in reg_lambdas],
    "LogisticRegression": [LogisticRegression(C=1.5 / (len(X) * value)) for value in reg_lambdas],
    "gradient boosting": [
        HistGradientBoostingClassifier(max_iter=100, learning_rate=rate, random_state=0)
        for rate in (0.2, 0.05, 0.02)
    ],
}
small = np.flatnonzero(query < 20)
for loss in ("ndcg", "ordinal"):  # compiles
    fit(ranker(loss, 1e-1), X[small], relevance[small], query[small])
results, seconds = {"similarity of words": ndcg(X[:, 0])}, {"similarity of words": 0.0}
for name, models in contest.items():
    tried = [unseen(model) for model in models]
    each = [ndcg(scores) for scores, _ in tried]
    results[name] = max(each, key=np.mean)
    seconds[name] = sum(time for _, time in tried)

first = results["ndcg"]
print(f"{'':<25}{'NDCG@10':>8}{'ndcg less this one':>22}{'CPU s, whole grid':>20}")
for name, values in results.items():
    less = first - values
    error = less.std() / np.sqrt(len(less))
    print(
        f"{name:<25}{values.mean():>8.3f}{less.mean():>+12.3f} +- {error:.3f}{seconds[name]:>18.2f}"
    )

# %%
# All that learn are far ahead of the plain similarity. Among them look at the error, one standard
# error over the queries: a difference of less than twice that is not worth paying for. So
# begin with the cheapest.
#
# What the ranker weighs
# ----------------------
#
# A linear ranker can be read. The features have standard deviation 1.

scaler = StandardScaler().fit(X)
model = ranker("ordinal", 1e-2).fit(scaler.transform(X), relevance, group=query)
print(f"{model.status_}, relative gap {model.relative_gap_:.1e}")
for k in np.argsort(-np.abs(model.coef_)):
    print(f"{FEATURES[k]:<16}{model.coef_[k]:>+7.3f}")

# %%
# Three lists to judge yourself, at a quarter, half and three quarters of the NDCG: the five best
# candidates by the similarity of words, and by a ranker that was fitted without the query's module.
# A star is one that the authors list.

learned, _ = unseen(ranker("ordinal", 1e-2))
by_ndcg = np.argsort(ndcg(learned), kind="stable")
for q in by_ndcg[len(queries) // 4 :: len(queries) // 4][:3]:
    rows = np.flatnonzero(query == q)
    print(queries[q])
    for name, scores in (("words", X[:, 0]), ("ranker", learned)):
        top = rows[np.argsort(-scores[rows], kind="stable")[:5]]
        print(f"    {name:<7}", *(candidate[r] + "*" * relevance[r] for r in top))

# %%
# The picture
# -----------
#
# The mean NDCG with two standard errors of its difference to "ndcg". The length of a line is what
# the choice of the queries can do to the comparison.

figure, ax = plt.subplots(figsize=(7.4, 3.8), layout="constrained")
labels = list(results)
means = np.array([values.mean() for values in results.values()])
errors = [2 * (first - values).std() / np.sqrt(len(first)) for values in results.values()]
colors = ["0.6", "#0072B2", "#0072B2", "#D55E00", "#D55E00"]
ax.hlines(labels, means - errors, means + errors, color=colors, linewidth=3)
ax.scatter(means, labels, color=colors, s=60)
ax.invert_yaxis()
ax.set_xlabel("NDCG@10 of queries of unseen modules")
ax.grid(axis="x", alpha=0.4)
best = labels[int(np.argmax(means))]
ax.set_title(f"The best is {best} with {means.max():.3f}; ndcg has {first.mean():.3f}")
plt.show()
