"""Rows on workers: the optimum of the same rows in memory, with a true certificate."""

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_bundle import BMRMClassifier, BMRMClassifierCV, BMRMRegressor, bmrm_path
from sklearn_bundle.regularizers import Quadratic, WeightedL1
from tests.contract.blocks import CUTS, blocks_of, collected, da, dask, labeled_rows, missing_file
from tests.contract.cases import layouts
from tests.contract.fits import quiet
from tests.contract.judge import judge
from tests.contract.user_losses import AbsoluteMargin

X, LABELS = labeled_rows()
TWO, TARGET = (LABELS > 0).astype(int), X[:, 0] + 0.5 * LABELS
WEIGHTS = np.arange(len(X)) % 4 + 0.0
MODELS = [
    *((BMRMClassifier(loss), TWO) for loss in ("hinge", "squared_hinge", "log_loss")),
    *((BMRMClassifier(loss), LABELS) for loss in ("hinge", "softmax", "multiclass_hinge")),
    (BMRMClassifier(AbsoluteMargin()), TWO),
    (BMRMClassifier("log_loss", regularizer="l1"), TWO),
    (BMRMClassifier(fit_intercept=False, class_weight="balanced"), TWO),
    *((BMRMRegressor(loss), TARGET) for loss in ("squared_error", "quantile", "huber")),
    (BMRMRegressor("poisson"), LABELS),
]


@pytest.mark.parametrize("k", range(len(MODELS)), ids=lambda k: str(MODELS[k][0]))
def test_blocks_have_the_optimum_of_all_rows(k):
    model, y = MODELS[k]
    layout = ["dense", "csr"][k % 2]
    model = clone(model).set_params(reg_lambda=1e-2, tol=1e-5)
    rows = layouts(X)[layout]
    ours = quiet(model, *collected(rows, y, WEIGHTS))
    judge(ours, X, y, WEIGHTS)
    assert ours.converged_
    lazy = ours.predict(collected(X, y)[0])
    assert np.array_equal(np.asarray(lazy), ours.predict(X))


@pytest.mark.parametrize("max_iter", [1, 3])
def test_fits_that_end_early(max_iter):
    """With a rare class too: planes of the first steps."""
    for model, y in [*MODELS[:5], *((model, np.arange(300) == 7) for model, _ in MODELS[:5])]:
        model = clone(model).set_params(reg_lambda=1.0, tol=1e-9, max_iter=max_iter)
        judge(quiet(model, *collected(X, y)), X, y)


def test_a_path_and_a_search():
    values = [1.0, 1e-2]
    ours = bmrm_path(*collected(X, TWO), loss="log_loss", reg_lambdas=values, tol=1e-6)
    theirs = bmrm_path(X, TWO, loss="log_loss", reg_lambdas=values, tol=1e-6)
    assert (ours.lower_bounds <= theirs.objectives).all()
    assert (theirs.lower_bounds <= ours.objectives).all()
    model = BMRMClassifierCV("log_loss", reg_lambdas=values, cv=2, tol=1e-6)
    judge(model.fit(*collected(X, TWO)), X, TWO)


def test_a_block_that_is_wrong_has_its_number():
    wrong = X.copy()
    wrong[CUTS[2], 0] = np.nan
    with pytest.raises(ValueError, match=r"Block 2: .*NaN"):
        BMRMClassifier().fit(blocks_of(wrong), blocks_of(TWO))
    with pytest.raises(ValueError, match=r"Block 1: .*numbers of samples: \[5, 10\]"):
        BMRMClassifier().fit(blocks_of(X), blocks_of(TWO, (0, 70, 80, 190, 300)))
    lost = [*blocks_of(X)[:3], dask.delayed(missing_file)()]
    with pytest.raises(FileNotFoundError):
        BMRMClassifier().fit(lost, blocks_of(TWO))


def test_frames_of_dask():
    frames = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=list("abcdef")).assign(label=TWO)
    frame = frames.from_pandas(table, npartitions=3)
    model = BMRMClassifier(reg_lambda=1e-2).fit(frame[list("abcdef")], frame["label"])
    assert model.feature_names_in_.tolist() == list("abcdef")
    judge(model, X, TWO)
    assert isinstance(model.predict(da.from_array(X)), da.Array)


def test_features_without_a_penalty():
    """Planes of all blocks are made flat there; a quadratic form needs the rows themselves."""
    model = BMRMClassifier(regularizer=WeightedL1([0.0, *5 * [1.0]]), reg_lambda=1e-2)
    for tol, max_iter in ((1e-5, 1000), (1e-9, 3)):
        judge(quiet(model.set_params(tol=tol, max_iter=max_iter), *collected(X, TWO)), X, TWO)
    model = BMRMClassifier(regularizer=Quadratic([0.0, *5 * [1.0]]), reg_lambda=1e-2)
    with pytest.raises(ValueError, match=r"without a penalty.* rows on workers"):
        model.fit(*collected(X, TWO))
