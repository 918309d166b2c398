"""The ball around the optimum, against problems with a closed form."""

import numpy as np
import pytest

from sklearn_bundle.core.certificate import Ball, ball_of
from sklearn_bundle.core.optimum import CertainClassifier, accuracy_bounds


class Quadratic:
    """``mu/2 ||w||^2 + curvature/2 ||w - w0||^2``; tangents of the rest make lower models."""

    def __init__(self, rng, mu, curvature):
        self.mu, self.curvature, self.w0 = mu, curvature, rng.normal(size=5)
        self.optimum = curvature * self.w0 / (mu + curvature)

    def value(self, w):
        change = w - self.w0
        return 0.5 * self.mu * (w @ w) + 0.5 * self.curvature * (change @ change)

    def model_at(self, v):
        """Where the model of the tangent at v is least, and its value there."""
        slope = self.curvature * (v - self.w0)
        offset = 0.5 * self.curvature * ((v - self.w0) @ (v - self.w0)) - slope @ v
        lowest = -slope / self.mu
        return lowest, 0.5 * self.mu * (lowest @ lowest) + slope @ lowest + offset


@pytest.mark.parametrize("mu", [1e-6, 1e-2, 1.0])
@pytest.mark.parametrize("distance", [1e-6, 1e-3, 1.0, 1e3])
def test_balls_contain_the_optimum(mu, distance):
    rng = np.random.default_rng(0)
    for _ in range(50):
        problem = Quadratic(rng, mu, 10.0 ** rng.uniform(-3, 1))
        w, v = problem.optimum + distance * rng.normal(size=(2, 5))
        lowest, bound = problem.model_at(v)
        gap = problem.value(w) - bound
        around, between = Ball.around(w, gap, mu), Ball.between(w, lowest, gap, mu)
        for ball in (around, between):
            rounding = 1e-13 * (np.linalg.norm(w) + np.linalg.norm(lowest))
            apart = np.linalg.norm(ball.center - problem.optimum)
            assert apart <= ball.radius * (1 + 1e-9) + rounding
        assert between.radius <= around.radius * (1 + 1e-9) + 1e-12 * np.linalg.norm(lowest)
        best = ball_of(w, lowest, gap, gap, mu, 0.0)
        assert best.radius == min(around.radius, between.radius)
        assert ball_of(w, lowest, gap, gap, 0.0, 0.0) is None
        assert ball_of(w, lowest, np.inf, np.nan, mu, 0.0) is None


@pytest.mark.parametrize("shift", [[0.1, 0.0], [-0.1, 0.0], [0.0, 0.1]])
def test_the_ball_between_allows_for_an_error_of_the_lowest_point(shift):
    w, lowest, mu, gap = np.array([3.0, 0.0]), np.array([1.0, 0.0]), 0.5, 1.0
    exact = Ball.between(w, lowest, gap, mu)
    ball = Ball.between(w, lowest + shift, gap, mu, error=0.1)
    assert np.linalg.norm(ball.center - exact.center) + exact.radius <= ball.radius
    assert ball.radius <= exact.radius + 0.3


def test_accuracy_bounds():
    """Rows: certain and right, open, open and wrong, certain and wrong, of an unknown class."""
    possible = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1], [0, 0, 1], [1, 1, 1]], dtype=bool)
    true = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 0]], dtype=bool)
    assert accuracy_bounds(possible, true, None) == (0.2, 0.4)
    weights = np.array([1.0, 3.0, 0.0, 4.0, 0.0])
    assert accuracy_bounds(possible, true, weights) == (1 / 8, 4 / 8)
    assert np.isnan(accuracy_bounds(possible, true, 0.0 * weights)).all()


class Given(CertainClassifier):
    """Three rows, of which the second is predicted to have a label that the optimum's is not."""

    classes_ = np.array([0, 1])

    def _bounds(self, X):
        raise NotImplementedError

    def _possible(self, X):
        return np.array([[True, False], [True, False], [True, True]])

    def predict(self, X):
        return np.array([0, 1, 1])


def test_only_a_prediction_that_is_possible_is_certain():
    assert Given().certain(None).tolist() == [True, False, False]
