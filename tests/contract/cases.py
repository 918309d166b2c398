"""The one table of the net: estimators with settings, each on a set of data that has its optimum.

Every loss, regularizer, solver and model is in it, small enough for an independent optimum. The
tests of this folder take each case through whatever may happen to a fit.
"""

from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from sklearn_bundle import (
    SDCACRF,
    SDCACRFCV,
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    BMRMRegressorCV,
    PragamSVC,
    StructuredSVM,
    SwapNoveltyDetector,
    SwapSVC,
    SwapSVCCV,
    SwapSVR,
    SwapSVRCV,
)
from sklearn_bundle.models import Chain, Multiclass, Multilabel, PairwiseGraph, Segments
from sklearn_bundle.models import Grid as CutGrid
from sklearn_bundle.regularizers import L1, L2, ElasticNet, Nonnegative, Quadratic, WeightedL1
from tests.contract.fits import quiet
from tests.contract.judge import judge
from tests.contract.user_losses import AbsoluteMargin, LogCosh
from tests.contract.user_models import BoundedGrid, Grid
from tests.reference_chain import made
from tests.reference_segments import drawn

ALGORITHM = {  # parameters that do not change the problem
    *("solver", "tol", "max_iter", "max_time", "verbose", "n_jobs"),
    *("random_state", "lipschitz", "sampling"),
    *("cache_size", "n_cached_outputs", "warm_start"),
}
COST = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [1.0, 2.0, 0.0]])
# Second differences: neither a common change of all weights costs, nor one that rises evenly.
BENDS = np.array([[1.0, -2.0, 1.0, 0.0], [0.0, 1.0, -2.0, 1.0]])
SMOOTHED = Quadratic(BENDS.T @ BENDS)
LOOPS = np.array([(0, 1), (2, 1), (2, 3), (0, 3), (0, 1)])  # one of them twice


class Data(NamedTuple):
    """What ``fit`` takes."""

    X: Any
    y: Any = None
    weights: Any = None
    further: dict = {}  # noqa: RUF012

    @property
    def size(self):
        return len(self.X) if isinstance(self.X, list) else self.X.shape[0]


class ListedGrid(CutGrid):
    """Minimum cuts; the judge asks for all outputs."""

    def outputs(self, x):
        rows, columns = np.shape(x)[:2]
        return np.array(list(product([0, 1], repeat=rows * columns))).reshape(-1, rows, columns)


@cache
def data(name):
    """Numbers are exact in float32."""
    X, two = make_classification(
        48, 4, n_informative=3, n_redundant=0, flip_y=0.1, class_sep=0.5, random_state=0
    )
    X = np.round(64 * X * [4.0, 2.0, 1.0, 0.5]) / 64
    rng = np.random.default_rng(0)
    f = np.round(X @ [1.0, -0.5, 0.3, 0.0] + rng.normal(size=len(X)), 3)
    weights, three = rng.integers(0, 4, len(X)).astype(float), np.digitize(f, [-0.7, 0.7])
    weights[:4] = 1.0
    pictures = rng.normal(size=(8, 2, 3, 2))
    cells = (pictures.mean(axis=2, keepdims=True) + 0.5 * pictures)[..., 0] > 0.0
    group = np.arange(len(X)) // 4
    sets = (X[:9, :3] + rng.normal(size=(9, 3)) > 0.0).astype(int)
    nodes = [(rng.normal(size=(4, 2)), LOOPS, rng.normal(size=(5, 2))) for _ in range(6)]
    points = [rng.normal(size=(3, 3 + i % 2, 2)) for i in range(7)]
    segments = drawn((1, 3, 4, 2, 4, 3), 3)
    wide = np.round(64 * rng.normal(size=(12, 40))) / 64
    # So many rows per column that solvers do not take all of them at once.
    many = np.round(64 * rng.normal(size=(240, 3))) / 64
    far = np.round(many @ [1.0, -1.0, 0.5] + rng.normal(size=len(many)), 3)
    thrice = rng.integers(0, 4, len(many)).astype(float)
    return {
        "two": Data(X, two),
        "two, weighted": Data(X, two, weights),
        "three": Data(X, three),
        "three, weighted": Data(X, three, weights),
        "few": Data(X[:9], two[:9]),
        "wide": Data(wide, two[:12], weights[:12]),
        "wide numbers": Data(wide, f[:12], weights[:12]),
        "one column": Data(X[:, :1], three, weights),
        "many, weighted": Data(many, (far > 0.3).astype(int), thrice),
        "many numbers": Data(many, far, thrice),
        "numbers": Data(X, f),
        "numbers, weighted": Data(X, f, weights),
        "counts": Data(X, np.floor(np.exp(f)), weights),
        "two outputs": Data(X, np.c_[f, X[:, 0] - f], weights),
        "queries": Data(X, three, 1.0 + group % 3, {"group": group}),
        "shifted": Data(X + 1.0, None, weights),
        "matrix": Data(rbf_kernel(X).astype(np.float32).astype(np.float64), two, weights),
        "chains": Data(*made(15, 3, 3, 4)),
        "chains, weighted": Data(*made(15, 3, 3, 4), weights[:15]),
        "segments, weighted": Data(*segments, weights[:6]),
        "pictures, weighted": Data(list(pictures), list(cells.astype(int)), weights[:8]),
        "graphs, weighted": Data(nodes, [rng.integers(0, 3, 4) for _ in nodes], weights[:6]),
        "points, weighted": Data(points, [rng.permutation(3) for _ in points], weights[:7]),
        "sets, weighted": Data(X[:9, :2], sets, weights[:9]),
    }[name]


