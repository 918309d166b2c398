"""The bundle's inner problems against clarabel, HiGHS on the full program, and each other."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from sklearn_bundle.linear._compiled import simplex_qp
from sklearn_bundle.linear.solvers.inner import l1_master, simplex_newton, stiff_planes
from sklearn_bundle.regularizers import L2, Entropy, EntropySimplex, Lp, Quadratic
from tests.reference_cones import by_clarabel, exponential, halflines, power, zeros

T, P = 25, 12
DIAGONAL = np.linspace(0.2, 3.0, P)
REGULARIZERS = {
    "l2": L2(),
    "quadratic": Quadratic(DIAGONAL).bind(P, P),
    "lp_1.5": Lp(1.5),
    "lp_1.1": Lp(1.1),
    "entropy": Entropy(),
    "entropy_simplex": EntropySimplex(),
}
every_one = pytest.mark.parametrize("name", REGULARIZERS)
some_intercepts = pytest.mark.parametrize("k", [0, 1, 3])


def draw(kind, k, seed, t=T, p=P):
    """Planes, offsets and balance; plane 0 is zero."""
    rng = np.random.default_rng(seed)
    planes, offsets = rng.normal(size=(t, p)), rng.uniform(size=t)
    balance = rng.normal(size=(t, k))
    if kind == "duplicates":
        for array in (planes, offsets, balance):
            array[1 + t // 2 :] = array[1 : t - t // 2]
    elif kind == "dependent":
        planes = rng.normal(size=(t, 3)) @ rng.normal(size=(3, p))
        if k > 1:
            balance -= balance.mean(axis=1, keepdims=True)
    elif kind == "lengths":
        planes *= 10.0 ** rng.uniform(-4, 4, size=(t, 1))
    elif kind == "no_offsets":
        offsets[:] = 0.0
        planes[:, 0] = np.abs(planes[:, 0])
    for array in (planes, offsets, balance):
        array[0] = 0.0
    return planes, offsets, balance if k else None


every_kind = pytest.mark.parametrize(
    "kind", ["plain", "duplicates", "dependent", "lengths", "no_offsets"]
)


def dual_value(omega, reg_lambda, planes, offsets, alpha):
    return offsets @ alpha - reg_lambda * omega.conjugate(-(alpha @ planes) / reg_lambda)


def model(planes, offsets, balance, w, b):
    values = planes @ w + offsets
    return (values if balance is None else values + balance @ b).max()


def optimum(name, reg_lambda, planes, offsets, balance):
    """min lam Omega(w) + model, by clarabel on the primal in (w, b, xi, more)."""
    t, p = planes.shape
    k = 0 if balance is None else balance.shape[1]
    extra = {"lp": p + 1, "entropy": p}.get(name.split("_")[0], 0)
    n = p + k + 1 + extra
    quadratic, linear = np.zeros(n), np.zeros(n)
    linear[p + k] = 1.0
    free = np.zeros((t, k)) if balance is None else balance
    rows = [np.hstack([planes, free, -np.ones((t, 1)), np.zeros((t, extra))])]
    right, cones = [-offsets], halflines(t)
    eye = np.eye(n)
    if name in ("l2", "quadratic"):
        quadratic[:p] = reg_lambda * (np.ones(p) if name == "l2" else DIAGONAL)
    elif name.startswith("lp"):  # |w_j|^q <= r_j s^(q-1), sum r = s: s = ||w||_q
        order, s = float(name[3:]), n - 1
        quadratic[s] = reg_lambda
        rows.append(np.r_[np.zeros(p + k + 1), np.ones(p), -1.0][None])
        right.append(np.zeros(1))
        cones += zeros(1)
        for j in range(p):
            rows.append(-eye[[p + k + 1 + j, s, j]])
            right.append(np.zeros(3))
            cones += power(order, 1)
    else:  # (-r_j, w_j, 1) in the exponential cone: r_j >= w_j log w_j
        linear[p + k + 1 :] = reg_lambda
        if name == "entropy_simplex":
            rows.append(np.r_[np.ones(p), np.zeros(n - p)][None])
            right.append(np.ones(1))
            cones += zeros(1)
        for j in range(p):
            rows.append(np.array([eye[p + k + 1 + j], -eye[j], np.zeros(n)]))
            right.append(np.array([0.0, 0.0, 1.0]))
            cones += exponential(1)
    x = by_clarabel(sp.diags(quadratic), linear, np.vstack(rows), np.concatenate(right), cones)
    w, b = x[:p], x[p : p + k]
    if name.startswith("entropy"):
        w = np.maximum(w, 0.0)
        w = w / w.sum() if name == "entropy_simplex" else w
    return reg_lambda * REGULARIZERS[name].value(w) + model(planes, offsets, balance, w, b)


def check_simplex(alpha, balance):
    assert alpha.min() >= 0.0
    assert alpha.sum() == pytest.approx(1.0, abs=1e-14)
    if balance is not None:
        assert np.all(np.abs(balance.T @ alpha) <= 2e-15 * np.abs(balance).max(axis=0))


@pytest.mark.matrix
@every_one
@every_kind
@some_intercepts
@pytest.mark.parametrize("reg_lambda", [1e-2, 1.0])
def test_newton_against_clarabel(name, kind, k, reg_lambda):
    planes, offsets, balance = draw(kind, k, seed=k)
    omega = REGULARIZERS[name]
    alpha, b, gap = simplex_newton.solve(
        planes, offsets, balance, omega, reg_lambda, np.eye(T)[0], 0.0
    )
    check_simplex(alpha, balance)
    value = dual_value(omega, reg_lambda, planes, offsets, alpha)
    w = omega.conjugate_gradient(-(alpha @ planes) / reg_lambda)
    above = reg_lambda * omega.value(w) + model(planes, offsets, balance, w, b)
    # The gap is what it says, but for rounding in terms as large as <a_i, w>.
    rounding = 1e-12 * (np.abs(planes).max() if kind == "lengths" else 1.0)
    assert above - value == pytest.approx(gap, rel=1e-6, abs=rounding)
    assert gap <= max(1e-10 * abs(value), rounding)
    best = optimum(name, reg_lambda, planes, offsets, balance)
    assert value <= best + 1e-9 * (1.0 + abs(best))  # weak duality: clarabel's point is feasible
    assert best <= value + (1e-5 if kind == "lengths" else 1e-7)  # clarabel's own accuracy


@pytest.mark.matrix
@every_one
@some_intercepts
@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-6])
@pytest.mark.parametrize("seed", range(4))
def test_certificate_is_never_wrong(name, k, tolerance, seed):
    """A rough solution's value plus its gap is above the value of an accurate one."""
    planes, offsets, balance = draw("plain", k, seed)
    omega = REGULARIZERS[name]
    start = np.random.default_rng(seed).dirichlet(np.ones(T))
    rough, _, gap = simplex_newton.solve(planes, offsets, balance, omega, 0.05, start, tolerance)
    exact, _, rest = simplex_newton.solve(planes, offsets, balance, omega, 0.05, start, 0.0)
    assert gap <= tolerance
    low = dual_value(omega, 0.05, planes, offsets, rough)
    high = dual_value(omega, 0.05, planes, offsets, exact)
    assert low <= high + rest + 1e-14
    assert high <= low + gap + 1e-14


