"""SwapSVR: the optimum by every kernel, SVR's attributes, kernels on anything, refits."""

import pickle
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale
from sklearn.svm import SVR

from sklearn_bundle import BMRMRegressor, SwapNoveltyDetector, SwapSVR
from tests.contract.draws import draw
from tests.contract.fits import quiet
from tests.contract.kernel_machines import KERNELS, LAYOUTS
from tests.contract.subproblems import subproblems

LINEAR, SQUARED = "epsilon_insensitive", "squared_epsilon_insensitive"
LARGEST = 1e10


@cache
def diabetes(n=120):
    X, y = load_diabetes(return_X_y=True)
    return scale(X[:n]), scale(y[:n])


def weights_of(n):
    return np.random.default_rng(0).integers(0, 4, n).astype(float)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_optimum_of_an_interior_point_solver(kernel, weighted):
    X, y = diabetes(60)
    parameters, values = KERNELS[kernel]
    X = values(X, X) if kernel == "precomputed" else X
    weights = weights_of(60) if weighted else None
    model = SwapSVR(3.0, epsilon=0.2, tol=1e-8, **parameters).fit(X, y, weights)
    (problem,) = subproblems(model, X, y, weights)
    best = problem.by_clarabel()
    assert model.status_ == "converged"
    assert model.lower_bound_ <= best * (1.0 + 1e-9) <= model.objective_ * (1.0 + 2e-9)
    assert model.objective_ == pytest.approx(best, rel=2e-8)


def test_without_a_tube_it_is_ridge_regression_with_a_free_intercept():
    """``(K + I/C) beta + b = y`` with the sum 0 of beta."""
    X, y = diabetes()
    K, n = rbf_kernel(X, gamma=0.05), len(y)
    system = np.block([[K + np.eye(n) / 3.0, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    found = np.linalg.solve(system, np.append(y, 0.0))
    model = SwapSVR(3.0, loss=SQUARED, epsilon=0.0, gamma=0.05, tol=1e-12)
    quiet(model, X, y)
    assert_allclose(model.dual_coef_[0], found[:-1][model.support_], atol=1e-5)
    assert_allclose(model.intercept_, found[-1:], atol=1e-5)
    assert_allclose(model.predict(X), K @ found[:-1] + found[-1], atol=1e-5)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_a_linear_kernel_is_the_linear_estimator(loss):
    """BMRMRegressor has no penalty on its intercept either."""
    X, y = diabetes()
    peer = BMRMRegressor(loss=loss, epsilon=0.2, C=1.0, tol=1e-9).fit(X, y)
    model = SwapSVR(1.0, loss=loss, epsilon=0.2, kernel="linear", tol=1e-9).fit(X, y)
    assert_allclose(model.objective_, len(y) * peer.objective_, rtol=1e-8)  # of its mean
    assert_allclose(model.coef_[0], peer.coef_, atol=1e-3)


def test_attributes_have_the_shapes_of_svr():
    X, y = diabetes()
    model, peer = SwapSVR(epsilon=0.5).fit(X, y), SVR(epsilon=0.5).fit(X, y)
    for name in ("dual_coef_", "intercept_", "n_support_"):
        ours, theirs = getattr(model, name), getattr(peer, name)
        assert ours.ndim == theirs.ndim and ours.dtype == theirs.dtype, name
    assert model.support_.dtype == peer.support_.dtype and model.shape_fit_ == peer.shape_fit_
    assert_array_equal(model.support_vectors_, X[model.support_])
    K = rbf_kernel(X, model.support_vectors_, gamma=model.gamma_)
    f = K @ model.dual_coef_[0] + model.intercept_
    assert_allclose(model.predict(X), f, atol=1e-9)
    assert model.gamma_ == pytest.approx(peer._gamma)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_points_within_the_tube_have_no_coefficient():
    X, y = diabetes()
    model = SwapSVR(10.0, loss=SQUARED, epsilon=0.5, tol=1e-10).fit(X, y)
    coef = np.zeros(len(y))
    coef[model.support_] = model.dual_coef_[0]
    r = y - model.predict(X)
    # a relative gap g leaves sqrt(2 g J) of freedom in the function, times C in a coefficient
    expected = 10.0 * np.sign(r) * np.maximum(np.abs(r) - 0.5, 0.0)
    assert_allclose(coef, expected, atol=1e-2)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "callable", "precomputed"])
def test_a_tube_around_all_points_leaves_no_support_vector(kernel):
    X, y = diabetes()
    parameters, values = KERNELS[kernel]
    X = values(X, X) if kernel == "precomputed" else X
    for layout in list(LAYOUTS)[: 2 if kernel in ("callable", "precomputed") else 4]:
        made = LAYOUTS[layout](X)
        model = SwapSVR(epsilon=10.0, **parameters).fit(made, y)
        assert len(model.support_) == 0 and model.objective_ == 0.0
        middle = 0.5 * (y.min() + y.max())  # all between are best
        assert_allclose(model.predict(made), np.full(len(y), middle), atol=1e-12)


def test_many_refits_of_one_iteration_go_on():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 6))
    y = np.sin(2.0 * X[:, 0]) + rng.normal(size=700)
    one = SwapSVR(10.0, tol=1e-5, max_iter=1, warm_start=True, cache_size=1)
    gaps = [float(quiet(one, X, y).dual_gap_)]
    while one.status_ == "max_iter" and len(gaps) < 300:
        gaps.append(float(quiet(one, X, y).dual_gap_))
    long = SwapSVR(10.0, tol=1e-5, cache_size=1).fit(X, y)
    assert one.status_ == long.status_ == "converged" and len(gaps) <= 2 * long.n_iter_ + 5
    assert (np.diff(gaps) <= 1e-9 * one.objective_).all()


