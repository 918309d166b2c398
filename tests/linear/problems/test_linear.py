"""The data matrix as an operator: layouts, threads, blocks, passes."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle.core import parallel
from sklearn_bundle.core.parallel import row_blocks, split_threads
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows import memory_rows
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.losses import Hinge

RNG = np.random.default_rng(0)


def make(kind, dtype, n=203, d=37):
    X = RNG.normal(size=(n, d)) * (RNG.random((n, d)) < 0.3)
    X[5] = 0.0
    X = X.astype(dtype)
    if kind == "dense":
        return X
    container = sp.csr_array if kind == "array64" else sp.csr_matrix
    S = container(X)
    if kind == "array64":
        S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    return S


@pytest.mark.parametrize("kind", ["dense", "matrix32", "array64"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_products(kind, dtype, n_threads, monkeypatch):
    monkeypatch.setattr(parallel, "_BLOCK_ENTRIES", 500)  # several blocks on small data
    X = make(kind, dtype)
    w, g = RNG.normal(size=X.shape[1]), RNG.normal(size=X.shape[0])
    g[::3] = 0.0
    with rows_in_memory(X, n_threads) as operator:
        # float32 entries are exact in float64, where all sums are taken
        reference = X.astype(np.float64)
        np.testing.assert_allclose(operator.scores(w), reference @ w, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(operator.gradient(g), reference.T @ g, rtol=1e-13, atol=1e-13)
        assert operator.passes == 2


@pytest.mark.parametrize("d", [1, 7, 8, 9, 22, 24, 127, 128, 129, 161, 4096, 8205])
@pytest.mark.parametrize("n", [1, 3, 4, 9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_of_every_length(d, n, dtype, sparse):
    """Rows end within a vector, and so do the data."""
    X = RNG.normal(size=(n, d)).astype(dtype)
    operator = rows_in_memory(sp.csr_matrix(X) if sparse else X)
    w, g = RNG.normal(size=d), RNG.normal(size=n)
    reference = X.astype(np.float64)
    # sums of up to 8205 products in another order
    np.testing.assert_allclose(operator.scores(w), reference @ w, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(operator.gradient(g), reference.T @ g, rtol=1e-12, atol=1e-12)


def test_sparse_rows_with_few_entries_or_none_at_the_end():
    X = sp.random_array((300, 50), density=0.05, rng=RNG, format="csr")
    X = sp.vstack([X, sp.csr_array((5, 50))], format="csr")
    operator = rows_in_memory(X)
    w, g = RNG.normal(size=50), RNG.normal(size=305)
    np.testing.assert_allclose(operator.scores(w), X @ w, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(operator.gradient(g), X.T @ g, rtol=1e-13, atol=1e-13)
    assert (operator.scores(w)[-5:] == 0.0).all()


def test_entries_that_are_stored_twice_count_twice():
    X = sp.csr_matrix(([1.0, 2.0, 4.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    operator = rows_in_memory(X)
    assert operator.scores(np.array([10.0, 1.0])).tolist() == [3.0, 40.0]
    assert operator.gradient(np.array([1.0, 1.0])).tolist() == [4.0, 3.0]
    assert operator.squared_norms().tolist() == [9.0, 16.0]


def test_unsorted_rows_are_not_copied():
    X = sp.csr_matrix(([1.0, 2.0, 4.0, 1.0], [1, 0, 0, 1], [0, 2, 3, 4]), shape=(3, 2))
    assert rows_in_memory(X).squared_norms().tolist() == [5.0, 16.0, 1.0]
    assert X.indices.tolist() == [1, 0, 0, 1] and not X.has_sorted_indices
    assert rows_in_memory(X)._whole is X


def test_a_weight_that_is_not_finite_stays_in_its_rows():
    """What is read after the end of a row belongs to the next one."""
    X = sp.csr_matrix(np.diag(np.arange(1.0, 31.0)))
    w = np.ones(30)
    w[7] = np.inf
    scores = rows_in_memory(X).scores(w)
    assert np.flatnonzero(~np.isfinite(scores)).tolist() == [7]


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("n_entries", [0, 5_000])
def test_gradient_by_columns(n_threads, n_entries, monkeypatch):
    monkeypatch.setattr(memory_rows, "_MANY_COLUMNS", 1000)
    of_rows, columns = RNG.integers(200, size=n_entries), RNG.integers(2000, size=n_entries)
    X = sp.csr_matrix((RNG.normal(size=n_entries), (of_rows, columns)), shape=(200, 2000))
    g = RNG.normal(size=200)
    g[::3] = 0.0
    one = rows_in_memory(X).gradient(g)
    with rows_in_memory(X, n_threads) as operator:
        assert np.array_equal(operator.gradient(g), one)
    np.testing.assert_allclose(one, X.T @ g, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("share", [0.05, 0.5])
@pytest.mark.parametrize("sparse", [False, True])
def test_long_rows_with_few_weights(share, sparse):
    """Rows are left out or read with weight zero, whichever is faster: the sum is the same."""
    X = RNG.normal(size=(60, 150))
    g = RNG.normal(size=60) * (RNG.random(60) < share)
    operator = rows_in_memory(sp.csr_matrix(X) if sparse else X)
    np.testing.assert_allclose(operator.gradient(g), X.T @ g, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("sparse", [False, True])
def test_vectors_with_gaps(sparse):
    X = RNG.normal(size=(40, 30))
    w, g = RNG.normal(size=60)[::2], RNG.normal(size=80)[::2]
    operator = rows_in_memory(sp.csr_matrix(X) if sparse else X)
    np.testing.assert_allclose(operator.scores(w), X @ w, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(operator.gradient(g), X.T @ g, rtol=1e-13, atol=1e-13)


def test_no_copy_and_no_write():
    X = make("matrix32", np.float64)
    operator = rows_in_memory(X)
    assert np.shares_memory(operator._arrays[0], X.data)
    assert np.shares_memory(operator._arrays[1], X.indices)
    assert not any(array.flags.writeable for array in operator._arrays[:2])
    assert X.data.flags.writeable


def test_bytes_of_a_pass():
    X = make("dense", np.float32)
    assert rows_in_memory(X).nbytes == X.nbytes


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_do_not_change_a_bit(n_threads, monkeypatch):
    monkeypatch.setattr(parallel, "_BLOCK_ENTRIES", 500)
    X, g = make("matrix32", np.float64), RNG.normal(size=203)
    one = rows_in_memory(X)
    with rows_in_memory(X, n_threads) as operator:
        assert np.array_equal(operator.gradient(g), one.gradient(g))


@pytest.mark.parametrize("n_rows", [0, 1, 50, 203])
def test_hessian_in_blocks(n_rows, monkeypatch):
    monkeypatch.setattr(memory_rows, "_LEAST_DENSE_ROWS", 20)
    monkeypatch.setattr(memory_rows, "_BLOCK_PRODUCTS", 1)
    monkeypatch.setattr(memory_rows, "_DENSE_ROWS", 30)
    X, rows, coefs = make("dense", np.float64), np.arange(n_rows), RNG.random(n_rows)
    one = rows_in_memory(X).hessian(rows, coefs, True)
    with rows_in_memory(X, 2) as operator:
        assert np.array_equal(operator.hessian(rows, coefs, True), one)
    with_ones = np.column_stack([X, np.ones(203)])[rows]
    np.testing.assert_allclose(np.tril(one), np.tril(with_ones.T * coefs @ with_ones), atol=1e-12)


@pytest.mark.parametrize("entries, n, d", [(0, 1, 1), (10**7, 60_000, 784), (10**7, 5, 10**6)])
def test_blocks_cover_the_rows(entries, n, d):
    bounds = row_blocks(entries, n, d)
    assert bounds[0] == 0 and bounds[-1] == n
    assert (np.diff(bounds) > 0).all()
    assert len(bounds) - 1 <= 16


def test_one_level_of_threads():
    assert split_threads(2, 1) == (1, 2)
    assert split_threads(2, 3) == (2, 1)
    assert split_threads(8, 3) == (3, 1)


def test_protocol_and_points_agree():
    X = make("dense", np.float64)
    y = np.where(RNG.random(203) < 0.4, 1.0, -1.0)
    problem = LinearProblem(rows_in_memory(X), y, np.full(203, 1 / 203), Hinge(), True)
    w = RNG.normal(size=37)
    value, subgradient = problem.evaluate(w)
    point = problem.point(w)
    plane = problem.cut(point)
    assert value == plane.risk == problem.risk(point)
    assert np.array_equal(subgradient, plane.gradient)
    assert plane.offset + subgradient @ w == pytest.approx(value, rel=1e-12)


def test_scores_of_a_step_that_magnifies_rounding_are_computed_afresh():
    """Near the optimum a direction may be all rounding, and the step along it 1e14."""
    X, step = RNG.normal(size=(30, 4)), 1e14
    p = LinearProblem(rows_in_memory(X), np.sign(X[:, 0]), np.full(30, 1 / 30), Hinge(), False)
    start = p.point(RNG.normal(size=4))
    end = p.point(start.w * (1.0 + 1e-15 * RNG.normal(size=4)))
    point = p.blend(start, end, step)
    np.testing.assert_allclose(point.scores, X @ point.w, rtol=1e-12, atol=1e-12)


def test_no_plane_above_the_limit():
    X, y = np.ones((2, 1)), np.array([1.0, -1.0])
    problem = LinearProblem(rows_in_memory(X), y, np.array([0.5, 0.5]), Hinge(), False)
    assert problem.cut(problem.point(np.array([50.0])), risk_limit=10.0) is None
    assert problem.passes == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n_threads", [1, 2])
def test_risk_along_a_line_in_blocks_of_rows(n_threads, monkeypatch):
    """Its sums are those of all rows, and infinite, without a warning, where one block's are."""
    monkeypatch.setattr(parallel, "_BLOCK_ROWS", 40)
    rng = np.random.default_rng(1)
    X, y, weights = rng.normal(size=(203, 3)), np.sign(rng.normal(size=203)), np.full(203, 1 / 203)
    w, change, loss = rng.normal(size=3), rng.normal(size=3), Hinge()
    with LinearProblem(rows_in_memory(X, n_threads), y, weights, loss, False) as problem:
        risk = problem.risk_along(problem.point(w), problem.point(w + change))
        for step in (0.0, 0.3, 2.0):
            at = X @ (w + step * change)
            slope = weights @ (np.where(y * at < 1.0, -y, 0.0) * (X @ change))
            assert risk(step) == pytest.approx((weights @ loss.value(at, y), slope), rel=1e-12)
        assert risk(1e308) == (np.inf, np.inf)
