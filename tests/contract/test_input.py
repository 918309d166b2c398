"""Wrong input: reported before any work, and nothing half-fitted is left behind."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sklearn_bundle import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMRegressor,
    PragamSVC,
    SwapSVC,
    SwapSVCCV,
    SwapSVR,
)
from sklearn_bundle.losses import BinaryLoss
from tests.contract.user_losses import SmoothHinge


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda X, y: {"y": np.ones(len(y))}, "2 classes in y .* only one class: .*1.0"),
        (lambda X, y: {"X": np.where(X[3, 3] == X, np.nan, X)}, "Input X contains NaN"),
        (lambda X, y: {"y": np.where(y == 1, np.nan, 0.0)}, "Input y contains NaN"),
        (lambda X, y: {"y": np.eye(3, dtype=int)[y]}, "one label per sample.*multilabel"),
        (lambda X, y: {"X": [[1.0, 2.0], [3.0]], "y": [0, 1]}, "X must|sequence|inhomogeneous"),
        (lambda X, y: {"X": 1j * X}, "[Cc]omplex"),
        (lambda X, y: {"y": y[:-1]}, "inconsistent numbers of samples"),
        (lambda X, y: {"sample_weight": -np.ones(len(y))}, "Negative values.*sample_weight"),
        (lambda X, y: {"sample_weight": np.zeros(len(y))}, "at least one non-zero"),
        (lambda X, y: {"sample_weight": np.ones(3)}, r"sample_weight.shape == \(3,\), expected"),
        (lambda X, y: {"sample_weight": (y == 1).astype(float)}, "2 classes in y"),
    ],
)
def test_bad_data(data, change, message):
    model = BMRMClassifier()
    with pytest.raises(ValueError, match=message):
        model.fit(**({"X": data[0], "y": data[1]} | change(*data)))
    with pytest.raises(NotFittedError):
        model.predict(data[0])


@pytest.mark.parametrize("y", [3.0, np.ones((200, 2, 2)), np.float32(1)])
def test_shape_of_numbers_to_predict(data, y):
    with pytest.raises(ValueError, match=r"y must have shape .* got shape \("):
        BMRMRegressor().fit(data[0], y)


@pytest.mark.parametrize("fold", [[0, 400], [-401, 0], [True, False], 3, np.empty(0, int)])
@pytest.mark.parametrize("search", [BMRMClassifierCV(), SwapSVCCV()], ids=["paths", "kernels"])
def test_folds_that_are_not_rows_of_x(data, search, fold):
    before = set(vars(search))
    with pytest.raises(ValueError, match=r"folds of cv must be numbers of the \d+ rows of X"):
        search.set_params(cv=[([0, 1, 2], fold)]).fit(*data)
    assert set(vars(search)) == before


@pytest.mark.parametrize("factor", [1e200, 1e-160])
@pytest.mark.parametrize("gamma", ["scale", "distance"])
def test_features_too_large_or_small_for_a_gamma_of_their_own(data, gamma, factor):
    X, y = data
    with pytest.raises(ValueError, match=f"gamma='{gamma}' needs features whose squares float64"):
        SwapSVC(gamma=gamma).fit(factor * X, y)


class Failing(SmoothHinge):
    def value(self, scores, y):
        raise RuntimeError("a user's loss failed")


def fails(*arguments):
    raise RuntimeError("a user's kernel failed")


@pytest.mark.parametrize("fail", ["data", "user", "warning"])
@pytest.mark.parametrize(
    ("model", "own"), [(BMRMClassifier(), {"loss": Failing()}), (SwapSVC(), {"kernel": fails})]
)
def test_error_leaves_a_fitted_model_as_it_was(data, fail, model, own):
    X, y = data
    model.fit(X, y)
    before = model.decision_function(X), model.objective_
    if fail == "data":
        with pytest.raises(ValueError):
            model.fit(np.c_[X, X], np.ones(len(y)))
    elif fail == "user":
        with pytest.raises(RuntimeError, match="a user's"):
            clone(model).set_params(**own).fit(X[:, :5], y)
        kept = {name: getattr(model, name) for name in own}
        with pytest.raises(RuntimeError, match="a user's"):
            model.set_params(**own).fit(X[:, :5], y)
        model.set_params(**kept)
    else:
        with warnings.catch_warnings(), pytest.raises(ConvergenceWarning):
            warnings.simplefilter("error")
            clone(model).set_params(tol=1e-14, max_iter=1).fit(X[:, :5], y)
    assert np.array_equal(model.decision_function(X), before[0])
    assert model.objective_ == before[1]


class Concave(BinaryLoss):
    def value(self, scores, y):
        return np.log1p(np.abs(1.0 - y * scores))

    def gradient(self, scores, y):
        return -y * np.sign(1.0 - y * scores) / (1.0 + np.abs(1.0 - y * scores))


class NotFinite(BinaryLoss):
    def value(self, scores, y):
        return np.where(np.abs(scores) > 0.0, np.nan, 1.0)

    def gradient(self, scores, y):
        return -y


@pytest.mark.parametrize("solver", ["line-search", "cutting-plane"])
@pytest.mark.parametrize(
    "loss, message", [(Concave(), "loss is not convex"), (NotFinite(), "loss is not finite")]
)
def test_a_loss_that_breaks_its_contract_is_found_out(data, solver, loss, message):
    with pytest.raises(ValueError, match=message):
        BMRMClassifier(loss, solver=solver, fit_intercept=False).fit(*data)


class Plain(BinaryLoss):
    """The logistic loss as one would write it: 0 at a margin of 40, where its derivative is not."""

    def value(self, scores, y):
        return np.log(1.0 + np.exp(-y * scores))

    def gradient(self, scores, y):
        return -y / (1.0 + np.exp(y * scores))


class Precise(Plain):
    """Denormal at a margin of 720, where exp(margin) overflows and the derivative is 0."""

    def value(self, scores, y):
        return np.logaddexp(0.0, -y * scores)


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("loss", [Plain(), Precise()])
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_rounding_of_a_loss_is_no_mistake(loss, scale):
    X = scale * np.random.default_rng(0).normal(size=(200, 3))
    y = np.where(X[:, 0] > 0.0, 1, -1)
    for reg_lambda in (1e-3, 1e-5, 1e-7):
        assert BMRMClassifier(loss, reg_lambda=reg_lambda, max_iter=2000).fit(X, y).converged_


@pytest.mark.parametrize("kind", [BMRMClassifier, BMRMRegressor, SwapSVC, SwapSVR, PragamSVC])
def test_arguments_of_score_are_named(kind, data):
    X, y = data
    model = kind(tol=0.5).fit(X, y)
    with pytest.raises(ValueError, match=f"^score of {kind.__name__} requires y to be passed"):
        model.score(X, None)
    for weight in (np.ones(3), -np.ones(200), "abc", np.full(200, np.nan)):
        with pytest.raises(ValueError, match="sample_weight"):
            model.score(X, y, weight)
    if kind in (BMRMRegressor, SwapSVR):
        with pytest.raises(ValueError, match=r"^y must hold numbers, got 'a'"):
            model.score(X, ["a"] * 200)
    weights = np.arange(200) % 3.0
    assert model.score(X, y, weights) == pytest.approx(
        model.score(X.repeat(weights.astype(int), axis=0), y.repeat(weights.astype(int)))
    )


@pytest.mark.parametrize("kind", [BMRMRegressor, SwapSVR])
def test_targets_of_another_form(kind, data):
    with pytest.raises(ValueError, match=r"^y must be a dense array, got a sparse csr one"):
        kind().fit(data[0], sp.csr_array(data[1][:, None]))
    with pytest.raises(ValueError, match=r"^y must have shape .* got shape \(200, 0\)"):
        kind().fit(data[0], np.empty((200, 0)))
