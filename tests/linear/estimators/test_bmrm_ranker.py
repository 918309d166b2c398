"""BMRMRanker: optima and scores against other code, weights, and what its users see."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.metrics import ndcg_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score

from sklearn_bundle import BMRMRanker
from sklearn_bundle.losses import PrecisionAtK

ROWS, QUERIES = 40, 8
LAMBDA = 1e-2
TIGHT = {"tol": 1e-9, "max_iter": 5000}


@pytest.fixture(scope="module")
def X():
    """Ties among the rows too."""
    return np.round(np.random.default_rng(0).normal(size=(ROWS, 4)), 1)


@pytest.fixture(scope="module")
def grades(X):
    noise = np.random.default_rng(1).normal(size=ROWS)
    return np.digitize(X @ [1.0, -1.0, 0.5, 0.0] + noise, [-0.7, 0.7])


@pytest.fixture(scope="module")
def group():
    return np.random.default_rng(2).permutation(np.arange(ROWS) % QUERIES)


@pytest.fixture(scope="module")
def pairs(grades):
    pairs = np.random.default_rng(3).integers(0, ROWS, (200, 2))
    return pairs[grades[pairs[:, 0]] > grades[pairs[:, 1]]]


def ranker(loss="ordinal", **parameters):
    return BMRMRanker(loss, **({"reg_lambda": LAMBDA} | parameters))


# ---- optima ------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [None, 3])
def test_score_of_ndcg_against_scikit_learn(X, grades, group, k):
    """ndcg_score has linear gains, and averages over ties; a query of one grade is left out."""
    ours = ranker("ndcg", k=k).fit(X, grades, group=group)
    gains, scores = 2.0**grades - 1.0, ours.predict(X)
    rows = [np.flatnonzero(group == q) for q in range(QUERIES)]
    rows = [r for r in rows if len(set(grades[r])) > 1]
    best = np.mean([ndcg_score(gains[None, r], scores[None, r], k=k) for r in rows])
    assert ours.score(X, grades, group=group) == pytest.approx(best, rel=1e-12)
    tied = clone(ours).fit(X, grades, group=group)
    tied.coef_ = np.array([1.0, 0.0, 0.0, 0.0])
    coarse = np.round(X)
    best = np.mean([ndcg_score(gains[None, r], coarse[None, r, 0], k=k) for r in rows])
    assert tied.score(coarse, grades, group=group) == pytest.approx(best, rel=1e-12)


def test_score_of_preference(X, pairs):
    ours = ranker("preference").fit(X, pairs)
    f = ours.predict(X)
    right = np.mean([0.5 + 0.5 * np.sign(f[i] - f[j]) for i, j in pairs])
    assert ours.score(X, pairs) == pytest.approx(right, rel=1e-12)


# ---- grades ------------------------------------------------------------------------------------


def test_thresholds_have_the_least_error(X, grades):
    """Against all pairs of thresholds between two scores."""
    weight = np.random.default_rng(4).integers(0, 4, ROWS)
    ours = ranker().fit(X, np.array([10, 20, 70])[grades], weight)
    assert ours.grades_.tolist() == [10, 20, 70]
    assert set(ours.predict_grades(X)) <= {10, 20, 70}
    scores = ours.predict(X)
    cuts = np.r_[-np.inf, np.unique(scores)]
    errors = [
        weight @ np.abs((scores > low).astype(int) + (scores > high) - grades)
        for low in cuts
        for high in cuts[cuts >= low]
    ]
    reached = np.searchsorted([10, 20, 70], ours.predict_grades(X))
    assert weight @ np.abs(reached - grades) == min(errors)


# ---- weights -----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["ordinal", "ndcg"])
def test_names_and_order_of_queries_do_not_matter(X, grades, group, loss):
    names = np.array([f"query {q}" for q in range(QUERIES)], dtype=object)[group[::-1]]
    a = ranker(loss, **TIGHT).fit(X, grades, group=group)
    b = ranker(loss, **TIGHT).fit(X[::-1], grades[::-1], group=names)
    assert a.objective_ == pytest.approx(b.objective_, rel=2e-9)


# ---- errors ------------------------------------------------------------------------------------


def test_only_ordinal_has_grades(X, grades, group):
    ours = ranker("ndcg").fit(X, grades, group=group)
    assert not hasattr(ours, "predict_grades") and not hasattr(ours, "thresholds_")
    ours = ranker(PrecisionAtK(2)).fit(X, grades, group=group)
    assert not hasattr(ours, "predict_grades")


# ---- living with scikit-learn ------------------------------------------------------------------


def test_few_planes(X, grades):
    few = ranker(tol=1e-6, bundle_size=3, max_iter=20_000, warm_start=True).fit(X, grades)
    assert few._warm.kept[0].bundle.size <= 3
    assert few.objective_ == pytest.approx(ranker(tol=1e-6).fit(X, grades).objective_, rel=2e-6)


def test_a_missing_group_is_met_with_lines_that_work(X, grades, group):
    with pytest.raises(ValueError, match=r"needs group.* in fit and in score") as caught:
        ranker("ndcg").fit(X, grades, group=group).score(X, grades)
    lines = [line.strip() for line in str(caught.value).splitlines()[1:]]
    told = "\n".join(lines).replace("...", '{"reg_lambda": [1.0, 0.1]}')
    names = {"X": X, "y": grades, "queries": group, "sklearn": sklearn, "BMRMRanker": BMRMRanker}
    peers = (GridSearchCV, GroupKFold, cross_val_score)
    names |= {peer.__name__: peer for peer in peers}
    with sklearn.config_context():  # what the lines set is undone
        exec(told.replace("GridSearchCV(ranker", "search = GridSearchCV(ranker"), names)
    assert 0.0 < names["search"].best_score_ <= 1.0
