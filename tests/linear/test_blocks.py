"""Estimators on dask collections: how blocks are cut and read, what each solver takes, rounds."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from sklearn_bundle import BMRMClassifier, BMRMRegressor
from sklearn_bundle.regularizers import WeightedL1
from tests.contract.blocks import CUTS, blocks_of, collected, da, dask, labeled_rows
from tests.contract.judge import judge

COLUMNS = list("abcdef")
SIZES = (60, 0, 70, 31, 50, 1)  # rows of the files, over and over again
X, LABELS = labeled_rows()
TWO = LABELS > 0


# ---- solvers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-3, 1e-9])
@pytest.mark.parametrize(
    "model, y, most",
    [
        (BMRMClassifier("hinge"), TWO, 60),
        (BMRMClassifier("hinge", fit_intercept=False), TWO, 60),
        (BMRMClassifier("log_loss"), TWO, 14),
        (BMRMRegressor("quantile", quantile=0.8), X[:, 0] + LABELS + 100.0, 60),
        (BMRMRegressor("squared_error"), X[:, 0] + LABELS, 6),
        (BMRMClassifier("softmax"), LABELS, 60),
    ],
    ids=["hinge", "no intercept", "log_loss", "quantile", "squared_error", "softmax"],
)
def test_few_rounds_at_any_precision(model, y, most, tol):
    """Narrowing keeps the derivatives of the rows that bend; without that it took hundreds."""
    model = model.set_params(reg_lambda=1e-2, tol=tol).fit(*collected(X, y))
    assert model.converged_ and model.history_["rounds"][-1] <= most
    judge(model, X, y)


@pytest.mark.parametrize("solver", ["newton", "line-search", "cutting-plane", "lbfgs"])
@pytest.mark.parametrize("loss", ["hinge", "log_loss", "softmax"])
def test_every_solver_of_blocks(solver, loss):
    y = LABELS if loss == "softmax" else TWO
    model = BMRMClassifier(loss, reg_lambda=1e-2, solver=solver, tol=1e-2)
    if (loss, solver) == ("hinge", "lbfgs"):
        with pytest.raises(ValueError, match="does not take loss"):
            model.fit(*collected(X, y))
        return
    assert model.fit(*collected(X, y)).converged_
    judge(model, X, y)


@pytest.mark.parametrize("loss", ["hinge", "log_loss", "squared_error", "quantile"])
def test_more_features_than_a_matrix_has_rows(loss):
    rng = np.random.default_rng(0)
    rows = sp.random_array((80, 2001), density=0.01, format="csr", rng=rng)
    y, kind = rows @ rng.normal(size=2001) + 0.3, BMRMRegressor
    if loss in ("hinge", "log_loss"):
        y, kind = np.where(y > 0.0, 1.0, -1.0), BMRMClassifier
    cuts = (0, 30, 31, 80)
    model = kind(loss, reg_lambda=1e-2, tol=1e-3).fit(blocks_of(rows, cuts), blocks_of(y, cuts))
    name = "lbfgs" if loss in ("log_loss", "squared_error") else "line-search"
    assert model.converged_ and model.history_["solver"][-1] == name
    alone = kind(loss, reg_lambda=1e-2, tol=1e-6).fit(rows, y)  # the judge takes a minute
    assert model.lower_bound_ <= alone.objective_ and alone.lower_bound_ <= model.objective_


# ---- blocks --------------------------------------------------------------------------------------


def test_empty_blocks_weightless_rows_and_missing_labels():
    order = np.argsort(LABELS, kind="stable")  # each block has some of the labels
    rows, labels = X[order], LABELS[order]
    weights = np.where(np.arange(300) % 5, 1.0, 0.0)
    weights[:70] = 0.0
    cuts = (0, 70, 70, 150, 300)
    for loss, solver in (("hinge", "auto"), ("softmax", "auto"), ("log_loss", "line-search")):
        model = BMRMClassifier(loss, reg_lambda=1e-2, solver=solver)
        model.fit(*(blocks_of(values, cuts) for values in (rows, labels, weights)))
        judge(model, rows, labels, weights)
    np.testing.assert_array_equal(
        model.predict(blocks_of(rows, cuts)).compute(), model.predict(rows)
    )
    score = model.score(blocks_of(rows, cuts), blocks_of(labels, cuts))
    assert float(score) == pytest.approx(model.score(rows, labels), rel=1e-12)
    model = BMRMClassifier(class_weight={0: 0.0, 1: 1.0, 2: 3.0}, reg_lambda=1e-2)
    judge(model.fit(blocks_of(rows, cuts), blocks_of(labels, cuts)), rows, labels)
    targets = rows[:, 0] + labels
    model = BMRMRegressor(reg_lambda=1e-2).fit(blocks_of(rows, cuts), blocks_of(targets, cuts))
    judge(model, rows, targets)
    with pytest.raises(NotFittedError):
        BMRMClassifier().predict(blocks_of(rows, cuts))


def test_planes_of_other_rows_behind_the_same_names_are_not_taken_up():
    rows = X.copy()
    data = blocks_of(rows), blocks_of(TWO)
    model = BMRMClassifier(reg_lambda=1e-2, warm_start=True).fit(*data)
    again = model.fit(*data)
    assert again.n_iter_ == 1 or again.history_["rounds"][-1] <= 6
    rows *= -1.0
    rows[:, 0] += 2.0 * TWO
    judge(model.fit(*data), rows, TWO)


@pytest.mark.parametrize(
    "number, spoil, message",
    [
        (1, lambda X: X[:, :5], "Block 1 has features 5, block 0 has 6"),
        (3, lambda X: X.astype(np.float32), "Block 3 has a dtype of float32, block 0 has float64"),
    ],
)
def test_what_is_wrong_with_a_block_is_told_with_its_number(number, spoil, message):
    blocks = [X[a:b] for a, b in pairwise(CUTS)]
    blocks[number] = spoil(blocks[number])
    model = BMRMClassifier()
    with pytest.raises(ValueError, match=message):
        model.fit([dask.delayed(block) for block in blocks], blocks_of(LABELS))
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize(
    "y, message",
    [
        (lambda y: y.astype(str), "Block 1 has labels that are text"),
        (lambda y: np.where(y == 1, np.nan, y), "Block 1: .* NaN"),
    ],
)
def test_labels_of_a_block(y, message):
    given = [X[:100], X[100:]], [LABELS[:100], y(LABELS[100:])]
    with pytest.raises(ValueError, match=message):
        BMRMClassifier().fit(*([dask.delayed(block) for block in blocks] for blocks in given))


def test_other_cuts_of_y():
    given = da.from_array(X, 100), da.from_array(TWO, 70), da.from_array(np.ones(300), 300)
    judge(BMRMClassifier(reg_lambda=1e-2).fit(*given), X, TWO)
    with pytest.raises(ValueError, match="y must have an entry for each of the 300 rows of X"):
        BMRMClassifier().fit(given[0], TWO[1:])
    with pytest.raises(TypeError, match="X is one delayed object; pass a list of blocks"):
        BMRMClassifier().fit(dask.delayed(X), TWO)


def test_excluded_features_need_rows_in_memory():
    omega = WeightedL1(np.r_[np.inf, np.ones(X.shape[1] - 1)])
    with pytest.raises(ValueError, match="need rows in memory: leave those out"):
        BMRMClassifier(regularizer=omega).fit(*collected(X, TWO))


# ---- frames --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The frame of dask from twelve files, and the same rows in memory."""
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    pytest.importorskip("pyarrow")
    rng, frames, folder = np.random.default_rng(0), [], tmp_path_factory.mktemp("files")
    for k in range(12):
        n = SIZES[k % len(SIZES)]
        rows = rng.normal(size=(n, 6))
        frame = pd.DataFrame(rows, columns=COLUMNS, index=np.arange(n)[::-1])
        frame["y"] = np.where(rows[:, 0] + 0.5 * rng.normal(size=n) > 0.6, "high", "low")
        frame["text"] = "a column that nobody needs"
        frame.to_parquet(folder / f"part-{k:02d}.parquet")
        frames.append(frame)
    return dd.read_parquet(folder), pd.concat(frames)