@every_kind
@pytest.mark.parametrize("seed", range(5))
def test_l2_equals_the_quadratic_programme(kind, seed):
    planes, offsets, _ = draw(kind, 0, seed)
    alpha, b, _ = simplex_newton.solve(planes, offsets, None, L2(), 0.1, np.eye(T)[0], 0.0)
    Q, x = planes @ planes.T, np.eye(T)[0]
    simplex_qp.solve(
        Q, 0.1 * offsets, x, T, 0.0, 500, np.empty(T, dtype=np.int64), np.empty((T, T)),
        np.empty((3, T)),
    )  # fmt: skip
    assert b is None
    values = [dual_value(L2(), 0.1, planes, offsets, a) for a in (alpha, x)]
    assert values[0] == pytest.approx(values[1], rel=1e-10, abs=1e-14)


@some_intercepts
def test_gram_and_newton_agree(k):
    """L2 through its Gram matrix, and as l_p with p = 2 through the conjugate's derivatives."""
    planes, offsets, balance = draw("plain", k, 1)
    for_each = [(L2(), planes @ planes.T), (L2(), None), (Lp(2.0), None)]
    values = []
    for omega, gram in for_each:
        alpha, _, _ = simplex_newton.solve(
            planes, offsets, balance, omega, 0.1, np.eye(T)[0], 0.0, gram=gram
        )
        values.append(dual_value(L2(), 0.1, planes, offsets, alpha))
    np.testing.assert_allclose(values, values[0], rtol=1e-11)


@every_one
@some_intercepts
def test_warm_start_is_kept(name, k):
    planes, offsets, balance = draw("plain", k, 2)
    args = planes, offsets, balance, REGULARIZERS[name], 0.1
    alpha, b, gap = simplex_newton.solve(*args, np.eye(T)[0], 0.0)
    before = alpha.copy()
    again, _, _ = simplex_newton.solve(*args, alpha, gap + 1e-6, center=b)
    np.testing.assert_array_equal(alpha, before)
    np.testing.assert_allclose(again, alpha, rtol=0, atol=1e-13)


