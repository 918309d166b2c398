"""Rows in blocks: planes, slopes and sums of all blocks against plain numpy on all rows."""

from itertools import pairwise

import numpy as np
import pytest

from sklearn_bundle.linear.losses.scores import Start
from sklearn_bundle.linear.problems.largest import largest_reg_lambda
from sklearn_bundle.linear.problems.round_risk import RoundRisk
from sklearn_bundle.linear.problems.row_block import RowBlock
from sklearn_bundle.linear.problems.row_blocks import RowBlocks, formulation
from sklearn_bundle.linear.solvers.lbfgs import ScoreDescent
from sklearn_bundle.losses import AbsoluteError, Hinge, LogLoss, Softmax, SquaredError
from sklearn_bundle.regularizers import L1
from tests.contract.fits import Here

N, D = 60, 4


RISKS = {
    "hinge": (Hinge(), lambda f, y: np.maximum(0.0, 1.0 - y * f)),
    "log_loss": (LogLoss(), lambda f, y: np.logaddexp(0.0, -y * f)),
    "squared_error": (SquaredError(), lambda f, y: 0.5 * (f - y) ** 2),
    "absolute_error": (AbsoluteError(), lambda f, y: np.abs(f - y)),
    "softmax": (
        Softmax(),
        lambda f, y: np.log(np.exp(f).sum(axis=1)) - f[np.arange(len(y)), y.astype(int)],
    ),
}


@pytest.fixture(params=RISKS)
def case(request):
    """A problem in three blocks, and its risk at (w, b) in plain numpy."""
    loss, risk = RISKS[request.param]
    rng = np.random.default_rng(0)
    X, weights = rng.standard_normal((N, D)) + 0.3, rng.dirichlet(np.ones(N))
    y, k = rng.standard_normal(N), None
    if request.param == "softmax":
        y, k = rng.integers(0, 3, N), 3
    labels, signs, positive = y, y, None
    if request.param in ("hinge", "log_loss"):
        labels, signs, positive = (y > 0).astype(int), np.where(y > 0, 1.0, -1.0), 1
    cuts = (0, 7, 40, N)
    blocks = [RowBlock(X[a:b], labels[a:b], weights[a:b]) for a, b in pairwise(cuts)]
    problem = RowBlocks(
        *(Here(blocks), formulation(loss, positive=positive, n_outputs=k), (N, D), N * D),
        *(1.0, np.ones(D), True),
    )

    def value(w, b):
        scores = X @ (w if k is None else w.reshape(k, D).T) + (b if k else b[0])
        return float(weights @ risk(scores, signs))

    return problem, value, rng


def points(problem, rng, number=20):
    for _ in range(number):
        size = 10.0 ** rng.uniform(-1.0, 1.0)
        yield size * rng.standard_normal(problem.dimension), rng.standard_normal(problem.n_free)


def test_planes_touch_the_risk_and_lie_below_it(case):
    problem, value, rng = case
    for w, b in points(problem, rng, 5):
        point = problem.point(w, b)
        plane = problem.cut(point)
        assert problem.risk(point) == pytest.approx(value(w, b), rel=1e-12)
        height = plane.gradient @ w + plane.balance @ b + plane.offset
        assert height == pytest.approx(value(w, b), rel=1e-10)
        for v, c in points(problem, rng):
            assert plane.gradient @ v + plane.balance @ c + plane.offset <= value(v, c) + 1e-10


def test_planes_of_a_smoothed_loss_lie_below_the_loss(case):
    problem, value, rng = case
    if problem.newton_loss is None:
        pytest.skip("softmax has no Newton steps in blocks")
    for w, b in points(problem, rng, 5):
        for found in problem.look([(w, float(b[0]))], (), [0.5, 0.05], (), 1)[1:]:
            risk, offset, balance, _, gradient, hessian = found
            assert risk == pytest.approx(value(w, b), rel=1e-12)
            assert hessian.shape == (D + 1, D + 1)
            for v, c in points(problem, rng):
                assert gradient @ v + balance * c[0] + offset <= value(v, c) + 1e-10
            if problem.newton_loss.smooth:
                assert gradient @ w + balance * b[0] + offset == pytest.approx(risk, rel=1e-9)


