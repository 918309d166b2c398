"""Estimators on dask collections: the same fit as on one machine, wherever the blocks are."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from sklearn_bundle import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMNoveltyDetector,
    BMRMRegressor,
    bmrm_path,
)
from sklearn_bundle.linear.rows._dask_workers import in_pairs
from sklearn_bundle.losses import BinaryLoss
from tests.contract.blocks import CUTS, blocks_of, collected, da, dask, labeled_rows, missing_file
from tests.contract.fits import quiet
from tests.contract.judge import judge

DENSE, FLOAT32, CSR = "dense", "float32", "csr"


@pytest.fixture(scope="module")
def rows():
    return labeled_rows()


def laid_out(X, layout):
    if layout == FLOAT32:
        return X.astype(np.float32)
    return sp.csr_array(np.where(np.abs(X) > 0.7, X, 0.0)) if layout == CSR else X


class Squares(BinaryLoss):
    """A loss of one's own, which has no second derivatives to offer."""

    def value(self, scores, y):
        return 0.5 * (1.0 - y * scores) ** 2

    def gradient(self, scores, y):
        return scores - y


CLASSIFIERS = ("hinge", "squared_hinge", "log_loss", "exponential", "multiclass_hinge", "softmax")
REGRESSORS = {
    "squared_error": {},
    "absolute_error": {},
    "quantile": {"quantile": 0.8},
    "huber": {"delta": 0.5},
    "epsilon_insensitive": {},
    "squared_epsilon_insensitive": {},
    "poisson": {},
}


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("layout", [DENSE, FLOAT32, CSR])
@pytest.mark.parametrize("loss", CLASSIFIERS)
def test_a_classifier_is_that_of_one_machine(rows, loss, layout):
    X, labels = laid_out(rows[0], layout), rows[1]
    weights = np.random.default_rng(0).uniform(0.1, 2.0, len(labels))
    model = BMRMClassifier(loss, reg_lambda=1e-2, tol=1e-4, class_weight="balanced")
    model.fit(*collected(X, labels, weights))
    assert model.converged_
    judge(model, X, labels, weights)


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("layout", [DENSE, CSR])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", REGRESSORS)
def test_a_regressor_is_that_of_one_machine(rows, loss, fit_intercept, layout):
    X = laid_out(rows[0], layout)
    y = np.abs(rows[0] @ np.arange(6.0)) + 0.1 * rows[1]
    model = BMRMRegressor(
        loss, reg_lambda=1e-2, tol=1e-4, fit_intercept=fit_intercept, **REGRESSORS[loss]
    ).fit(*collected(X, y))
    assert model.converged_
    judge(model, X, y)


@pytest.mark.parametrize("solver", ["newton", "line-search", "cutting-plane"])
def test_every_solver_of_blocks(rows, solver):
    X, y = rows[0], rows[1] > 0
    model = BMRMClassifier(reg_lambda=1e-2, solver=solver, tol=1e-2).fit(*collected(X, y))
    assert model.converged_ and model.history_["solver"][-1] == solver
    judge(model, X, y)


@pytest.mark.wide
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("layout", [DENSE, CSR])
def test_lbfgs_on_blocks(rows, layout, fit_intercept):
    """Smooth losses, a start far from the best intercept, and the planes that balance a bound."""
    X, y = laid_out(rows[0], layout), rows[1] > 0
    settings = {"solver": "lbfgs", "tol": 1e-4, "fit_intercept": fit_intercept}
    for model, target in (
        (BMRMClassifier("log_loss", reg_lambda=1e-3), y),
        (BMRMClassifier("squared_hinge", reg_lambda=1.0), y),
        (BMRMRegressor("huber", delta=5.0, reg_lambda=1e-2), 1e3 + 10.0 * rows[0] @ np.ones(6)),
        (BMRMRegressor("poisson", reg_lambda=1e-2), 1.0 * rows[1]),
    ):
        model.set_params(**settings).fit(*collected(X, target))
        assert model.converged_ and model.history_["solver"][-1] == "lbfgs"
        judge(model, X, target)
    with pytest.raises(ValueError, match="needs all rows in memory"):
        BMRMClassifier("softmax", solver="lbfgs").fit(*collected(X, rows[1]))


