"""Pairs of classes in one compiled call: optimum, certificate, scores, and the plainest shapes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from sklearn_bundle import SwapSVC, SwapSVCCV
from sklearn_bundle.kernel.solvers.pairs import PairPath, suits
from sklearn_bundle.kernel.values.kernel_data import KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel
from tests.contract.judge import judge
from tests.contract.kernel_machines import optimum

GAMMA, CS, ALL_ROWS = 0.05, np.array([0.03, 1.0, 30.0]), 1 << 30
RNG = np.random.default_rng(0)
LOSSES = "squared_hinge", "hinge"


THREE = np.arange(12) % 3


# Where values come from: features, a matrix in single precision, or one that is the kernel.
SOURCES = "computed", "kept", "given"


def path_of(data, tol, weighted=False, cache_bytes=ALL_ROWS, source="computed"):
    """A path of all points in reverse order, and their kernel matrix."""
    X, y = data[0][::-1], np.where(data[1] == 1, 1.0, -1.0)
    K = rbf_kernel(data[0], gamma=GAMMA)
    values = KernelData(np.ascontiguousarray(X), Kernel("rbf", GAMMA), np.float32)
    if source == "kept":
        values.keep_all()
    elif source == "given":
        rounded = K.astype(np.float32)
        K = rounded.astype(np.float64)
        values = KernelData(rounded[::-1, ::-1].copy(), Kernel("precomputed"), np.float32)
        assert not suits(values)  # it may be anybody's
        values.definite = True
    assert suits(values)
    weights = np.arange(len(y)) % 3 + 1.0 if weighted else np.ones(len(y))
    points = np.arange(len(y))[::-1].copy()
    return PairPath(values, points, y, weights, CS, tol, cache_bytes), K


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tol", [0.3, 1e-3])
@pytest.mark.parametrize("source", SOURCES)
def test_squared_hinge(data, tol, weighted, source):
    """The objective is that of the point, the bound below the optimum of another solver."""
    path, K = path_of(data, tol, weighted, source=source)
    results = path.squared_hinge(np.inf)
    assert len(results) == len(CS)
    for C, result in zip(CS, results, strict=True):
        costs, signed = C * path.costs, result.point * path.y
        scores = (K + 1.0) @ signed
        losses = costs * np.maximum(0.0, 1.0 - path.y * scores) ** 2
        assert_allclose(result.primal, 0.5 * signed @ scores + 0.5 * losses.sum(), rtol=1e-12)
        assert result.point.min() >= 0.0 and result.gap <= tol * result.primal
        best = optimum(K, path.y, costs)
        assert result.lower_bound <= best * (1.0 + 1e-9) <= result.primal * (1.0 + 2e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tol", [0.3, 1e-3])
@pytest.mark.parametrize("source", SOURCES)
def test_hinge(data, tol, weighted, source):
    """The optimum is between LIBSVM's dual objective, which is below it, and its objective."""
    path, K = path_of(data, tol, weighted, source=source)
    results, of_points, errors = path.hinge()
    assert len(results) == len(CS)
    for C, result, found, reach in zip(CS, results, of_points, errors, strict=True):
        beta, costs = result.point, C * path.costs
        scores = K @ beta
        assert (np.abs(found - scores) <= reach + 1e-13).all() and (path.y * beta >= 0.0).all()
        assert (np.abs(beta) <= costs).all() and abs(beta.sum()) <= 1e-12 * np.abs(beta).sum()

        def objective(b, beta=beta, scores=scores, costs=costs):
            losses = costs * np.maximum(0.0, 1.0 - path.y * (scores + b))
            return 0.5 * beta @ scores + losses.sum()

        assert_allclose(result.primal, objective(result.intercept), rtol=1e-12)
        kinks = path.y - scores  # where the objective in b is least
        assert_allclose(result.primal, min(map(objective, kinks)), rtol=1e-6)
        assert result.gap <= tol * result.primal
        peer = SVC(C=C, kernel="precomputed", tol=1e-8).fit(K, path.y, path.costs)
        dual = np.zeros(len(K))
        dual[peer.support_] = peer.dual_coef_[0]
        best = np.abs(dual).sum() - 0.5 * dual @ K @ dual
        assert result.lower_bound <= best * (1.0 + 1e-7) <= result.primal * (1.0 + 2e-7)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("cache_bytes", [0, 4 * 256 * 30])
