"""Parameters of losses and regularizers, and what subclasses inherit."""

import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from sklearn_bundle import BMRMRegressor
from sklearn_bundle.linear import losses, regularizers
from sklearn_bundle.linear.losses.base import check_derivatives
from tests.contract.user_losses import Expectile


class Outer(BaseEstimator):
    def __init__(self, loss=None):
        self.loss = loss


KINDS = [kind for part in (losses, regularizers) for kind in vars(part).values()]
MADE = {"Quadratic": (np.ones(2),), "WeightedL1": ([1.0, 2.0],)}
MADE["Nonnegative"] = (regularizers.ElasticNet(),)
KINDS = {k for k in KINDS if isinstance(k, type) and hasattr(k, "get_params")} | {Expectile}
KINDS = sorted((k for k in KINDS if not k.__abstractmethods__), key=lambda k: k.__name__)


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_cloned_pickled_and_searched(kind):
    made = kind(*MADE.get(kind.__name__, ()))
    for copy in (clone(made), pickle.loads(pickle.dumps(made)), clone(Outer(made)).loss):
        assert type(copy) is kind and copy is not made and repr(copy) == repr(made)
    made.set_params(**made.get_params(deep=False))
    with pytest.raises(ValueError, match="Invalid parameter 'other'"):
        made.set_params(other=1)


class Doubled:
    def value(self, scores, y):
        return 2.0 * super().value(scores, y)


class DoubledSlopes(losses.Huber):
    def gradient(self, scores, y):
        return 2.0 * super().gradient(scores, y)


class Named(losses.SquaredError):
    pass


class Cubed(regularizers.L2):
    def value(self, w):
        return float(np.sum(np.abs(w) ** 3)) / 3.0


def test_others_values_inherit_nothing_that_follows_from_values():
    for kind in (losses.Huber, losses.LogLoss, losses.SquaredError, losses.EpsilonInsensitive):
        mixed = type("Mixed", (Doubled, kind), {})()
        assert mixed.formula is None and not mixed.smooth and mixed.kinks == ()
        assert not mixed.dual_steps and not mixed.quadratic
        assert mixed.curvature(np.ones(2), np.ones(2)) is None
        assert mixed.closed_intercept(np.ones(2), np.ones(2), np.ones(2)) is None
        out = np.empty(2)
        risk = mixed.cut(np.zeros(2), np.full(2, -1.0), np.full(2, 0.5), out)[0]
        assert risk == 2.0 * kind().value(np.zeros(1), np.full(1, -1.0))[0]
    assert DoubledSlopes().formula is None and DoubledSlopes().degree == 2.0
    assert Named().formula is not None and Named().multi_output and Named().quadratic
    softmax = type("Mixed", (Doubled, losses.Softmax), {})()
    assert softmax.offset is None and softmax.cut.__func__ is losses.SampleLoss.cut
    assert Cubed().diagonal is None and Cubed().strong_convexity == 0.0 and Cubed().is_quadratic


def test_users_mistakes_are_named():
    with pytest.raises(ValueError, match=r"^DoubledSlopes\.gradient is not the derivative of Doub"):
        check_derivatives(DoubledSlopes(), np.linspace(0.1, 0.9, 5), np.zeros(5))
    for value, message in (
        (lambda f: f[:, None], r"value must return .* \(3,\)"),
        (np.negative, "neg"),
    ):
        loss, out = Expectile(), np.empty(3)
        loss.value = lambda f, y, value=value: value(f)
        with pytest.raises(ValueError, match=message):
            loss.cut(np.ones(3), np.ones(3), np.ones(3) / 3, out)


@pytest.mark.parametrize("loss", ["squared_error", "huber", "squared_epsilon_insensitive"])
def test_targets_whose_squares_overflow(loss):
    with pytest.raises(ValueError, match="The loss is not finite at the start: check the loss"):
        BMRMRegressor(loss).fit(np.eye(3, 5), [1e200, -1e200, 3e200])
