"""Regularizers: Fenchel's equality, what is free or refused."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle.linear.regularizers import (
    L1,
    L2,
    ElasticNet,
    Nonnegative,
    Quadratic,
    WeightedL1,
)

RANDOM = np.random.default_rng(3)
D = 6
ROOT = RANDOM.normal(size=(D, D))
WIDE = np.diff(np.eye(D), axis=0)  # differences of neighbors, which constants do not have
POSITIVE = RANDOM.random(D) + 0.5
KINDS = {
    "l2": L2(),
    "diagonal": Quadratic(POSITIVE),
    "dense": Quadratic(ROOT @ ROOT.T),
    "sparse": Quadratic(
        sp.csr_matrix(np.eye(D) * 2 + 0.5 * np.eye(D, k=1) + 0.5 * np.eye(D, k=-1))
    ),
    "free": Quadratic(np.r_[0.0, np.inf, POSITIVE[2:]]),
    "smooth": Quadratic(WIDE.T @ WIDE),
    "elastic": ElasticNet(0.3),
    "l1": L1(),
    "weighted": WeightedL1(np.r_[0.0, np.inf, POSITIVE[2:]]),
}
CONES = ("l2", "diagonal", "elastic", "l1")
KINDS |= {f"{name}+": Nonnegative(KINDS[name]) for name in CONES}
KINDS["excluded+"] = Nonnegative(Quadratic(np.r_[np.inf, POSITIVE[1:]]))
CASES = [(name, 2 * D if name in ("diagonal", "smooth", "weighted") else D) for name in KINDS]
each = pytest.mark.parametrize(("name", "p"), CASES)


def in_range(omega, m):
    """m without its part in the directions that cost nothing."""
    free, parts = omega.unpenalized, m.reshape(-1, D).copy()
    if free is not None and free.ndim == 1:
        parts[:, free] = 0.0
    elif free is not None:
        parts -= parts @ free @ free.T
    return parts.ravel()


@each
def test_fenchel_and_young(name, p):
    omega = KINDS[name].bind(D, p)
    for size in (0.05, 1.0, 3.0):
        m = in_range(omega, size * RANDOM.normal(size=p))
        if name in ("l1", "weighted", "l1+"):  # the conjugate is finite there only
            m = np.clip(m, -0.4, 0.4)
        w = omega.conjugate_gradient(m)
        assert omega.value(w) + omega.conjugate(m) == pytest.approx(w @ m, rel=1e-11, abs=1e-13)
        for _ in range(5):
            v = np.abs(RANDOM.normal(size=p))
            assert omega.value(v) + omega.conjugate(m) >= v @ m - 1e-12
            if omega.strong_convexity:
                apart = omega.value(v) - omega.value(w) - m @ (v - w)
                assert apart >= 0.5 * omega.strong_convexity * np.sum((v - w) ** 2) - 1e-9


def test_domains_and_free_directions():
    bound = {name: KINDS[name].bind(D, p) for name, p in CASES}
    assert L1().conjugate(np.array([1.0, 1.1])) == np.inf
    assert Nonnegative(L1()).conjugate(np.array([1.0, -9.0])) == 0.0
    assert Nonnegative(L2()).value(np.array([1.0, -1e-9])) == np.inf
    assert Nonnegative(L2()).slope(np.zeros(2), np.array([1.0, -1.0]))[0] == np.inf
    for name in ("free", "weighted"):
        omega = bound[name]
        assert omega.unpenalized.tolist() == [0] and omega.excluded.tolist() == [1]
        w = np.zeros(2 * D if name == "weighted" else D)
        w[0] = 5.0
        assert omega.value(w) == omega.conjugate(w) == 0.0
    basis = bound["smooth"].unpenalized
    assert np.abs(basis) == pytest.approx(np.full((D, 1), D**-0.5))
    assert bound["smooth"].strong_convexity == bound["free"].strong_convexity == 0.0


@pytest.mark.parametrize(
    ("omega", "message"),
    [
        (ElasticNet(1.5), "a number from 0 to 1"),
        (WeightedL1([1.0, -1.0]), r"must not be negative; weights\[1\] is -1.0"),
        (WeightedL1([1.0]), r"must have shape \(2,\)"),
        (Quadratic([1.0, -1.0]), "positive semidefinite"),
        (Quadratic([0.0, np.inf]), "positive and finite"),
        (Quadratic([[1.0, 2.0], [0.0, 1.0]]), "symmetric"),
        (Quadratic(sp.csr_matrix([[1.0, 1.0], [1.0, 1.0]])), "a dense B may be semidefinite"),
        (Quadratic(np.eye(3)), "X has 2 features"),
        (Nonnegative(Nonnegative(L2())), "must be one of L2, .* but is Nonneg"),
        (Nonnegative(Quadratic(np.eye(2))), "diagonal of shape"),
        (Nonnegative(WeightedL1([1.0, 0.0])), "that of feature 1 is 0"),
    ],
)
def test_what_is_refused(omega, message):
    with pytest.raises(ValueError, match=message):
        omega.bind(2, 2)