@pytest.mark.parametrize(
    "loss, kind", [("log_loss", BMRMClassifier), ("squared_error", BMRMRegressor)]
)
def test_wide_smooth_losses_go_by_lbfgs(loss, kind):
    rng = np.random.default_rng(0)
    X = sp.random_array((80, 2001), density=0.01, format="csr", rng=rng)
    y = np.where(X @ rng.normal(size=2001) > 0.0, 1.0, -1.0)
    cuts = (0, 30, 80)
    model = kind(loss, tol=1e-3).fit(blocks_of(X, cuts), blocks_of(y, cuts))
    assert model.converged_ and model.history_["solver"][-1] == "lbfgs"
    alone = kind(loss, tol=1e-6).fit(X, y)  # a judge in extended precision takes a minute
    assert model.lower_bound_ <= alone.objective_ and alone.lower_bound_ <= model.objective_


@pytest.mark.parametrize("fit_intercept", [True, pytest.param(False, marks=pytest.mark.wide)])
@pytest.mark.parametrize("regularizer", ["l2", pytest.param("l1", marks=pytest.mark.wide)])
@pytest.mark.parametrize("loss, kind", [("hinge", BMRMClassifier), ("quantile", BMRMRegressor)])
def test_wide_kinked_losses_gather_scores(loss, kind, regularizer, fit_intercept):
    rng = np.random.default_rng(0)
    X = sp.random_array((80, 2001), density=0.01, format="csr", rng=rng)
    y = X @ rng.normal(size=2001) + 0.3
    y = np.where(y > 0.0, 1.0, -1.0) if kind is BMRMClassifier else y
    cuts, settings = (0, 30, 31, 80), {"regularizer": regularizer, "fit_intercept": fit_intercept}
    model = kind(loss, reg_lambda=1e-2, tol=1e-3, **settings)
    model.fit(blocks_of(X, cuts), blocks_of(y, cuts))
    solver = "sample-planes" if regularizer == "l2" else "line-search"
    assert model.converged_ and model.history_["solver"][-1] == solver
    assert model.history_["rounds"][-1] == model.history_["passes"][-1]
    alone = kind(loss, reg_lambda=1e-2, tol=1e-6, **settings).fit(X, y)
    assert model.lower_bound_ <= alone.objective_ and alone.lower_bound_ <= model.objective_


@pytest.mark.wide
def test_a_loss_of_one_s_own(rows):
    X, y = rows[0], rows[1] > 0
    ours, theirs = (
        BMRMClassifier(Squares(), reg_lambda=1e-2, tol=1e-6).fit(*data)
        for data in (collected(X, y), (X, y))
    )
    assert ours.converged_ and ours.lower_bound_ <= theirs.objective_
    assert theirs.lower_bound_ <= ours.objective_


@pytest.mark.wide
@pytest.mark.parametrize("max_iter", [1, 2, 3])
def test_bounds_of_the_first_steps_are_true(rows, max_iter):
    X, y = 0.1 * rows[0], rows[1] > 0  # what the intercept gains is nearly all
    for model in (BMRMClassifier("log_loss"), BMRMClassifier("hinge"), BMRMRegressor()):
        model.set_params(reg_lambda=1.0, tol=1e-9, max_iter=max_iter)
        judge(quiet(model, *collected(X, y)), X, y)


@pytest.mark.wide
def test_several_targets_and_one_class(rows):
    X, Y = rows[0], rows[0] @ np.ones((6, 2)) + rows[1][:, None]
    judge(BMRMRegressor(tol=1e-4).fit(*collected(X, Y)), X, Y)
    judge(BMRMRegressor("huber", tol=1e-4).fit(*collected(X, Y)), X, Y)
    judge(BMRMNoveltyDetector(rho=1.0, tol=1e-3).fit(*collected(X)), X)


@pytest.mark.wide
def test_l1_and_a_path(rows):
    X, y = rows[0], rows[1] > 0
    model = BMRMClassifier("log_loss", regularizer="l1", reg_lambda=0.02, tol=1e-3)
    judge(model.fit(*collected(X, y)), X, y)
    values = [1.0, 1e-1, 1e-2]
    ours, theirs = (bmrm_path(*data, reg_lambdas=values) for data in (collected(X, y), (X, y)))
    np.testing.assert_array_less(ours[3], 1e-3)
    np.testing.assert_allclose(ours[1], theirs[1], atol=0.03)