def linear(loss="hinge", **parameters):
    return BMRMClassifier(loss, **({"reg_lambda": 0.02} | parameters))


def regressor(loss, **parameters):
    own = {"quantile": 0.3} if loss == "quantile" else {}
    return BMRMRegressor(loss, **({"reg_lambda": 0.02} | own | parameters))


def structured(model="chain", **parameters):
    return StructuredSVM(model, **({"reg_lambda": 0.05, "random_state": 0} | parameters))


def crf(**parameters):
    return SDCACRF(**({"reg_lambda": 0.05, "random_state": 0} | parameters))


SMOOTH = "squared_hinge", "log_loss"
LOSSES = "hinge", *SMOOTH
_CASES = [
    *((linear(loss, solver="line-search"), "two, weighted") for loss in LOSSES[:2]),
    (linear("log_loss", solver="line-search", reg_lambda=0.2), "two"),
    *((linear(loss, solver="newton"), "two, weighted") for loss in LOSSES),
    *((linear(loss, solver="dual-coordinate"), "two, weighted") for loss in LOSSES),
    *((linear(loss, solver="dual-coordinate", fit_intercept=False), "wide") for loss in LOSSES),
    *((linear(loss, reg_lambda=1e-4), "two") for loss in LOSSES),
    *((linear(loss, solver="newton", reg_lambda=1e-3), "many, weighted") for loss in LOSSES),
    (linear(reg_lambda=1e-3), "many, weighted"),
    (linear(solver="line-search"), "wide"),
    (linear("log_loss", solver="lbfgs"), "two, weighted"),
    (linear(), "three, weighted"),
    (linear("log_loss", class_weight="balanced", fit_intercept=False), "three, weighted"),
    (linear(solver="cutting-plane"), "two"),
    (linear("squared_hinge", regularizer="l1"), "two, weighted"),
    (linear("log_loss", regularizer="elasticnet", solver="coordinate-descent"), "two, weighted"),
    (linear(regularizer="l1", reg_lambda=0.05), "two"),
    (linear(regularizer=Quadratic([1.0, 2.0, 0.5, 1.0])), "two"),
    (linear("log_loss", regularizer=ElasticNet(0.3)), "two, weighted"),
    *((linear(loss, regularizer=SMOOTHED), "two, weighted") for loss in ("hinge", "log_loss")),
    (linear("softmax", regularizer=Quadratic([1.0, 2.0, 0.0, 1.0])), "three, weighted"),
    (linear(regularizer=WeightedL1([1.0, 0.0, 1.0, 2.0])), "two, weighted"),
    (linear("squared_hinge", regularizer=Nonnegative(L2())), "two, weighted"),
    (linear("log_loss", regularizer=Nonnegative(L1())), "two, weighted"),
    (linear(AbsoluteMargin()), "two, weighted"),
    (linear("roc_auc"), "two, weighted"),
    (linear("fbeta", beta=0.5, reg_lambda=0.1), "few"),
    (linear("softmax", solver="line-search", reg_lambda=0.1), "three, weighted"),
    *((linear("softmax", solver=solver), "three, weighted") for solver in ("newton", "lbfgs")),
    (linear("softmax", reg_lambda=0.2), "two, weighted"),
    (linear("softmax", regularizer="l1", reg_lambda=0.05), "three, weighted"),
    (linear("multiclass_hinge", solver="line-search"), "three"),
    (linear("multiclass_hinge", solver="dual-coordinate"), "three, weighted"),
    (linear("multiclass_hinge", fit_intercept=False), "three, weighted"),
    *((linear(loss), "one column") for loss in ("multiclass_hinge", "softmax")),
    (linear("multiclass_hinge", cost=COST), "three, weighted"),
    (BMRMClassifierCV(reg_lambdas=[0.02], cv=2), "three"),
    *((regressor(loss), "numbers, weighted") for loss in ("huber", "quantile")),
    *(
        (regressor(loss, solver="newton"), "numbers, weighted")
        for loss in ("absolute_error", "huber", "epsilon_insensitive")
    ),
    (regressor("quantile", solver="dual-coordinate"), "numbers, weighted"),
    (regressor("squared_epsilon_insensitive", epsilon=0.3), "numbers, weighted"),
    (regressor("squared_error"), "numbers, weighted"),
    (regressor("squared_error", solver="line-search"), "numbers, weighted"),
    (regressor("squared_error", solver="lbfgs"), "numbers, weighted"),
    (regressor("squared_error", solver="lbfgs"), "wide numbers"),
    (regressor("absolute_error"), "wide numbers"),
    *((regressor(loss, reg_lambda=1e-3), "many numbers") for loss in ("quantile", "huber")),
    (regressor("squared_error", regularizer="l1"), "numbers, weighted"),
    (regressor("squared_error", regularizer=WeightedL1([1.0, 2.0, 0.5, 1.0])), "numbers"),
    (regressor("huber", regularizer="elasticnet", l1_ratio=0.3), "numbers, weighted"),
    (regressor("squared_error", regularizer=WeightedL1([0.0, 0.0, 1.0, 1.0])), "numbers, weighted"),
    (regressor("huber", regularizer=SMOOTHED), "numbers, weighted"),
    (regressor("quantile", regularizer=Nonnegative(ElasticNet(0.3))), "numbers, weighted"),
    (regressor("epsilon_insensitive", regularizer=ElasticNet(0.3)), "numbers, weighted"),
    (regressor(LogCosh()), "numbers, weighted"),
    (regressor("poisson"), "counts"),
    (regressor("poisson", solver="lbfgs"), "counts"),
    (regressor("squared_error", solver="lbfgs"), "two outputs"),
    (regressor("absolute_error"), "two outputs"),
    (BMRMRegressorCV("absolute_error", reg_lambdas=[0.02], cv=2), "numbers"),
    (BMRMRanker(reg_lambda=0.02), "three, weighted"),
    (BMRMRanker(reg_lambda=0.02, cost="squared"), "queries"),
    (BMRMRanker("ndcg", reg_lambda=0.02, k=2), "queries"),
    (BMRMNoveltyDetector(reg_lambda=0.1), "shifted"),
    (PragamSVC(reg_lambda=0.05), "two, weighted"),
    (PragamSVC(reg_lambda=0.05, lipschitz=400.0), "two"),
    (PragamSVC(reg_lambda=0.05, fit_intercept=False, class_weight="balanced"), "three, weighted"),
    *((SwapSVC(solver=solver), "two, weighted") for solver in ("fw", "cvm", "mfw", "swap")),
    (SwapSVC(10.0), "two, weighted"),
    (SwapSVC(class_weight="balanced"), "two, weighted"),
    (SwapSVC(), "three, weighted"),
    (SwapSVC(10.0, solver="swap-2o"), "two"),
    (SwapSVC(solver="decomposition"), "two, weighted"),
    (SwapSVC(kernel="linear"), "two, weighted"),
    (SwapSVC(kernel="poly", coef0=1.0, degree=2), "two"),
    (SwapSVC(kernel="precomputed"), "matrix"),
    (SwapSVC(kernel=laplacian_kernel), "two"),
    (SwapSVC(10.0, loss="hinge"), "two, weighted"),
    (SwapSVC(10.0, loss="hinge"), "three, weighted"),
    (SwapSVC(10.0), "many, weighted"),
    (SwapSVC(loss="hinge", kernel="precomputed"), "matrix"),
    (SwapSVCCV(Cs=[1.0], cv=2), "three"),
    (SwapSVR(loss="squared_epsilon_insensitive"), "numbers, weighted"),
    (
        SwapSVR(10.0, loss="squared_epsilon_insensitive", kernel="poly", degree=2, coef0=1.0),
        "numbers",
    ),
    (SwapSVR(loss="epsilon_insensitive"), "numbers, weighted"),
    (SwapSVR(kernel="linear", loss="epsilon_insensitive", epsilon=0.0), "numbers, weighted"),
    (SwapSVRCV(Cs=[1.0], cv=2), "numbers"),
    (SwapNoveltyDetector(nu=0.2), "shifted"),
    (SwapNoveltyDetector(nu=None), "shifted"),
    (SwapNoveltyDetector(10.0, nu=None, kernel="linear"), "shifted"),
    *((SwapNoveltyDetector(3.0, nu=None, kernel=k), "shifted") for k in ("poly", rbf_kernel)),
    (SwapNoveltyDetector(3.0, nu=None, kernel="precomputed"), "matrix"),
    *((crf(solver=solver), "chains, weighted") for solver in ("exponentiated", "sdca", "lbfgs")),
    (crf(), "chains, weighted"),
    (crf(l1_ratio=0.5), "chains, weighted"),
    (crf(solver="sdca", fit_intercept=False), "chains, weighted"),
    (SDCACRFCV(reg_lambdas=[0.02], cv=2, random_state=0), "chains"),
    (structured(), "chains, weighted"),
    (structured(solver="bundle"), "chains"),
    (structured(Multiclass(cost=COST), scaling="slack", solver="rsd"), "three, weighted"),
    (structured("multiclass", loss="squared_hinge", solver="bcfw"), "three, weighted"),
    (structured(Multiclass(cost=COST), solver="rsd-one-simplex"), "three"),
    (structured(Chain(cost=COST), solver="rsd-working-sets"), "chains"),
    (structured(Segments()), "segments, weighted"),
    (structured(Segments(), loss="log"), "segments, weighted"),
    (structured(PairwiseGraph(), reg_lambda=0.5), "graphs, weighted"),
    (structured("matching"), "points, weighted"),
    (structured(Multilabel([(0, 1), (1, 2)]), reg_lambda=0.2), "sets, weighted"),
    (structured(Multilabel("tree"), reg_lambda=0.2), "sets, weighted"),
    (structured(ListedGrid(contrast=[0]), reg_lambda=0.1), "pictures, weighted"),
    (structured(Grid()), "pictures, weighted"),
    (structured(Grid(), solver="rsd-one-simplex"), "pictures, weighted"),
    (structured("multiclass", loss="squared_hinge", solver="rsd"), "three, weighted"),
    (structured(solver="excessive-gap", reg_lambda=0.5), "chains, weighted"),
    (structured(BoundedGrid()), "pictures, weighted"),
    (structured(loss="log"), "chains, weighted"),
]


