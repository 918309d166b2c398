"""Losses of one score: compiled loops against numpy, and each function against the others."""

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit

from sklearn_bundle.linear import rows, score_risk
from sklearn_bundle.linear._compiled import scores as loops
from sklearn_bundle.linear.losses import (
    BINARY_LOSSES,
    REGRESSION_LOSSES,
    EpsilonInsensitive,
    Huber,
    Quantile,
    RegressionLoss,
)
from sklearn_bundle.linear.score_risk import ScoreRisk

RANDOM = np.random.default_rng(0)
N = 203
WEIGHTS = RANDOM.dirichlet(np.ones(N))
F, H = RANDOM.normal(size=(2, N)) * 2.0
LABELS = np.where(RANDOM.random(N) < 0.4, 1.0, -1.0)
COUNTS = RANDOM.poisson(1.5, N).astype(float)
NUMBERS = RANDOM.normal(size=N) * 2.0 + 1.0
TARGETS = {name: LABELS for name in BINARY_LOSSES} | {name: NUMBERS for name in REGRESSION_LOSSES}
TARGETS |= {"poisson": COUNTS, "level": NUMBERS, "narrow": NUMBERS}
LOSSES = {name: kind() for name, kind in (BINARY_LOSSES | REGRESSION_LOSSES).items()}
LOSSES |= {"level": Quantile(0.9), "narrow": EpsilonInsensitive(0.0)}
LOSSES["huber"] = Huber(0.8)
each = pytest.mark.parametrize("name", LOSSES)
# These tests compile steps of their own, which no folder keeps.
pytestmark = pytest.mark.filterwarnings("ignore:numba finds no writable folder")


@njit(error_model="numpy")
def slopes_and_curvatures(loss, f, y, steepness):
    out = np.empty((2, len(f)))
    for i in range(len(f)):
        out[0, i] = loops.slope(loss, f[i], f[i] - y[i], y[i], steepness)
        out[1, i] = loops.curvature(loss, f[i], f[i] - y[i], y[i], steepness)
    return out


def risk_of_loss(loss, y, weights=WEIGHTS):
    return ScoreRisk(rows.rows_of(np.ones((len(y), 1))), y, weights, loss, True)


@each
def test_loops_are_the_formula_in_numpy(name):
    loss, y = LOSSES[name], TARGETS[name]
    slopes, bends = slopes_and_curvatures(loss.formula, F, y, 1.0 if loss.smooth else np.inf)
    assert slopes == pytest.approx(loss.gradient(F, y), rel=1e-13, abs=1e-15)
    g, s = np.empty(N), WEIGHTS
    total, offset = loops.cut(loss.formula, F, y, s, np.inf, 0.3, 0.0, g)
    assert total == pytest.approx(s @ loss.value(F + 0.3, y), rel=1e-13)
    assert g == pytest.approx(s * loss.gradient(F + 0.3, y), rel=1e-12, abs=1e-16)
    assert offset == pytest.approx(total - g @ (F + 0.3), rel=1e-11, abs=1e-13)
    assert offset == pytest.approx(loops.offset(loss.formula, g, y, s, 0.0), rel=1e-11, abs=1e-13)
    form, ends = risk_of_loss(loss, y).form, (F - 1e-3, F + 1e-3)
    assert form.risk(F, y, s, 0.3) == pytest.approx(total, rel=1e-13)
    G = s * np.abs([loss.gradient(f, y) for f in ends]).max(axis=0)
    sizes = form.sizes(F, y, s, 1e-3)
    assert (sizes.norms[0] ** 2, sizes.totals[0]) == pytest.approx((G @ G, G.sum()), rel=1e-12)
    first, second = loops.along(loss.formula, F, H, y, s, np.inf, 0.3, 0.1, 0.7)
    at, move = F + 0.3 + 0.7 * (H + 0.1), H + 0.1
    assert first == pytest.approx(s @ (move * loss.gradient(at, y)), rel=1e-11, abs=1e-14)
    if loss.smooth:
        bend = loss.curvature(F, y)
        assert bends == pytest.approx(bend, rel=1e-12)
        assert second == pytest.approx(s @ (move**2 * loss.curvature(at, y)), rel=1e-11)
        rows, coefs = np.empty(N, dtype=np.int64), np.empty(N)
        size = loops.curved(loss.formula, F, y, s, 1.0, 0.0, rows, coefs)
        assert np.array_equal(rows[:size], np.flatnonzero(bend))
        assert coefs[:size] == pytest.approx((s * bend)[rows[:size]], rel=1e-12)