@every_one
def test_intercept_that_could_go_to_infinity(name):
    """One plane besides zero: E' alpha = 0 leaves alpha = e_0 only, and any large -b is optimal."""
    planes, offsets = np.zeros((2, P)), np.array([0.0, 1.0])
    planes[1] = np.linspace(-1.0, 1.0, P)
    balance = np.array([[0.0], [0.5]])
    alpha, b, gap = simplex_newton.solve(
        planes, offsets, balance, REGULARIZERS[name], 0.1, np.eye(2)[0], 0.0
    )
    np.testing.assert_allclose(alpha, [1.0, 0.0], rtol=0, atol=1e-15)
    assert gap <= 1e-12
    start = REGULARIZERS[name].start(P)
    least = -(planes[1] @ start + 1.0) / 0.5  # the b next to 0 that lifts the model nowhere
    assert 3.0 * least <= b[0] <= least + 1e-6


@every_one
def test_intercepts_do_not_depend_on_the_scale_of_their_planes(name):
    planes, offsets, balance = draw("plain", 2, 3)
    omega = REGULARIZERS[name]
    results = [
        simplex_newton.solve(planes, offsets, balance * s, omega, 0.1, np.eye(T)[0], 0.0)
        for s in (1.0, 1e-6, 1e6)
    ]
    for (alpha, b, _), s in zip(results, (1.0, 1e-6, 1e6), strict=True):
        np.testing.assert_allclose(b * s, results[0][1], rtol=0, atol=1e-4)
        assert dual_value(omega, 0.1, planes, offsets, alpha) == pytest.approx(
            dual_value(omega, 0.1, planes, offsets, results[0][0]), rel=1e-9
        )


@every_one
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("reg_lambda", [1e-6, 1e6])
def test_extreme_regularization_ends(name, reg_lambda):
    planes, offsets, _ = draw("plain", 0, 4)
    omega = REGULARIZERS[name]
    alpha, _, gap = simplex_newton.solve(
        planes, offsets, None, omega, reg_lambda, np.eye(T)[1], 0.0
    )
    check_simplex(alpha, None)
    value = dual_value(omega, reg_lambda, planes, offsets, alpha)
    assert gap <= 1e-8 * max(1.0, abs(value))


@pytest.mark.filterwarnings("error")
def test_no_certificate_where_the_conjugate_overflows():
    alpha, _, gap = simplex_newton.solve(
        np.full((1, 2), -1.0), np.ones(1), None, Entropy(), 1e-5, np.ones(1), 0.0
    )
    assert alpha.tolist() == [1.0]
    assert gap == np.inf


def test_balanced():
    rng = np.random.default_rng(0)
    balance = rng.normal(size=(10, 2))
    exact = simplex_newton.balanced(rng.dirichlet(np.ones(10)), balance)
    check_simplex(exact, balance)
    near = simplex_newton.balanced(exact + 1e-8 * rng.uniform(size=10), balance)
    check_simplex(near, balance)
    np.testing.assert_allclose(near, exact, rtol=0, atol=1e-7)
    assert simplex_newton.balanced(np.full(10, 0.1), np.ones((10, 1))) is None


# ---- L1 ------------------------------------------------------------------------------------


def l1_optimum(planes, offsets, balance, reg_lambda):
    """The programme with all its constraints."""
    t, p = planes.shape
    rows = np.ones((1, t)) if balance is None else np.vstack([np.ones(t), balance.T])
    result = linprog(
        -offsets,
        A_ub=np.vstack([planes.T, -planes.T]),
        b_ub=np.full(2 * p, reg_lambda),
        A_eq=rows,
        b_eq=np.eye(len(rows))[0],
    )
    return -result.fun


@pytest.mark.matrix
@every_kind
@pytest.mark.parametrize("p", [8, 200])
@pytest.mark.parametrize("reg_lambda", [0.03, 0.5])
def test_l1_against_the_full_programme(kind, p, reg_lambda):
    planes, offsets, _ = draw(kind, 0, seed=0, p=p)
    alpha, w = l1_master.solve(planes, offsets, reg_lambda, np.eye(T)[0])
    check_simplex(alpha, None)
    assert np.abs(alpha @ planes).max() <= reg_lambda
    above = reg_lambda * np.abs(w).sum() + model(planes, offsets, None, w, None)
    assert offsets @ alpha == pytest.approx(above, rel=1e-8, abs=1e-9)
    best = l1_optimum(planes, offsets, None, reg_lambda)
    assert offsets @ alpha == pytest.approx(best, rel=1e-6, abs=1e-7)  # linprog's own tolerance