class Case(NamedTuple):
    """An estimator, and the name of its data."""

    model: Any
    name: str

    @property
    def data(self):
        return data(self.name)

    @property
    def is_search(self):
        return type(self.model).__name__.endswith("CV")

    def __str__(self):
        text = f"{self.model!r}-{self.name}"
        return "".join(text.split()).replace("np.float64", "")


CASES = [Case(*case) for case in _CASES]


def layouts(X):
    """The same numbers."""
    if isinstance(X, list):
        return {"dense": X}
    return {"dense": X, "float32": X.astype(np.float32), "csr": sp.csr_matrix(X)}


def fitted(case, layout="dense", *, callback=None, **parameters):
    """A new fit of a case, whatever it misses."""
    model = clone(case.model).set_params(**parameters)
    if callback is not None:
        model.set_callbacks(callback)
    X, y, weights, further = case.data
    if isinstance(getattr(model, "kernel", None), str) and model.kernel == "precomputed":
        layout = "dense"
    return quiet(model, layouts(X).get(layout, X), y, weights, **further)


_OPTIMA = {}


def judged(model, case):
    """The optimum of a problem is computed once, whatever solves it."""
    X, y, weights, further = case.data
    kept = {k: v for k, v in model.get_params().items() if k not in ALGORITHM}
    key = type(model).__name__, case.name, repr(sorted(kept.items()))
    _OPTIMA[key] = judge(model, X, y, weights, optimum=_OPTIMA.get(key), **further)


def tight(case):
    """What every solver gets to; the slowest stop where a lie of 1e-3 can be seen."""
    slow = getattr(case.model, "solver", None) in ("fw", "excessive-gap")
    return {"tol": 1e-4 if slow else 1e-9, "max_iter": 100_000}
