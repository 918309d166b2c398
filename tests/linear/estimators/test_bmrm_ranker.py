"""BMRMRanker: optima and scores against other code, weights, and what its users see."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import ndcg_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate

from sklearn_bundle import BMRMClassifier, BMRMRanker
from sklearn_bundle.losses import Ordinal, PrecisionAtK, Preference
from tests.contract.interrupts import interrupting
from tests.contract.judge import judge

ROWS, QUERIES = 40, 8
LAMBDA = 1e-2
TIGHT = {"tol": 1e-9, "max_iter": 5000}
COST = np.array([[0.0, 1.0, 5.0], [9.0, 0.0, 2.0], [9.0, 9.0, 0.0]])  # the lower part is not used


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


def assert_optimal(ours, X, y, weight=None, group=None):
    """Against clarabel on all pairs, and on all lists of a query."""
    judge(ours, X, y, weight, group=group)
    assert ours.status_ == "converged"


# ---- optima ------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("cost", ["absolute", "constant", "squared", COST], ids=str)
def test_ordinal_against_clarabel(X, grades, group, weighted, grouped, cost):
    weight = np.random.default_rng(4).integers(1, 4, ROWS) if weighted else None
    queries = group if grouped else None
    ours = ranker(cost=cost, **TIGHT).fit(X, grades, weight, group=queries)
    assert_optimal(ours, X, grades, weight, queries)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("solver", ["line-search", "cutting-plane"])
def test_preference_against_clarabel(X, pairs, weighted, solver):
    rng = np.random.default_rng(4)
    weight = rng.integers(1, 4, ROWS) if weighted else None
    y = np.c_[pairs, rng.integers(1, 4, len(pairs))] if weighted else pairs
    ours = ranker("preference", solver=solver, **TIGHT).fit(X, y, weight)
    assert_optimal(ours, X, y, weight)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [None, 2])
def test_ndcg_against_clarabel(X, grades, group, weighted, k):
    """All lists of a query of five documents: 120 planes."""
    weight = (1.0 + group % 3) if weighted else None
    ours = ranker("ndcg", k=k, **TIGHT).fit(X, grades, weight, group=group)
    assert_optimal(ours, X, grades, weight, group)


def test_two_grades_are_the_roc_area(X, grades):
    ours = ranker(tol=1e-10).fit(X, grades > 0)
    area = BMRMClassifier("roc_auc", reg_lambda=LAMBDA, tol=1e-10).fit(X, grades > 0)
    assert ours.objective_ == pytest.approx(area.objective_, rel=1e-9)
    weight = np.arange(1.0, ROWS + 1)
    score = roc_auc_score(grades > 0, ours.predict(X), sample_weight=weight)
    assert ours.score(X, grades > 0, weight) == pytest.approx(score, rel=1e-12)


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


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("cost", ["absolute", COST], ids=str)
def test_ordinal_weights_are_repeated_and_missing_rows(X, grades, group, grouped, cost):
    counts = np.random.default_rng(5).integers(0, 4, ROWS)
    ours = ranker(cost=cost, **TIGHT)

    def fit(rows, weight=None):
        queries = group[rows] if grouped else None
        return clone(ours).fit(X[rows], grades[rows], weight, group=queries)

    everything = np.arange(ROWS)
    repeated = fit(everything.repeat(counts))
    assert fit(everything, counts).objective_ == pytest.approx(repeated.objective_, rel=2e-9)
    zeros, missing = fit(everything, (counts > 0) * 1.0), fit(np.flatnonzero(counts))
    assert np.array_equal(zeros.coef_, missing.coef_)
    assert np.array_equal(zeros.thresholds_, missing.thresholds_)


def test_preference_weights_are_repeated_pairs(X, pairs):
    """Every copy of the better row is paired with every copy of the worse one."""
    counts = np.random.default_rng(5).integers(0, 3, ROWS)
    start = np.r_[0, np.cumsum(counts)]
    copies = [
        (start[i] + a, start[j] + b)
        for i, j in pairs
        for a in range(counts[i])
        for b in range(counts[j])
    ]
    weighted = ranker("preference", **TIGHT).fit(X, pairs, counts)
    repeated = ranker("preference", **TIGHT).fit(X.repeat(counts, axis=0), copies)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=2e-9)


def test_ndcg_weights_are_repeated_and_missing_queries(X, grades, group):
    counts = np.random.default_rng(5).integers(0, 3, QUERIES)
    rows = [np.flatnonzero(group == q) for q in range(QUERIES)]
    copies = [r for r, count in zip(rows, counts, strict=True) for _ in range(count)]
    queries = np.concatenate([np.full(len(r), k) for k, r in enumerate(copies)])
    rows = np.concatenate(copies)
    weighted = ranker("ndcg", **TIGHT).fit(X, grades, counts[group], group=group)
    repeated = ranker("ndcg", **TIGHT).fit(X[rows], grades[rows], group=queries)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=2e-9)


@pytest.mark.parametrize("loss", ["ordinal", "ndcg"])
def test_names_and_order_of_queries_do_not_matter(X, grades, group, loss):
    names = np.array([f"query {q}" for q in range(QUERIES)], dtype=object)[group[::-1]]
    a = ranker(loss, **TIGHT).fit(X, grades, group=group)
    b = ranker(loss, **TIGHT).fit(X[::-1], grades[::-1], group=names)
    assert a.objective_ == pytest.approx(b.objective_, rel=2e-9)


# ---- errors ------------------------------------------------------------------------------------

GROUP = np.arange(ROWS) % 4
RISING = np.arange(ROWS) // 4


@pytest.mark.parametrize(
    "parameters, y, further, message",
    [
        ({"loss": "hinge"}, RISING, {}, "'loss' parameter of BMRMRanker"),
        ({}, np.ones(ROWS), {}, "y must hold two or more grades"),
        ({}, GROUP, {"group": GROUP}, "two or more grades in at least one query"),
        ({}, RISING, {"sample_weight": (RISING == 1) * 1.0}, "y must hold two or more grades"),
        ({}, RISING[1:], {}, r"inconsistent numbers of samples: \[40, 39\]"),
        ({}, RISING * np.nan, {}, "y must be finite"),
        ({}, np.full(ROWS, "good"), {}, "y must hold numbers"),
        ({}, None, {}, "BMRMRanker requires y to be passed, but the target y is None"),
        ({}, RISING, {"group": GROUP[1:]}, r"group must have shape \(40,\).*not \(39,\)"),
        ({"cost": "linear"}, RISING, {}, "'cost' parameter of BMRMRanker .*'linear'"),
        ({"cost": np.ones((2, 3))}, RISING, {}, r"cost must be a square .*\(2, 3\)"),
        ({"cost": -np.ones((9, 9))}, RISING, {}, "cost must be finite and not negative"),
        ({"cost": np.ones((3, 3))}, RISING, {}, "y must hold integers from 0 to 2, the rows"),
        ({"loss": "ndcg"}, RISING, {}, "NDCG needs group"),
        ({"loss": "ndcg"}, RISING, {"sample_weight": 1.0 + RISING}, "NDCG needs group"),
        ({"loss": "ndcg"}, RISING, {"group": GROUP[1:]}, r"group must have shape \(40,\)"),
        ({"loss": "ndcg"}, -RISING, {"group": GROUP}, "relevances that are not negative.*-9"),
        ({"loss": "ndcg"}, GROUP, {"group": GROUP}, "two different gains in at least one query"),
        ({"loss": "ndcg", "k": 0}, RISING, {"group": GROUP}, "'k' parameter of BMRMRanker.*0"),
        (
            {"loss": "ndcg"},
            RISING,
            {"group": GROUP, "sample_weight": 1.0 + RISING},
            "sample_weight must be the same for all rows of a query, but differs in query 0",
        ),
        ({"loss": "preference"}, RISING, {}, r"pairs \(better, worse\).*shape \(40,\)"),
        ({"loss": "preference"}, [[0, 1], [0, 40]], {}, r"from 0 to 39, but pair 1 is \[0.*40"),
        ({"loss": "preference"}, [[0, -1]], {}, "rows from 0 to 39, but pair 0"),
        ({"loss": "preference"}, [[0, 0.5]], {}, "rows from 0 to 39, but pair 0"),
        ({"loss": "preference"}, [[3, 3]], {}, r"paired with itself: pair 0 is \[3, 3\]"),
        ({"loss": "preference"}, [[0, 1, -1]], {}, "costs in y must be finite and not negative"),
        ({"loss": "preference"}, [[0, 1]], {"group": GROUP}, "rows of two queries: pair 0"),
        (
            {"loss": "preference"},
            [[0, 1]],
            {"sample_weight": np.r_[0.0, np.ones(ROWS - 1)]},
            "sample_weight leaves no pair of y in which both rows have a weight",
        ),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused(X, parameters, y, further, message):
    ours = BMRMRanker(**parameters)
    with pytest.raises(ValueError, match=message):
        ours.fit(X, y, **further)
    assert not [name for name in vars(ours) if name.endswith("_")]
    with pytest.raises(NotFittedError):
        ours.predict(X)


def test_only_ordinal_has_grades(X, grades, group):
    ours = ranker("ndcg").fit(X, grades, group=group)
    assert not hasattr(ours, "predict_grades") and not hasattr(ours, "thresholds_")
    ours = ranker(PrecisionAtK(2)).fit(X, grades, group=group)
    assert not hasattr(ours, "predict_grades")


# ---- living with scikit-learn ------------------------------------------------------------------


def targets(loss, grades, pairs):
    return pairs if loss == "preference" else grades


@pytest.mark.wide
@pytest.mark.parametrize("loss", ["ordinal", "preference", "ndcg"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_equals_dense_and_threads_change_nothing(
    X, grades, pairs, group, loss, dtype, monkeypatch
):
    monkeypatch.setattr("sklearn_bundle.core.parallel._BLOCK_ENTRIES", 40)
    y, queries = targets(loss, grades, pairs), None if loss == "preference" else group
    Z = (X * (np.abs(X) > 0.5)).astype(dtype)
    dense, sparse = (
        ranker(loss, tol=1e-8).fit(data, y, group=queries) for data in (Z, sp.csr_array(Z))
    )
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=2e-8)
    assert sparse.coef_.dtype == dense.coef_.dtype
    for data in (Z, sp.csr_array(Z)):
        one, two = (ranker(loss, n_jobs=n).fit(data, y, group=queries) for n in (1, 2))
        assert np.array_equal(one.coef_, two.coef_) and one.lower_bound_ == two.lower_bound_


@pytest.mark.wide
@pytest.mark.parametrize("regularizer", ["l2", "l1", "lp"])
@pytest.mark.parametrize("loss", ["ordinal", "preference", "ndcg"])
def test_warm_start(X, grades, pairs, group, loss, regularizer):
    y, queries = targets(loss, grades, pairs), None if loss == "preference" else group
    warm = ranker(loss, warm_start=True, tol=1e-7, max_iter=5000, regularizer=regularizer)
    warm.fit(X, y, group=queries)
    warm.set_params(reg_lambda=LAMBDA / 2).fit(X, y, group=queries)
    cold = clone(warm).fit(X, y, group=queries)
    assert warm.n_iter_ < cold.n_iter_
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-7)
    assert warm.lower_bound_ <= cold.objective_ * (1 + 1e-12)


@pytest.mark.parametrize("change", ["group", "cost", "y"])
def test_warm_start_only_on_the_same_problem(X, grades, group, change):
    warm = ranker(warm_start=True, tol=1e-6).fit(X, grades, group=group)
    if change == "cost":
        warm.set_params(cost="squared")
    args = {
        "group": (X, grades, None, group[::-1]),
        "cost": (X, grades, None, group),
        "y": (X, grades[::-1], None, group),
    }[change]
    cold = clone(warm).fit(*args)
    warm.fit(*args)
    assert warm.n_iter_ == cold.n_iter_ and warm.objective_ == cold.objective_


def test_few_planes(X, grades):
    few = ranker(tol=1e-6, bundle_size=3, max_iter=20_000, warm_start=True).fit(X, grades)
    assert few._warm.kept[0].bundle.size <= 3
    assert few.objective_ == pytest.approx(ranker(tol=1e-6).fit(X, grades).objective_, rel=2e-6)


def test_pickle_and_data_frame(X, grades, group):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    ours = ranker().fit(frame, pd.Series(grades), group=pd.Series(group))
    assert ours.feature_names_in_.tolist() == list("abcd")
    copy = pickle.loads(pickle.dumps(ours))
    assert np.array_equal(copy.predict_grades(frame), ours.predict_grades(frame))


@pytest.mark.parametrize("loss", ["ordinal", "ndcg"])
def test_group_is_routed_through_cross_validation(X, grades, group, loss):
    with sklearn.config_context(enable_metadata_routing=True):
        model = ranker(loss).set_fit_request(group="groups").set_score_request(group="groups")
        result = cross_validate(model, X, grades, cv=GroupKFold(3), params={"groups": group})
    scores = []
    for train, test in GroupKFold(3).split(X, grades, group):
        fold = ranker(loss).fit(X[train], grades[train], group=group[train])
        scores.append(fold.score(X[test], grades[test], group=group[test]))
    assert result["test_score"].tolist() == scores


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


@pytest.mark.wide
def test_search_over_loss_cost_and_regularizer(X, grades):
    regularizers = {"regularizer": ["l2", "l1", "lp"]}
    grid = [
        {"loss": ["ordinal"], "cost": ["constant", "absolute"], **regularizers},
        {"loss": [Ordinal("squared")], "cost": ["absolute"], **regularizers},
    ]
    search = GridSearchCV(ranker(), grid, cv=2, error_score="raise").fit(X, grades)
    assert 0.5 < search.best_score_ <= 1.0


def test_limits(X, grades):
    with pytest.warns(ConvergenceWarning, match=r"'max_iter' after 2 iter.*gap of .*, above tol="):
        ours = ranker(max_iter=2, tol=1e-12).fit(X, grades)
    assert ours.status_ == "max_iter" and ours.n_iter_ == len(ours.history_) == 2
    with pytest.warns(ConvergenceWarning, match="'max_time'"):
        assert ranker(max_time=1e-9, tol=1e-12).fit(X, grades).n_iter_ == 1


def test_ctrl_c_keeps_the_best_point(X, pairs):
    ours = ranker(interrupting(Preference, 3), tol=1e-13)
    with pytest.raises(KeyboardInterrupt):
        ours.fit(X, pairs)
    assert ours.status_ == "interrupted" and ours.objective_ < 1.0
    assert ours.predict(X).shape == (ROWS,)


def test_callbacks_get_the_queries(X, grades, group):
    callback = pytest.importorskip("sklearn.callback")

    def scoring(model, X, y, group):
        return model.score(X, y, group=group)

    monitor = callback.ScoringMonitor(scoring={"ndcg": scoring})
    ours = ranker("ndcg").set_callbacks(monitor).fit(X, grades, group=group)
    final = next(row for row in monitor.get_logs().data if row["task_name"] == "fit")
    assert final["ndcg"] == ours.score(X, grades, group=group)
