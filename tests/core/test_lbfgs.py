"""L-BFGS: features of any size, values that rounding hides, curvatures beyond the precision."""

import numpy as np
import pytest

from sklearn_bundle import SDCACRF, StructuredSVM
from sklearn_bundle.core.contract import run
from sklearn_bundle.core.lbfgs import LBFGSSolver
from tests.chains import sequences
from tests.contract.judge import judge

LENGTHS = [3, 1, 2, 2, 1, 3] * 2
MODELS = {
    "SDCACRF": SDCACRF(solver="lbfgs", max_iter=1000, reg_lambda=0.1),
    "log": StructuredSVM("chain", loss="log", reg_lambda=0.1, tol=0.01),
}


@pytest.mark.parametrize("scale", [400.0, 1e4, 1e6, 1e8])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.wide
def test_large_features_are_fitted(kind, scale):
    """A first step of length one in w is far too long for them, and their curvatures are large."""
    X, y = sequences(3, LENGTHS, scale=scale, sparse=1.0)
    model = MODELS[kind].fit(X, y)
    assert model.status_ == "converged"
    judge(model, X, y)


class Quadratic:
    """``1 + sum_j curvature_j (w_j - target_j)^2 / 2``, with errors of the value."""

    def __init__(self, curvatures, error=0.0):
        self.curvatures, self._error = curvatures, error
        self.n_parameters = len(curvatures)
        self.target = np.linspace(-1.0, 1.0, self.n_parameters)
        self._rng = np.random.default_rng(0)

    def evaluate(self, w):
        gradient = self.curvatures * (w - self.target)
        value = 1.0 + 0.5 * gradient @ (w - self.target)
        bound = value - 0.5 * gradient @ gradient / self.curvatures.min()
        return value + self._error * self._rng.random(), gradient, bound


def test_values_that_err_do_not_end_the_search():
    """The slopes tell that the function falls where its values do not."""
    problem = Quadratic(np.geomspace(1.0, 100.0, 30), error=1e-6)
    solver = LBFGSSolver(problem)
    run(solver, tol=0.0, max_iter=200)
    assert np.linalg.norm(solver._at.gradient) < 1e-8


def test_pairs_of_large_curvature_are_kept():
    """A change of the gradient that is 1e17 times the step is no rounding if all changes are."""
    problem = Quadratic(1e17 * np.geomspace(1.0, 100.0, 30))
    result = run(LBFGSSolver(problem), tol=1e-9, max_iter=300)
    assert result.status == "converged"
    np.testing.assert_allclose(result.point, problem.target, atol=1e-9)