def words(letters=3, n=60):
    rng = np.random.default_rng(0)
    return ["".join(rng.choice(list("abcd"), letters + i % 4)) for i in range(n)]


def spectrum(X, Z):
    """Letters in common, as numbers of each."""
    count = lambda words: np.array([[w.count(c) for c in "abcd"] for w in words], float)  # noqa: E731
    return count(X) @ count(Z).T


@pytest.mark.parametrize("convert", [list, np.array, lambda w: np.array(w, dtype=object)])
def test_a_kernel_on_strings(convert):
    """As SVR takes them: what a callable is given is what the caller has, by rows."""
    X = words()
    y = np.array([w.count("a") - 0.5 * w.count("b") for w in X])
    model = SwapSVR(100.0, epsilon=0.0, kernel=spectrum, tol=1e-9).fit(convert(X), y)
    K = spectrum(X, X)
    matrix = SwapSVR(100.0, epsilon=0.0, kernel="precomputed", tol=1e-9).fit(K, y)
    assert_allclose(model.predict(convert(X)), matrix.predict(K), atol=1e-6)
    assert_allclose(model.predict(convert(X)), y, atol=0.05)
    assert model.shape_fit_ == SVR(kernel=spectrum).fit(convert(X), y).shape_fit_


def test_a_matrix_as_a_list():
    X, y = diabetes(30)
    K = rbf_kernel(X)
    model = SwapSVR(kernel="precomputed").fit(K.tolist(), y.tolist())
    assert_array_equal(
        model.predict(K.tolist()), SwapSVR(kernel="precomputed").fit(K, y).predict(K)
    )
    ragged = [*K[:-1].tolist(), [1.0]]
    with pytest.raises(ValueError, match=r"sequence|inhomogeneous|shape"):
        SwapSVR(kernel="precomputed").fit(ragged, y)


@pytest.mark.parametrize(
    "parameters, X, y, message",
    [
        ({"epsilon": -0.1}, None, None, "The 'epsilon' parameter of SwapSVR must be"),
        ({"kernel": "sigmoid"}, None, None, "kernel='sigmoid' is not positive definite"),
        ({"kernel": "precomputed"}, np.ones((4, 3)), np.ones(4), r"square.*\(4, 3\)"),
        ({"kernel": "precomputed"}, sp.eye(4).tocsr(), np.ones(4), "dense"),
        ({}, np.ones((4, 2)), np.ones((4, 2)), r"one number per sample.*\(4, 2\)"),
        ({"C": 1e200}, None, None, "C times the sample weights"),
    ],
    ids=str,
)
def test_wrong_input_is_named(parameters, X, y, message):
    X, y = diabetes() if X is None else (X, y)
    model = SwapSVR(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
def test_sparse_rows_are_dense_ones(kind):
    X, y = diabetes()
    X = np.where(np.abs(X) > 0.8, X, 0.0)
    dense, sparse = clone(SwapSVR(tol=1e-9)).fit(X, y), SwapSVR(tol=1e-9).fit(kind(X), y)
    assert_allclose(sparse.predict(kind(X)), dense.predict(X), atol=1e-4)
    assert sp.issparse(sparse.support_vectors_)


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore:.* ignores ", "ignore:The origin must not lie inside")
@pytest.mark.parametrize("kind", [SwapSVR, SwapNoveltyDetector])
def test_random_problems_converge_unless_float64_cannot_hold_them(kind):
    """Those whose ``sum_i C_i max k(x, x)`` is a condition that steps in two variables stand."""
    fitted = 0
    for seed in range(200):
        problem = draw(seed, kind.__name__)
        model = clone(problem.model).set_params(tol=kind().tol, max_iter=kind().max_iter)
        model = quiet(model, problem.X, problem.y, problem.weights)
        (reference,) = subproblems(model, problem.X, problem.y, problem.weights)
        K = reference.Z if hasattr(reference, "Z") else reference.K
        weights = np.ones(len(K)) if problem.weights is None else problem.weights
        if np.diag(K).max() * model.C * weights.sum() <= LARGEST:
            assert model.status_ == "converged", problem
            fitted += 1
    assert fitted > 150
