"""Every regularizer keeps the contract of Regularizer: conjugates, derivatives, domains."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from sklearn_bundle.regularizers import (
    L1,
    L2,
    REGULARIZERS,
    ElasticNet,
    Entropy,
    EntropySimplex,
    Lp,
    Quadratic,
    WeightedL1,
)

P = 6


def definite(seed=0, size=P):
    root = np.random.default_rng(seed).normal(size=(size, size))
    return root @ root.T + 0.5 * np.eye(size)


BANDED = sp.diags([[-1.0] * (P - 1), [3.0] * P, [-1.0] * (P - 1)], [-1, 0, 1])
DIAGONAL = np.linspace(0.5, 4.0, P)

#: A regularizer and Omega on its domain, from the definition.
TABLE = {
    "l2": (L2(), lambda w: 0.5 * w @ w),
    "lp_1.5": (Lp(), lambda w: 0.5 * np.sum(np.abs(w) ** 1.5) ** (2 / 1.5)),
    "lp_1.1": (Lp(1.1), lambda w: 0.5 * np.sum(np.abs(w) ** 1.1) ** (2 / 1.1)),
    "lp_2": (Lp(2.0), lambda w: 0.5 * w @ w),
    "diagonal": (Quadratic(DIAGONAL), lambda w: 0.5 * w @ np.diag(DIAGONAL) @ w),
    "dense": (Quadratic(definite()), lambda w: 0.5 * w @ definite() @ w),
    "sparse": (Quadratic(BANDED), lambda w: 0.5 * w @ BANDED.toarray() @ w),
    "entropy": (Entropy(), lambda w: np.sum(w * np.log(w) + np.exp(-1.0))),
    "entropy_simplex": (EntropySimplex(), lambda w: np.sum(w * np.log(w)) + np.log(len(w))),
    "l1": (L1(), lambda w: np.sum(np.abs(w))),
    "weighted_l1": (WeightedL1(DIAGONAL), lambda w: np.sum(DIAGONAL * np.abs(w))),
    "elasticnet": (ElasticNet(0.3), lambda w: 0.3 * np.sum(np.abs(w)) + 0.35 * w @ w),
}
SMOOTH = [name for name in TABLE if name not in ("l1", "weighted_l1")]
every_one = pytest.mark.parametrize("name", TABLE)
every_smooth = pytest.mark.parametrize("name", SMOOTH)
seeds = pytest.mark.parametrize("seed", range(5))


def bound(name):
    return TABLE[name][0].bind(P, P)


def slopes(name, seed):
    """A point at which the conjugate is finite."""
    m = np.random.default_rng(seed).normal(size=P)
    if name in ("l1", "weighted_l1"):
        m *= 0.9 * bound(name).lasso_form.thresholds / np.abs(m).max()
    return m


def in_domain(name, seed):
    w = np.random.default_rng(seed).normal(size=P)
    if name.startswith("entropy"):
        w = np.abs(w) + 0.01
    return w / w.sum() if name == "entropy_simplex" else w


@every_one
@seeds
def test_value(name, seed):
    w = in_domain(name, seed)
    assert bound(name).value(w) == pytest.approx(TABLE[name][1](w), rel=1e-13, abs=1e-14)


@every_one
@seeds
def test_fenchel_young(name, seed):
    """``Omega(w) + Omega*(m) >= <w, m>``, with equality at the conjugate's gradient."""
    omega, m, w = bound(name), slopes(name, seed), in_domain(name, seed + 100)
    assert omega.value(w) + omega.conjugate(m) >= w @ m - 1e-12
    best = omega.conjugate_gradient(m)
    assert omega.value(best) + omega.conjugate(m) == pytest.approx(best @ m, abs=1e-12)


@every_smooth
@seeds
def test_conjugate_gradient_is_its_derivative(name, seed):
    omega, m, step = bound(name), slopes(name, seed), 1e-6
    numeric = [
        (omega.conjugate(m + step * e) - omega.conjugate(m - step * e)) / (2 * step)
        for e in np.eye(P)
    ]
    np.testing.assert_allclose(omega.conjugate_gradient(m), numeric, rtol=1e-7, atol=1e-8)


