"""SDCACRF: full passes, rounding in the certificate, and warm starts with nothing to do."""

from itertools import pairwise, product

import numpy as np
import pytest

from sklearn_bundle import SDCACRF
from sklearn_bundle.chain.problem import ChainProblem
from sklearn_bundle.core.contract import run
from sklearn_bundle.core.lbfgs import LBFGSSolver
from tests.contract.fits import quiet
from tests.reference_chain import made


def exact_objective(model, X, y, reg_lambda):
    """P by enumeration in extended precision; no biases."""
    coef, pairs = model.coef_.astype(np.longdouble), model.transitions_.astype(np.longdouble)
    value = 0.5 * np.longdouble(reg_lambda) * ((coef**2).sum() + (pairs**2).sum())
    for x, labels in zip(X, y, strict=True):
        scores = x.astype(np.longdouble) @ coef.T

        def score(path, scores=scores):
            steps = sum(pairs[j, k] for j, k in pairwise(path))
            return sum(scores[t, k] for t, k in enumerate(path)) + steps

        every = np.array([score(path) for path in product(range(len(coef)), repeat=len(x))])
        true = score(np.searchsorted(model.classes_, labels))
        value += np.log1p(np.exp(every - true).sum() - 1) / len(X)
    return float(value)


@pytest.mark.parametrize("seed", [22, 54, 114, 138])
def test_the_bound_is_true_where_marginals_have_few_digits(seed):
    """Scores of thousands: an error of 1e-13 in marginals is that of 1e-9 in features of 1e4."""
    rng = np.random.default_rng(seed)
    X = [1e4 * rng.normal(size=(3, 4)) for _ in range(2)]
    y = [rng.integers(0, 3, 3).tolist() for _ in range(2)]
    settings = {"reg_lambda": 1e-6, "fit_intercept": False, "random_state": 0}
    models = [
        quiet(SDCACRF(**settings), X, y),
        quiet(SDCACRF(solver="sdca", tol=1e-4, max_iter=300, **settings), X, y),
    ]
    best = min(exact_objective(model, X, y, 1e-6) for model in models)
    for model in models:
        assert model.lower_bound_ <= best * (1.0 + 1e-9)


def test_no_full_pass_is_made_twice(monkeypatch):
    """The values that end a fit are those that it returns."""
    points, gaps = [], ChainProblem.gaps

    def watched(self, w, blocks):
        points.append(w.copy())
        return gaps(self, w, blocks)

    monkeypatch.setattr(ChainProblem, "gaps", watched)
    SDCACRF(solver="exponentiated", random_state=0).fit(*made())
    assert len(points) >= 1
    assert all((v != w).any() for v, w in pairwise(points))


@pytest.mark.parametrize("solver", ["exponentiated", "sdca"])
def test_a_converged_model_is_fitted_again_by_one_pass(solver):
    model = SDCACRF(solver=solver, warm_start=True, random_state=0).fit(*made())
    before = model.objective_
    model.fit(*made())
    assert model.n_iter_ == 1 and model.objective_ == before


@pytest.mark.parametrize("reg_lambda", [1e10, 1e20, 1e30])
def test_a_fit_that_ends_at_once_has_an_iteration(reg_lambda):
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(t, 3)) for t in (3, 1, 4)], [[0, 1, 0], [1], [1, 0, 0, 1]]
    model = SDCACRF(reg_lambda=reg_lambda).fit(X, y)
    assert model.n_iter_ == len(model.history_) >= 1


def test_lbfgs_on_a_quadratic():
    """It ends by itself, at the closed form, with the bound of strong convexity."""
    scale, target = np.geomspace(1.0, 100.0, 30), np.linspace(-1.0, 1.0, 30)

    class Quadratic:
        n_parameters = 30

        def evaluate(self, w):
            gradient = scale * (w - target)
            value = 1.0 + 0.5 * gradient @ (w - target)
            return value, gradient, value - 0.5 * gradient @ gradient

    result = run(LBFGSSolver(Quadratic()), tol=0.0, max_iter=1000)
    assert result.status in ("converged", "stalled") and result.n_iter < 200
    np.testing.assert_allclose(result.point, target, atol=1e-9)
    assert 1.0 - 1e-12 <= result.lower_bound <= result.primal <= 1.0 + 1e-12