def test_a_search_has_folds_of_blocks(rows):
    X, y = rows[0], rows[1] > 0
    data, values = collected(X, y), [1.0, 1e-2]
    model = BMRMClassifierCV("log_loss", reg_lambdas=values, cv=2, tol=1e-6).fit(*data)
    held_out = np.zeros(300, dtype=bool)
    held_out[:70] = held_out[75:190] = True
    for k, test in enumerate((held_out, ~held_out)):
        for i, value in enumerate(values):
            alone = BMRMClassifier("log_loss", reg_lambda=value, tol=1e-6).fit(X[~test], y[~test])
            assert model.scores_[k, i] == pytest.approx(alone.score(X[test], y[test]), abs=0.011)
    judge(model, X, y)
    with pytest.raises(ValueError, match="cv must be a number of folds from 2 to 4"):
        BMRMClassifierCV(cv=5).fit(*data)
    with pytest.raises(ValueError, match="scoring must be None if rows lie in blocks"):
        BMRMClassifierCV(cv=2, scoring="roc_auc").fit(*data)


def test_rounds_are_few_and_counted(rows):
    X, y = np.tile(rows[0], (40, 1)), np.tile(rows[1] > 0, 40)
    X = X + 0.3 * np.random.default_rng(0).standard_normal(X.shape)
    history = BMRMClassifier(reg_lambda=1e-3).fit(da.from_array(X, 3000), da.from_array(y, 3000))
    history = history.history_
    assert (np.diff(history["rounds"]) > 0).all() and history["rounds"][-1] <= 15
    assert (history["passes"] > history["rounds"]).all()


@pytest.mark.wide
def test_predictions_stay_lazy(rows):
    X, labels = rows
    dX, dy = collected(X, labels)
    model = BMRMClassifier("log_loss", reg_lambda=1e-2).fit(dX, dy)
    for method in ("decision_function", "predict", "predict_proba", "predict_log_proba"):
        lazy = getattr(model, method)(dX)
        assert isinstance(lazy, da.Array) and lazy.chunks[0] == dX.chunks[0]
        np.testing.assert_array_equal(lazy.compute(), getattr(model, method)(X))
    weights = np.arange(300.0)
    score = model.score(dX, dy, da.from_array(weights, 300))
    assert isinstance(score, da.Array)
    assert float(score) == pytest.approx(model.score(X, labels, weights), rel=1e-12)
    Y = np.column_stack([labels, X[:, 0]])
    regressor = BMRMRegressor().fit(dX, da.from_array(Y, 100))
    assert float(regressor.score(dX, da.from_array(Y, 50))) == pytest.approx(
        regressor.score(X, Y), rel=1e-10
    )
    constant = np.full_like(Y, 0.1)  # 0 as in scikit-learn: it has no squares around its mean
    assert float(regressor.score(dX, da.from_array(constant, 50))) == 0.0


def test_frames_with_unknown_lengths(rows):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, labels = rows
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(y=labels.astype(str))
    frame = dd.from_pandas(frame, npartitions=3)
    model = BMRMClassifier(reg_lambda=1e-2).fit(frame[list("abcdef")], frame["y"])
    assert list(model.feature_names_in_) == list("abcdef")
    assert list(model.classes_) == ["0", "1", "2"]
    judge(model, X, labels.astype(str))
    lazy = model.predict(frame[list("abcdef")])
    np.testing.assert_array_equal(
        lazy.compute(), model.predict(pd.DataFrame(X, columns=[*"abcdef"]))
    )


@pytest.mark.wide
def test_empty_blocks_weightless_rows_and_missing_labels(rows):
    order = np.argsort(rows[1], kind="stable")  # each block has some of the labels
    X, labels = rows[0][order], rows[1][order]
    weights = np.where(np.arange(300) % 5, 1.0, 0.0)
    weights[:70] = 0.0
    cuts = (0, 70, 70, 150, 300)
    for loss, solver in (("hinge", "auto"), ("softmax", "auto"), ("log_loss", "line-search")):
        model = BMRMClassifier(loss, reg_lambda=1e-2, solver=solver)
        model.fit(*(blocks_of(values, cuts) for values in (X, labels, weights)))
        judge(model, X, labels, weights)
    lazy, data = model.predict(blocks_of(X, cuts)), [blocks_of(v, cuts) for v in (X, labels)]
    np.testing.assert_array_equal(lazy.compute(), model.predict(X))
    assert float(model.score(*data)) == pytest.approx(model.score(X, labels), rel=1e-12)
    regressor = BMRMRegressor().fit(blocks_of(X, cuts), blocks_of(X[:, 0], cuts))
    assert float(regressor.score(blocks_of(X, cuts), blocks_of(labels, cuts))) == pytest.approx(
        regressor.score(X, labels), rel=1e-10
    )
    with pytest.raises(NotFittedError):
        BMRMClassifier().predict(blocks_of(X, cuts))