@every_smooth
@seeds
def test_conjugate_curvature_is_the_derivative_of_the_gradient(name, seed):
    omega, m, step = bound(name), slopes(name, seed), 1e-6
    planes = np.random.default_rng(seed).normal(size=(4, P))
    numeric = [
        planes
        @ (omega.conjugate_gradient(m + step * a) - omega.conjugate_gradient(m - step * a))
        / (2 * step)
        for a in planes
    ]
    curvature = omega.conjugate_curvature(m, planes)
    np.testing.assert_allclose(curvature, numeric, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(curvature, curvature.T, rtol=0, atol=1e-14 * np.abs(curvature).max())


@every_one
@seeds
def test_slope(name, seed):
    omega, w, step = bound(name), in_domain(name, seed), 1e-4
    direction = in_domain(name, seed + 50) - in_domain(name, seed + 51)
    first, second = omega.slope(w, direction)
    while not np.isfinite(omega.value(w - step * direction) + omega.value(w + step * direction)):
        step *= 0.5
    left, here, right = (omega.value(w + t * direction) for t in (-step, 0.0, step))
    assert first == pytest.approx((right - left) / (2 * step), rel=1e-4, abs=1e-6)
    assert second == pytest.approx((right - 2 * here + left) / step**2, rel=1e-2, abs=1e-4)


@every_one
def test_start_is_the_minimizer(name):
    omega = bound(name)
    start = omega.start(P)
    assert start.shape == (P,)
    assert omega.value(start) == pytest.approx(0.0, abs=1e-15)
    assert omega.value(in_domain(name, 3)) > 0.0


def test_conjugate_of_lp_against_a_numerical_maximum():
    omega, m = Lp(1.3), slopes("lp", 1)
    found = minimize(lambda w: omega.value(w) - w @ m, np.ones(P), method="BFGS", tol=1e-10)
    assert omega.conjugate(m) == pytest.approx(-found.fun, rel=1e-8)


@pytest.mark.parametrize("p", [1.05, 1.5, 2.0])
@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_lp_is_homogeneous(p, scale):
    omega, m = Lp(p), slopes("lp", 0)
    planes = np.random.default_rng(0).normal(size=(3, P))
    np.testing.assert_allclose(
        omega.conjugate_gradient(scale * m), scale * omega.conjugate_gradient(m), rtol=1e-11
    )
    assert omega.conjugate(scale * m) == pytest.approx(scale**2 * omega.conjugate(m), rel=1e-12)
    assert omega.value(scale * m) == pytest.approx(scale**2 * omega.value(m), rel=1e-12)
    np.testing.assert_allclose(
        omega.conjugate_curvature(scale * m, planes),
        omega.conjugate_curvature(m, planes),
        rtol=1e-10,
        atol=1e-12,
    )


def test_lp_with_entries_of_all_sizes():
    """Squares and powers of the entries would be zero or infinite."""
    m = np.array([1e200, -1e-200, 0.0, 1e-320])
    np.testing.assert_allclose(Lp(1.5).conjugate_gradient(m), [1e200, 0.0, 0.0, 0.0], rtol=1e-14)
    assert Lp(1.5).conjugate(m) == np.inf


@pytest.mark.parametrize("p", [1.01, 1.5, 2.0])
def test_lp_at_the_origin(p):
    omega, planes = Lp(p), np.random.default_rng(0).normal(size=(3, P))
    assert omega.conjugate(np.zeros(P)) == 0.0
    np.testing.assert_array_equal(omega.conjugate_gradient(np.zeros(P)), 0.0)
    majorant = omega.conjugate_curvature(np.zeros(P), planes)
    for seed in range(10):
        below = majorant - omega.conjugate_curvature(slopes("lp", seed), planes)
        assert np.linalg.eigvalsh(below)[0] >= -1e-12 * majorant.max()
    first, second = omega.slope(np.zeros(P), planes[0])
    assert (first, 0.5 * second) == (0.0, pytest.approx(omega.value(planes[0])))


def test_lp_slope_where_a_zero_entry_moves():
    first, second = Lp(1.5).slope(np.array([1.0, 0.0]), np.array([1.0, 1.0]))
    assert first == pytest.approx(1.0)
    assert np.isnan(second)


@pytest.mark.parametrize("p", [1.0, 0.5, 2.1, np.nan])
def test_lp_refuses_other_p(p):
    with pytest.raises(ValueError, match=r"p=.*greater than 1 and at most 2"):
        Lp(p).bind(P, P)


@pytest.mark.parametrize("B", [DIAGONAL, definite(), BANDED, sp.csr_array(BANDED)])
def test_quadratic_with_several_outputs(B):
    """B applies to each output: the same as a block-diagonal B of all of them."""
    k = 3
    omega = Quadratic(B).bind(P, k * P)
    dense = np.diag(B) if np.ndim(B) == 1 else B.toarray() if sp.issparse(B) else B
    blocks = np.kron(np.eye(k), dense)
    rng = np.random.default_rng(0)
    w, planes = rng.normal(size=k * P), rng.normal(size=(4, k * P))
    assert omega.value(w) == pytest.approx(0.5 * w @ blocks @ w, rel=1e-13)
    assert omega.conjugate(w) == pytest.approx(0.5 * w @ np.linalg.solve(blocks, w), rel=1e-12)
    np.testing.assert_allclose(omega.conjugate_gradient(w), np.linalg.solve(blocks, w), rtol=1e-10)
    np.testing.assert_allclose(
        omega.conjugate_curvature(w, planes),
        planes @ np.linalg.solve(blocks, planes.T),
        rtol=1e-10,
        atol=1e-13,
    )


def test_quadratic_works_without_bind():
    w, unbound, factored = in_domain("dense", 0), TABLE["dense"][0], bound("dense")
    assert unbound.value(w) == factored.value(w)
    assert unbound.conjugate(w) == factored.conjugate(w)
    assert unbound.slope(w, w) == factored.slope(w, w)
    assert vars(unbound).keys() == {"B"}


@pytest.mark.parametrize(
    "B, message",
    [
        (np.ones(P - 1), r"B has shape \(5,\), but X has 6 features"),
        (np.ones((P, P - 1)), r"B has shape \(6, 5\); allowed"),
        (np.ones((P, P, P)), r"B has shape \(6, 6, 6\); allowed"),
        (np.r_[np.ones(P - 1), 0.0], r"B must be positive definite.* 0\.0"),
        (np.r_[np.ones(P - 1), np.nan], "B has entries that are NaN"),
        (np.eye(P) + np.eye(P, k=1), r"B must be symmetric.* 1\.0"),
        (np.eye(P) - 2.0 * np.eye(P)[:, ::-1], r"B must be positive definite.* -1\b"),
        (np.ones((P, P)) - 0.5 * np.eye(P), "B must be positive definite"),
        (sp.eye(P) + sp.eye(P, k=1), "B must be symmetric"),
        (sp.diags(np.r_[np.ones(P - 1), -3.0]), r"B must be positive definite.* -3\b"),
        (sp.csr_matrix(np.eye(P)[:, ::-1]), "B must be positive definite"),
        (sp.csr_matrix(np.ones((P, P))), "B must be positive definite"),
    ],
)
def test_quadratic_refuses(B, message):
    with pytest.raises(ValueError, match=message):
        Quadratic(B).bind(P, P)


def test_entropy_outside_of_its_domain():
    assert Entropy().value(np.array([0.5, -1e-300])) == np.inf
    assert Entropy().value(np.zeros(2)) == pytest.approx(2.0 / np.e)
    assert EntropySimplex().value(np.array([0.5, 0.5 + 1e-8])) == np.inf
    assert EntropySimplex().value(np.array([1.5, -0.5])) == np.inf
    assert EntropySimplex().value(np.array([1.0, 0.0])) == pytest.approx(np.log(2.0))


@pytest.mark.parametrize("off", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("name", ["entropy", "entropy_simplex"])
def test_entropy_near_its_minimum(name, off):
    """Omega is about off^2 there, and its terms are about 1: to 50 digits."""
    omega, direction = TABLE[name][0], np.linspace(-1.0, 1.0, P)  # which sums to 0
    w = omega.start(P) * (1.0 + off * direction)
    with localcontext(prec=50):
        least = Decimal(-1).exp() if name == "entropy" else Decimal(1) / P
        exact = sum(x * (x / least).ln() - x + least for x in map(Decimal, w.tolist()))
    assert omega.value(w) == pytest.approx(float(exact), rel=1e-15 / off, abs=0.0)


@pytest.mark.parametrize("size", [1e-9, 1e-3, 1.0, 100.0])
def test_simplex_conjugate_is_as_exact_as_its_argument(size):
    """The least is 0 at m = 0, and log p is not small beside it: to 50 digits."""
    m = size * np.random.default_rng(0).normal(size=P)
    with localcontext(prec=50):
        mean = sum(Decimal(x).exp() for x in m.tolist()) / P
        exact = float(mean.ln())
    assert EntropySimplex().conjugate(m) == pytest.approx(exact, abs=1e-15 * size)


@pytest.mark.filterwarnings("error")
def test_entropy_overflows_quietly():
    m = np.array([1.0, 1e4])
    assert Entropy().conjugate(m) == np.inf
    assert Entropy().conjugate_gradient(m)[1] == np.inf
    assert EntropySimplex().conjugate(m) == pytest.approx(1e4 - np.log(2.0))
    np.testing.assert_array_equal(EntropySimplex().conjugate_gradient(m), [0.0, 1.0])


def test_entropy_slope_at_a_face():
    w = np.array([0.0, 1.0])
    assert Entropy().slope(w, np.array([1.0, 0.0]))[0] == -np.inf
    assert Entropy().slope(w, np.array([-1.0, 0.0]))[0] == np.inf
    assert Entropy().slope(w, np.array([0.0, 1.0])) == (1.0, 1.0)


def test_l1():
    assert L1().conjugate(np.array([1.0, -1.0])) == 0.0
    assert L1().conjugate(np.array([1.0, -1.0 - 1e-15])) == np.inf
    first, _ = L1().slope(np.array([0.0, -2.0, 3.0]), np.array([-1.0, 1.0, 1.0]))
    assert first == 1.0


def test_names():
    assert {name: kind.__name__ for name, kind in REGULARIZERS.items()} == {
        "l2": "L2",
        "lp": "Lp",
        "quadratic": "Quadratic",
        "entropy": "Entropy",
        "entropy_simplex": "EntropySimplex",
        "l1": "L1",
        "weighted_l1": "WeightedL1",
        "elasticnet": "ElasticNet",
    }


def test_ends_of_the_elastic_net():
    assert type(ElasticNet(1).bind(P, P)) is L1 and type(ElasticNet(0.0).bind(P, P)) is L2


@pytest.mark.parametrize("ratio", [-0.1, 1.1, np.nan, None, "half", True])
def test_l1_ratio(ratio):
    with pytest.raises(ValueError, match="l1_ratio of ElasticNet must be a number from 0 to 1"):
        ElasticNet(ratio).bind(P, P)


@pytest.mark.parametrize(
    "weights, message",
    [
        (np.ones(P - 1), r"must have shape \(\d+,\), one per feature"),
        (np.r_[np.ones(P - 1), 0.0], "must be positive and finite"),
        (np.r_[np.inf, np.ones(P - 1)], r"weights\[0\] is inf"),
    ],
)
def test_weights_of_l1(weights, message):
    with pytest.raises(ValueError, match=message):
        WeightedL1(weights).bind(P, P)


def test_weights_repeat_for_outputs():
    omega, w = WeightedL1(DIAGONAL).bind(P, 2 * P), np.ones(2 * P)
    assert omega.value(w) == pytest.approx(2 * np.sum(DIAGONAL))


@pytest.mark.parametrize(
    "omega",
    [
        L2(),
        Lp(1.5),
        Lp(2.0),
        ElasticNet(0.3),
        Quadratic([2.0, 0.5, 3.0]),
        Quadratic([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 3.0]]),
        Quadratic(sp.csr_matrix([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 3.0]])),
    ],
    ids=lambda omega: type(omega).__name__,
)
def test_strong_convexity(omega):
    """``Omega((v + w)/2) <= (Omega(v) + Omega(w))/2 - s/8 ||v - w||^2``, nearly attained."""
    omega, rng = omega.bind(3, 3), np.random.default_rng(0)
    s, least = omega.strong_convexity, np.inf
    for _ in range(2000):
        v, w = rng.normal(size=(2, 3)) * 10.0 ** rng.uniform(-2, 1, size=(2, 1))
        missing = 0.5 * (omega.value(v) + omega.value(w)) - omega.value(0.5 * (v + w))
        least = min(least, 8.0 * missing / ((v - w) @ (v - w)))
    assert 0.0 < s <= least * (1 + 1e-9)


def test_no_strong_convexity():
    class Own(L2):
        def value(self, w):
            return 0.0

    for omega in (L1(), WeightedL1([1.0, 2.0, 3.0]), ElasticNet(1.0), Own(), EntropySimplex()):
        assert omega.bind(3, 3).strong_convexity == 0.0