WAYS = {
    "frames": lambda ddf: (ddf[COLUMNS], ddf["y"]),
    "persisted together": lambda ddf: dask.persist(ddf[COLUMNS], ddf["y"]),
    "one persisted": lambda ddf: (ddf[COLUMNS].persist(), ddf["y"]),
    "values": lambda ddf: (ddf[COLUMNS].values, ddf["y"].values),
    "in memory": lambda ddf: (ddf[COLUMNS], ddf["y"].compute().to_numpy()),
    "lists": lambda ddf: tuple(
        list(ddf.to_delayed()[k][part] for k in range(ddf.npartitions)) for part in (COLUMNS, "y")
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore:Dask currently has limited support for converting")
def test_x_and_y_of_the_same_files(files, way):
    """dask makes 3 blocks of y alone, and 6 of X."""
    ddf, rows = files
    x, y = WAYS[way](ddf)
    model = BMRMClassifier(reg_lambda=1e-2, class_weight="balanced").fit(x, y)
    judge(model, rows[COLUMNS].to_numpy(), rows["y"].to_numpy())
    alike = rows[COLUMNS] if hasattr(model, "feature_names_in_") else rows[COLUMNS].to_numpy()
    assert float(model.score(x, y)) == pytest.approx(model.score(alike, rows["y"]), rel=1e-12)