def test_l1_start_changes_nothing():
    planes, offsets, _ = draw("plain", 0, 0, p=300)
    alpha, w = l1_master.solve(planes, offsets, 0.2, np.eye(T)[0])
    again, v = l1_master.solve(planes, offsets, 0.2, alpha)
    assert offsets @ again == pytest.approx(offsets @ alpha, rel=1e-9)
    assert np.abs(v).sum() == pytest.approx(np.abs(w).sum(), rel=1e-6)


@some_intercepts
@pytest.mark.parametrize("weight", [1e-6, 1e-2, 10.0])
def test_l1_near_a_point(k, weight):
    """The scaled alpha proves a bound; with a small weight, that of the linear programme."""
    planes, offsets, balance = draw("plain", k, 5)
    center = np.random.default_rng(0).normal(size=P)
    alpha, w, b = l1_master.solve_near(
        planes, offsets, balance, 0.3, np.eye(T)[0], 0.0, center=center, weight=weight
    )

    def objective(w, b):
        away = w - center
        return (
            0.3 * np.abs(w).sum()
            + 0.5 * weight * away @ away
            + model(planes, offsets, balance, w, b)
        )

    rng = np.random.default_rng(1)
    here = objective(w, b)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(20):
            shift = 0.0 if b is None else b + size * rng.normal(size=k)
            assert objective(w + size * rng.normal(size=P), shift) >= here - 1e-9
    scaled = l1_master.scaled(alpha, planes, 0.3)
    check_simplex(scaled, balance)
    assert np.abs(scaled @ planes).max() <= 0.3
    best = l1_optimum(planes, offsets, balance, 0.3)
    assert offsets @ scaled <= best + 1e-7
    if weight == 1e-6:
        assert offsets @ scaled == pytest.approx(best, abs=1e-4)


def test_l1_weights():
    first = l1_master.first_weight(np.array([3.0, -0.5]), 1.0, 2.0)
    assert first == pytest.approx(0.1 * 4.0 / 4.0)
    assert l1_master.first_weight(np.array([0.5]), 1.0, 2.0) > 0.0
    assert l1_master.next_weight(1.0, 0.5, 2.0, 1.1, 1.0) == 1.0
    assert l1_master.next_weight(1.0, 1.5, 2.0, 1.1, 1.0) == 0.5
    assert l1_master.next_weight(1.0, 0.5, 2.0, 1.6, 1.0) == 0.5


# ---- planes that are far longer than what they sum to -------------------------------------------


def dot(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


def exact_gap(planes, offsets, reg_lambda, alpha, w):
    """Of a point and a dual point, without rounding."""
    A = [[Fraction(x) for x in row] for row in planes.tolist()]
    c, a, w = ([Fraction(x) for x in v.tolist()] for v in (offsets, alpha, w))
    lam, total = Fraction(reg_lambda), sum(a)
    highest = max(dot(row, w) + e for row, e in zip(A, c, strict=True))
    together = [dot(a, column) / total for column in zip(*A, strict=True)]
    dual = dot(a, c) / total - dot(together, together) / (2 * lam)
    return float(lam / 2 * dot(w, w) + highest - dual)


@pytest.mark.parametrize("kind", ["plain", "duplicates", "dependent"])
@pytest.mark.parametrize("reg_lambda", [1e-8, 1e-2])
@pytest.mark.parametrize("seed", range(3))
def test_stiff_planes(kind, reg_lambda, seed):
    """Features of 1e8, 1 and 1e-4: eps |a|^2 / lam is 2 at least, which the Gram matrix loses."""
    planes, offsets, _ = draw(kind, 0, seed, t=20, p=6)
    planes = planes * 10.0 ** np.array([8.0, 8.0, 0.0, 0.0, -4.0, -4.0])
    start = np.full(20, 0.05)
    alpha, w = stiff_planes.solve(planes, offsets, reg_lambda, start)
    assert alpha.min() >= 0.0 and alpha.sum() == pytest.approx(1.0, abs=1e-15)
    rounding = 2.2e-16 * np.abs(planes).max()  # of alpha, in A'alpha
    gap = exact_gap(planes, offsets, reg_lambda, alpha, w)
    assert gap <= rounding**2 / reg_lambda + 1e-12


def test_stiff_planes_where_nothing_is_stiff():
    for seed in range(5):
        planes, offsets, _ = draw("plain", 0, seed)
        alpha, w = stiff_planes.solve(planes, offsets, 1e-2, np.eye(T)[0])
        assert exact_gap(planes, offsets, 1e-2, alpha, w) <= 1e-13