def test_slopes_and_the_step_of_a_line_search(case):
    problem, value, rng = case
    (w, b), (v, c) = points(problem, rng, 2)
    start, end = problem.point(w, b), problem.point(v, c)

    def along(t):
        return value(w + t * (v - w), b + t * (c - b)) + 0.3 * t + t**2

    risk, slope = problem.risk_along(start, end)(0.4)
    difference = (along(0.4 + 1e-6) - along(0.4 - 1e-6)) / 2e-6 - 0.3 - 0.8
    assert risk == pytest.approx(along(0.4) - 0.3 * 0.4 - 0.16, rel=1e-12)
    assert slope == pytest.approx(difference, abs=1e-4)
    step = problem.line_search(start, end, 0.3, 2.0)
    lowest = min(along(t) for t in np.linspace(0.0, 5.0, 5001))
    assert along(step) <= lowest + 1e-3 * abs(lowest - along(0.0)) + 1e-9
    if problem.newton_loss is not None and problem.newton_loss.smooth:
        ends = [(w, float(b[0])), (v, float(c[0]))]
        (at,) = problem.look(ends, np.array([0.4]), [1.0])
        assert at == pytest.approx(slope, rel=1e-9)


@pytest.mark.parametrize("case", ["log_loss"], indirect=True)
def test_planes_of_lbfgs_hold_for_every_intercept(case):
    """They are mixed of two, and lie below the risk wherever b is; in the end they touch it."""
    problem, value, rng = case
    descent = ScoreDescent(RoundRisk(problem, hessians=False), 1e-2, (np.zeros(D), None))
    for _ in range(8):
        gradient, offset = descent.plane()
        here = descent.w, descent.intercept
        far = [(descent.w, here[1] + move) for move in (-30.0, -1.0, 1.0, 30.0)]
        for w, b in [here, *far, *points(problem, rng)]:
            assert gradient @ w + offset <= value(w, b) + 1e-12
        descent.step()
    assert value(*here) - gradient @ here[0] - offset <= 1e-5


@pytest.mark.parametrize("ulps", [1, -1])
@pytest.mark.parametrize("far", [2.0**20, -(2.0**20)])
def test_a_coefficient_of_b_that_counts_as_rounding_lifts_no_bound(ulps, far):
    """One of 256 targets is off by an ulp: b is wrong by 5e-13, times b = 1e6 in the offset."""
    y = far + np.resize([1.0, -1.0], 256)
    y[0] += ulps * np.spacing(abs(far))
    blocks = [
        RowBlock(np.zeros((128, 1)), part, np.full(128, 1.0 / 256)) for part in (y[::2], y[1::2])
    ]
    form = formulation(SquaredError(), n_outputs=None)
    problem = RowBlocks(Here(blocks), form, (256, 1), 256, 1.0, np.ones(1), True)
    point = RoundRisk(problem, hessians=True)
    point.units = Start(far, 1.0, 1.0)
    point.go(np.zeros(1), far)
    point.evaluate(1.0)
    ((gradient, offset, balance),) = point.take_planes()
    exact = y.astype(np.longdouble) - far
    optimum = float(0.5 * np.mean((exact - exact.mean()) ** 2))
    assert balance == 0.0 and not gradient.any()
    assert optimum - 1e-5 <= offset <= optimum


@pytest.mark.parametrize("case", ["softmax"], indirect=True)
def test_the_largest_reg_lambda_of_softmax_is_at_the_shares_of_the_classes(case):
    """Where derivatives in the intercepts are zero: there w = 0 is optimal from this value on."""
    problem, value, _ = case
    omega = L1().bind(D, problem.dimension)
    largest = largest_reg_lambda(problem, omega)
    zero = np.zeros(problem.dimension)
    plane = problem.cut(problem.point(zero, np.zeros(3)))
    b = np.log(1.0 / 3.0 - plane.balance)
    best = problem.cut(problem.point(zero, b))
    assert np.abs(best.balance).max() < 1e-15
    assert largest == pytest.approx(np.abs(best.gradient).max(), rel=1e-12)
    lower, moves = value(zero, b), 1e-6 * np.eye(problem.dimension)
    steepest = max(abs(value(move, b) - value(-move, b)) / 2e-6 for move in moves)
    assert lower < value(zero, np.zeros(3)) and largest == pytest.approx(steepest, rel=1e-6)