@each
def test_the_conjugate_is_the_largest_difference(name):
    loss, y = LOSSES[name], TARGETS[name]
    for i in range(8):
        u, one = float(loss.gradient(F[i : i + 1], y[i : i + 1])[0]), y[i : i + 1]
        grid = np.r_[np.linspace(-30.0, 30.0, 20001), F[i]]
        best = np.max(u * grid - loss.value(grid, one))
        conjugate = -loops.offset(loss.formula, np.array([u]), one, np.ones(1), 0.0)
        assert conjugate == pytest.approx(best, abs=1e-12)
        center = 0.25 if isinstance(loss, RegressionLoss) else 0.0  # labels have none
        moved = -loops.offset(loss.formula, np.array([u]), one, np.ones(1), center)
        assert moved == pytest.approx(conjugate - center * u, abs=1e-13)


@each
def test_balanced_derivatives_are_slopes_that_sum_to_zero(name, monkeypatch):
    monkeypatch.setattr(score_risk, "_AT_A_TIME", 50)
    loss, y, s, g = LOSSES[name], TARGETS[name], WEIGHTS, np.empty(N)
    center = loss.center(y, s)
    loops.cut(loss.formula, F, y, s, np.inf, 0.0, center, g)
    if abs(g.sum()) >= np.abs(g).sum() * (1 - 1e-9):
        return  # of one sign: nothing to balance
    before = loops.offset(loss.formula, g, y, s, center)
    change = risk_of_loss(loss, y).form.balance(g, y, s, center)
    assert g.sum() == pytest.approx(0.0, abs=1e-15)
    offset = loops.offset(loss.formula, g, y, s, center)
    assert before + change == pytest.approx(offset, rel=1e-11, abs=1e-13)
    for f in (F, F + H, 3.0 * H):
        assert g @ f + offset <= s @ loss.value(f, y) + 1e-12


def test_far_targets_keep_their_digits():
    y, f, s = np.array([1e9, 1e9 + 1.0]), np.array([0.25, 1.5]), np.full(2, 0.5)
    squared, poisson = (LOSSES[name] for name in ("squared_error", "poisson"))
    risk = risk_of_loss(squared, y, s).value(f, 1e9)
    assert risk == 0.5 * np.mean((f - [0.0, 1.0]) ** 2)
    tiny = risk_of_loss(poisson, y, s).value(np.log(y) + 1e-9, 0.0)
    assert tiny == pytest.approx(0.5e-18 * y.mean(), rel=1e-5)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_squares_and_hessians_of_rows(kind, monkeypatch):
    monkeypatch.setattr(rows, "_BLOCK", 21)  # three rows at a time
    X, s, some = F.reshape(29, 7), WEIGHTS[:29], np.arange(1, 29, 2)
    ours = rows.rows_of(kind(X))
    assert ours.squares(s) == pytest.approx(s @ X**2, rel=1e-13)
    H, mean = ours.hessian(some, s[some], True)
    assert mean == pytest.approx(s[some] @ X[some] / s[some].sum(), rel=1e-13)
    apart = X[some] - mean
    assert np.tril(H) == pytest.approx(np.tril(apart.T @ (s[some, None] * apart)), abs=1e-15)