@pytest.mark.wide
def test_line_search_proves_a_bound_where_one_class_is_rare(rows):
    X, y = rows[0], np.arange(300) == 7
    model = BMRMClassifier("log_loss", reg_lambda=1.0, solver="line-search", tol=1e-3)
    assert model.fit(*collected(X, y)).converged_
    judge(model, X, y)


def test_planes_of_other_rows_behind_the_same_names_are_not_taken_up(rows):
    X, y = rows[0].copy(), rows[1] > 0
    data = blocks_of(X), blocks_of(y)
    model = BMRMClassifier(reg_lambda=1e-2, warm_start=True).fit(*data)
    X *= -1.0
    X[:, 0] += 2.0 * y
    judge(model.fit(*data), X, y)


@pytest.mark.wide
def test_many_small_blocks_and_one_alone(rows):
    X, y = np.tile(rows[0], (5, 1)), np.tile(rows[1] > 0, 5)
    small = BMRMClassifier(reg_lambda=1e-2).fit(da.from_array(X, 8), da.from_array(y, 8))
    judge(small, X, y)
    with pytest.raises(TypeError, match=r"X is one delayed object; pass a list of blocks"):
        BMRMClassifier().fit(dask.delayed(X), y)


@pytest.mark.parametrize(
    "number, spoil, message",
    [
        (2, lambda X: np.where(X[3, 2] == X, np.nan, X), "Block 2: Input X contains NaN"),
        (1, lambda X: X[:, :5], "Block 1 has features 5, block 0 has 6"),
        (3, lambda X: X.astype(np.float32), "Block 3 has a dtype of float32, block 0 has float64"),
        (2, lambda X: X[:-1], "Block 2: X has 114 rows, y has 115"),
    ],
)
def test_what_is_wrong_with_a_block_is_told_with_its_number(rows, number, spoil, message):
    X = [rows[0][a:b] for a, b in pairwise(CUTS)]
    X[number] = spoil(X[number])
    model = BMRMClassifier()
    with pytest.raises(ValueError, match=message):
        model.fit([dask.delayed(block) for block in X], blocks_of(rows[1]))
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize(
    "X, y, error, message",
    [
        (lambda X: dask.delayed(missing_file)(), lambda y: y, OSError, "No such file"),
        (lambda X: X, lambda y: y.astype(str), ValueError, "Block 1 has labels that are text"),
        (lambda X: X, lambda y: np.where(y == 1, np.nan, y), ValueError, "Block 1: .* NaN"),
    ],
)
def test_other_faults_of_a_block(rows, X, y, error, message):
    given = [rows[0][:100], X(rows[0][100:])], [rows[1][:100], y(rows[1][100:])]
    with pytest.raises(error, match=message):
        BMRMClassifier().fit(*([dask.delayed(block) for block in blocks] for blocks in given))


def test_frames_of_other_columns_are_refused(rows):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(rows[0], columns=list("abcdef"))
    parts = frame[:150], frame[150:][list("fedcba")]
    halves = blocks_of(rows[1], (0, 150, 300))
    with pytest.raises(ValueError, match=r"Block 1 has columns \['f', .* block 0 has \['a'"):
        BMRMClassifier().fit([dask.delayed(part) for part in parts], halves)
    model = BMRMClassifier().fit(
        [dask.delayed(part) for part in (frame[:150], frame[150:])], halves
    )
    assert list(model.feature_names_in_) == list("abcdef")


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_sums_are_made_in_pairs_of_neighbors(n):
    text = in_pairs(lambda a, b: f"({a}{b})", "abcdefgh"[:n])
    assert text == {1: "a", 2: "(ab)", 3: "((ab)c)", 5: "(((ab)(cd))e)"}.get(
        n, "(((ab)(cd))((ef)(gh)))"
    )