def test_without_memory_for_the_rows_others_go_on(data, loss, cache_bytes):
    """What is returned is within the tolerance; the rest is left."""
    path, _ = path_of(data, 1e-3, cache_bytes=cache_bytes)
    results = path.hinge()[0] if loss == "hinge" else path.squared_hinge(np.inf)
    assert len(results) < len(CS)
    assert all(result.gap <= 1e-3 * result.primal for result in results)
    if loss == "squared_hinge":
        assert path_of(data, 1e-3)[0].squared_hinge(3) == []


SHAPES = {
    "one row each": (np.arange(3.0)[:, np.newaxis], [0, 1, 2], None),
    "a class of one row": (
        np.random.default_rng(0).normal(size=(13, 2)),
        [0] * 6 + [1] * 6 + [2],
        None,
    ),
    "constant column": (np.c_[np.ones(12), np.arange(12.0)], THREE, None),
    "only constants": (np.ones((12, 2)), THREE, None),
    "columns of 1e8": (
        1e8 + RNG.normal(size=(12, 3)),
        THREE,
        None,
    ),
    "weights of one row a class": (
        RNG.normal(size=(12, 3)),
        THREE,
        np.repeat([1.0, 0.0], [3, 9]),
    ),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", SHAPES)
def test_plain_shapes(shape, loss):
    X, y, weights = SHAPES[shape]
    for C in (1e-2, 1e4):
        model = SwapSVC(C, loss=loss, gamma=0.5, tol=1e-3).fit(X, np.array(y), weights)
        assert model.converged_
        judge(model, X, np.array(y), weights)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("gammas", [None, [0.1, 0.5]])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "a class of one row"])
@pytest.mark.filterwarnings("ignore:.* chose ")
def test_plain_shapes_in_a_search(shape, gammas, loss):
    """Each training part has all classes; the final fit is certified from the data."""
    X, y, weights = (None if part is None else np.array(part) for part in SHAPES[shape])
    X, y = np.tile(X, (2, 1)), np.tile(y, 2)
    weights = None if weights is None else np.tile(weights, 2)
    given = {"gammas": gammas} if gammas else {"gamma": 0.5}
    search = SwapSVCCV([1e-2, 1e4], loss=loss, tol=1e-3, cv=2, **given)
    search.fit(X, y, sample_weight=weights)
    assert search.converged_
    judge(search, X, y, weights)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.filterwarnings("ignore:.* chose ")
def test_a_search_has_the_scores_of_single_fits(loss, monkeypatch):
    """With each pair in one call, from a matrix or not, and without."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = np.digitize(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=120), [-0.5, 0.0, 0.5])
    calls, at_once = [], SwapSVC._at_once

    def counted(self, task, ratios):
        found = at_once(self, task, ratios)
        if len(ratios) > 1:
            calls.append(len(found))
        return found

    monkeypatch.setattr(SwapSVC, "_at_once", counted)
    search = SwapSVCCV([0.1, 1.0, 10.0], loss=loss, tol=1e-5, cv=3).fit(X, y)
    assert calls == [3] * 18  # three folds of six pairs
    small = SwapSVCCV([0.1, 1.0, 10.0], loss=loss, tol=1e-5, cv=3, cache_size=0.1).fit(X, y)
    assert calls == [3] * 36  # here the matrix does not fit
    monkeypatch.setattr(SwapSVC, "_at_once", lambda *_: [])
    other = SwapSVCCV([0.1, 1.0, 10.0], loss=loss, tol=1e-5, cv=3).fit(X, y)
    for one in (search, small):
        assert_allclose(one.scores_, other.scores_, atol=0.026)  # one row of a fold
        assert_allclose(one.objective_, other.objective_, rtol=1e-5)
