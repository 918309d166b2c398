"""Random problems for every estimator, each made from one seed, and the judge's verdict on a fit.

Scales from 1e-6 to 1e8, constant and huge columns, offsets, repeated rows and columns, rare
classes, extreme weights, few rows with many columns, float32, CSR, strengths over eight decades.
``asv_benchmarks/studies/stress.py`` counts over many of them, and ``test_random.py`` tests some.
"""

import warnings
from dataclasses import dataclass, field, replace
from time import process_time
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

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
from sklearn_bundle.regularizers import Quadratic
from tests.contract.judge import Fault, faults
from tests.contract.optimum_bounds import bound_faults, is_unknown
from tests.contract.plain_shapes import plain
from tests.contract.random_data import features, labels, layout, sample_weights, scores, sizes
from tests.contract.subproblems import subproblems
from tests.reference_programme import Optimum
from tests.reference_segments import drawn

# What random parameters and data may deserve.
REMARKS = "ignores", "w is 0", "origin must not lie inside", "one may be better"
SLOW = 1.0  # CPU seconds from which on a fit is slow
EARLY = 20  # iterations, of fits that are to end before tol
COMPILES = 10.0  # up to here it may have been compilation: it is fitted again
# At most a fifth of their own limits.
STEPS = {"PragamSVC": 1000, "SwapSVC": 100_000, "StructuredSVM": 200, "working sets": 300}


@dataclass
class Problem:
    """An estimator and what it is to be fitted on."""

    seed: int
    model: Any
    X: Any
    y: Any = None
    weights: Any = None
    further: dict = field(default_factory=dict)
    name: str = ""  # as in ESTIMATORS

    def __str__(self):
        text = f"{self.model!r}".replace("\n", "").replace(" ", "")
        kind = "chains" if isinstance(self.X, list) else f"{type(self.X).__name__}{self.X.dtype}"
        rows = len(self.X) if isinstance(self.X, list) else self.X.shape
        return f"{text} on {kind} {rows}"


@dataclass
class Verdict:
    """What a fit came to."""

    problem: Problem
    seconds: float = 0.0
    statuses: list = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    weak: bool = False
    unknown: int = 0  # regions of which the reference is not sure enough
    refused: str = ""
    crashed: str = ""
    warned: str = ""


def verdict(problem):
    """Fit, then judge; other exceptions than ValueError are crashes.

    Warnings other than of convergence are kept.
    """
    found, start = Verdict(problem), process_time()
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        try:
            model = problem.model.fit(problem.X, problem.y, problem.weights, **problem.further)
        except ValueError as error:
            found.refused = str(error)
            return found
        except Exception as error:
            found.crashed = f"{type(error).__name__}: {error}"
            return found
    found.seconds = process_time() - start
    if SLOW < found.seconds < COMPILES:
        found.seconds = _seconds_again(problem)
    others = [w for w in record if not issubclass(w.category, ConvergenceWarning)]
    others = [w for w in others if not any(part in str(w.message) for part in REMARKS)]
    found.warned = f"{others[0].category.__name__}: {others[0].message}" if others else ""
    found.statuses = np.atleast_1d(model.status_).tolist()
    return judged(problem, model, found)


@np.errstate(all="ignore")  # references try points far out
def judged(problem, model, found=None):
    """What a fitted model says; a reference that fails, or that a value disproves, is not used."""
    found = found or Verdict(problem)
    group = problem.further.get("group")
    parts = subproblems(model, problem.X, problem.y, problem.weights, group)
    optima = []
    for k, part in enumerate(parts):
        value = part.objective(part.point)
        try:
            best = part.optimum()
        except AssertionError:  # of the reference: its own point is outside its domain
            best = None
        if best is None or not best.least <= value + part.rounding:
            found.weak, best = True, Optimum(value, np.inf)
        found.faults += faults(model, part, best, k if len(parts) > 1 else None)
        optima.append(best)
        found.unknown += is_unknown(part, best, np.atleast_1d(model.lower_bound_)[k])
    texts = bound_faults(model, problem.X, problem.y, parts, optima)
    found.faults += [Fault("bounds", text) for text in texts]
    return found


def _seconds_again(problem):
    start = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clone(problem.model).fit(problem.X, problem.y, problem.weights, **problem.further)
    return process_time() - start


# ---- estimators -------------------------------------------------------------------------------


def strength(rng):
    return float(10.0 ** rng.uniform(-6, 2))


def limits(rng):
    """A tol of 1e-2 to 1e-8; a fifth of the fits end early. No seconds: all can be repeated."""
    early = {"max_iter": int(rng.integers(1, EARLY))} if rng.random() < 0.2 else {}
    return {"tol": float(10.0 ** -rng.uniform(2, 8))} | early


def regularizer(rng, d):
    kind = rng.choice(KINDS, p=OMEGAS)
    return Quadratic(10.0 ** rng.uniform(-1, 1, d)) if kind == "quadratic" else str(kind)


KINDS = ["l2", "l1", "elasticnet", "quadratic"]
OMEGAS = [0.55, 0.16, 0.16, 0.13]
BINARY = ["hinge", "squared_hinge", "log_loss"]
JOINT = ["softmax", "multiclass_hinge"]


def bmrm_classifier(rng, seed, most):
    loss = str(rng.choice([*BINARY, "roc_auc", "fbeta", *JOINT], p=[0.16] * 3 + [0.13] * 4))
    few = {"fbeta": 9, "roc_auc": 40}.get(loss, 60 if loss in JOINT else most)
    n, d = sizes(rng, min(few, most))
    omega = regularizer(rng, d)
    n_classes = int(rng.choice([2, 2, 3, 4])) if n > 8 else 2
    if loss in JOINT and omega != "l2":
        n_classes = max(n_classes, 3)
    solvers = ["auto", "line-search"]
    if loss in BINARY[:3] and omega == "l2":
        solvers += ["newton", "dual-coordinate"]
    if loss in BINARY[1:] and omega == "l2":
        solvers += ["lbfgs"]
    if loss == "multiclass_hinge" and omega == "l2":
        solvers += ["dual-coordinate"]
    X, further = features(rng, n, d), {}
    y = labels(rng, scores(rng, X), n_classes)
    weights = None if loss == "fbeta" else sample_weights(rng, n)
    if loss != "fbeta" and rng.random() < 0.15:
        further["class_weight"] = "balanced"
    model = BMRMClassifier(
        loss, reg_lambda=strength(rng), regularizer=omega, solver=str(rng.choice(solvers)),
        fit_intercept=bool(rng.random() < 0.7), **further, **limits(rng),
    )  # fmt: skip
    return Problem(seed, model, layout(rng, X), y, weights)


def bmrm_classifier_cv(rng, seed, most):
    n, d = sizes(rng, most)
    X = features(rng, n + 6, d)
    y = labels(rng, scores(rng, X), 2)
    y[:4] = [0, 1, 0, 1]
    kind = limits(rng) | {"reg_lambdas": [strength(rng)], "cv": 2}
    model = BMRMClassifierCV(str(rng.choice(BINARY[:3])), **kind)
    return Problem(seed, model, layout(rng, X), y)


REGRESSION = ["squared_error", "absolute_error", "quantile", "epsilon_insensitive", "huber"]
REGRESSION += ["squared_epsilon_insensitive"]


def target(rng, X, loss):
    """Numbers far from zero, of all sizes; counts for "poisson", which explode otherwise."""
    f = scores(rng, X)
    if loss == "poisson":
        return np.floor(np.exp(np.clip(f, -2, 3))) + (np.arange(len(f)) == 0)
    return (f + rng.choice([0.0, 1e3])) * 10.0 ** rng.uniform(-3, 3)


def bmrm_regressor(rng, seed, most):
    n, d = sizes(rng, most)
    loss = str(rng.choice([*REGRESSION, "poisson"]))
    X, omega = features(rng, n, d, moderate=loss == "poisson"), regularizer(rng, d)
    y = target(rng, X, loss)
    if loss == "squared_error" and rng.random() < 0.2:
        y, omega = np.c_[y, target(rng, X, loss)], "l2"
    size = float(np.abs(y).max() + 1e-3)
    reg_lambda = strength(rng)
    own = {
        "quantile": {"quantile": float(rng.uniform(0.05, 0.95))},
        "epsilon_insensitive": {"epsilon": 0.1 * size},
        "squared_epsilon_insensitive": {"epsilon": 0.1 * size},
        "huber": {"delta": 0.2 * size},
    }
    model = BMRMRegressor(
        loss, reg_lambda=reg_lambda, regularizer=omega, fit_intercept=bool(rng.random() < 0.7),
        **own.get(loss, {}), **limits(rng),
    )  # fmt: skip
    return Problem(seed, model, layout(rng, X), y, sample_weights(rng, n))


def bmrm_regressor_cv(rng, seed, most):
    n, d = sizes(rng, most)
    X, loss = features(rng, n, d), str(rng.choice(REGRESSION))
    kind = limits(rng) | {"reg_lambdas": [strength(rng)], "cv": 2}
    return Problem(seed, BMRMRegressorCV(loss, **kind), layout(rng, X), target(rng, X, loss))


def bmrm_ranker(rng, seed, most):
    loss = str(rng.choice(["ordinal", "ndcg"]))
    n, d = sizes(rng, min(40, most))
    X = features(rng, n, d)
    y = labels(rng, scores(rng, X), 3 if n > 8 else 2)
    weights, further, kind = sample_weights(rng, n), {}, {}
    if loss == "ndcg":
        further["group"] = np.arange(n) // 4
        weights, kind["k"] = None, int(rng.integers(1, 5))
    else:
        kind["cost"] = str(rng.choice(["absolute", "constant", "squared"]))
    omega = regularizer(rng, d)
    model = BMRMRanker(loss, reg_lambda=strength(rng), regularizer=omega, **kind, **limits(rng))
    return Problem(seed, model, layout(rng, X), y, weights, further)


def bmrm_novelty_detector(rng, seed, most):
    n, d = sizes(rng, most)
    X = features(rng, n, d) + rng.choice([0.0, 1.0])
    nu = float(rng.choice([0.05, 0.2, 0.5, 1.0]))
    model = BMRMNoveltyDetector(nu=nu, reg_lambda=strength(rng), **limits(rng))
    return Problem(seed, model, layout(rng, X), None, sample_weights(rng, n))


def pragam_svc(rng, seed, most):
    n, d = sizes(rng, most)
    X = features(rng, n, d)
    y = labels(rng, scores(rng, X), int(rng.choice([2, 3])) if n > 8 else 2)
    model = PragamSVC(
        reg_lambda=strength(rng), lipschitz="adaptive" if rng.random() < 0.8 else 1e4,
        fit_intercept=bool(rng.random() < 0.7),
        **({"max_iter": STEPS["PragamSVC"]} | limits(rng)),
    )  # fmt: skip
    return Problem(seed, model, layout(rng, X), y, sample_weights(rng, n))


def kernel_machine(rng, X, kind):
    """An unfitted one, and the X that it takes."""
    kernel = str(rng.choice(["rbf", "linear", "poly", "precomputed"], p=[0.5, 0.25, 0.15, 0.1]))
    if kernel == "precomputed":
        X = rbf_kernel(X / (np.abs(X).max() or 1.0))
    own = {}
    if kind is SwapSVC:
        solvers = ["auto", "swap-2o", "swap", "mfw", "cvm"]
        own["solver"] = str(rng.choice(solvers, p=[0.3, 0.4, 0.1, 0.1, 0.1]))
        own["max_iter"] = STEPS["SwapSVC"]
    X = layout(rng, X)
    model = kind(
        float(10.0 ** rng.uniform(-3, 5)), kernel=kernel, random_state=0,
        gamma=str(rng.choice(["scale", "auto", "distance"])), coef0=float(rng.integers(0, 2)),
        degree=int(rng.integers(1, 4)), **(own | limits(rng)),
    )  # fmt: skip
    return model, X.toarray() if kernel == "precomputed" and sp.issparse(X) else X


def swap_svc(rng, seed, most):
    n, d = sizes(rng, min(80, most), 10)
    X = features(rng, n, d)
    y = labels(rng, scores(rng, X), int(rng.choice([2, 2, 3])) if n > 8 else 2)
    model, X = kernel_machine(rng, X, SwapSVC)
    return Problem(seed, model, X, y, sample_weights(rng, n))


def swap_svc_cv(rng, seed, most):
    n, d = sizes(rng, min(40, most), 5)
    X = features(rng, n + 6, d)
    n_classes = int(rng.choice([2, 3]))
    y = labels(rng, scores(rng, X), n_classes)
    y[: 2 * n_classes] = 2 * [*range(n_classes)]
    kind = {"max_iter": STEPS["SwapSVC"], "cv": 2} | limits(rng)
    loss = str(rng.choice(["squared_hinge", "hinge"]))
    if loss == "hinge":
        kind["max_iter"] = min(STEPS["working sets"], kind["max_iter"])
    model = SwapSVCCV([float(10.0 ** rng.uniform(-3, 3))], loss=loss, **kind)
    return Problem(seed, model, layout(rng, X), y)


def swap_svr_cv(rng, seed, most):
    n, d = sizes(rng, min(40, most), 5)
    X = features(rng, n + 6, d)
    y = scores(rng, X) * 10.0 ** rng.uniform(-2, 2)
    kind = {"cv": 2, "epsilon": float(rng.choice([0.0, 0.1, 1.0]))} | limits(rng)
    model = SwapSVRCV([float(10.0 ** rng.uniform(-3, 3))], **kind)
    return Problem(seed, model, layout(rng, X), y)


def swap_svr(rng, seed, most, kind=SwapSVR):
    n, d = sizes(rng, min(80, most), 10)
    X = features(rng, n, d)
    y = scores(rng, X) * 10.0 ** rng.uniform(-2, 2)
    model, X = kernel_machine(rng, X, kind)
    if kind is SwapNoveltyDetector:
        model.set_params(nu=None)
        return Problem(seed, model, X, None, sample_weights(rng, n))
    epsilon = float(rng.choice([0.0, 0.1, 1.0]))
    model.set_params(epsilon=epsilon, loss="squared_epsilon_insensitive")
    return Problem(seed, model, X, y, sample_weights(rng, n))


def swap_novelty_detector(rng, seed, most):
    return swap_svr(rng, seed, most, SwapNoveltyDetector)


def svc(rng, seed, most):
    """SVC's objective; three classes, and class weights, at times."""
    problem = swap_svc(rng, seed, min(50, most))
    model = problem.model.set_params(loss="hinge", solver="auto")
    model.set_params(class_weight="balanced" if rng.random() < 0.2 else None)
    return _moderate(problem)


def svr(rng, seed, most):
    """SVR's objective."""
    problem = swap_svr(rng, seed, min(50, most))
    problem.model.set_params(loss="epsilon_insensitive")
    return _moderate(problem)


def one_class_svm(rng, seed, most):
    """OneClassSVM's objective."""
    problem = swap_svr(rng, seed, min(50, most), SwapNoveltyDetector)
    nu = rng.choice([1.0, 0.5, 10.0 ** rng.uniform(-4, 0)], p=[0.1, 0.2, 0.7])
    problem.model.set_params(nu=float(nu), C=1.0)
    return _moderate(problem)


def _moderate(problem):
    """At most 300 sets of points, each of which takes up to 100 steps a point."""
    model = problem.model
    model.set_params(max_iter=min(STEPS["working sets"], model.max_iter))
    return problem


def sdca_crf(rng, seed, most):
    K, d, n = int(rng.integers(2, 5)), int(rng.integers(1, 6)), int(rng.integers(3, most // 10 + 1))
    lengths = rng.integers(1, 8, n)
    X = features(rng, lengths.sum(), d)
    dtype = rng.choice([np.float32, np.float64])
    y = rng.permutation(np.arange(lengths.sum()) % K)
    if rng.random() < 0.7:
        y = labels(rng, scores(rng, X), K)
    ends = np.cumsum(lengths)[:-1]
    X, y = np.split(X.astype(dtype), ends), [part.tolist() for part in np.split(y, ends)]
    solver = str(rng.choice(["auto", "exponentiated", "sdca", "lbfgs"]))
    model = SDCACRF(
        reg_lambda=strength(rng), solver=solver, fit_intercept=bool(rng.random() < 0.7),
        random_state=0, **limits(rng),
    )  # fmt: skip
    if solver != "lbfgs" and rng.random() < 0.3:
        model.set_params(l1_ratio=float(rng.choice([0.1, 0.5, 0.9])))
    return Problem(seed, model, X, y, sample_weights(rng, n))


def sdca_crf_cv(rng, seed, most):
    single = sdca_crf(rng, seed, most)
    given = single.model.get_params()
    kind = {name: given[name] for name in ("solver", "l1_ratio", "fit_intercept", "tol")}
    model = SDCACRFCV(reg_lambdas=[given["reg_lambda"]], cv=2, random_state=0, **kind)
    return Problem(seed, model, single.X, single.y, single.weights)


def structured_svm(rng, seed, most):
    """Chains of up to 81 labelings, classes with costs, or one of ``few_outputs``."""
    if rng.random() < 0.4:
        return few_outputs(rng, seed)
    kind = str(rng.choice(["chain", "multiclass"]))
    K, cost = int(rng.integers(2, 4)), None
    if rng.random() < 0.3:
        cost = rng.integers(0, 4, (K, K)) * (1.0 - np.eye(K))
    if kind == "chain":
        lengths = rng.integers(1, 5, int(rng.integers(3, most // 10 + 1)))
        X, ends = features(rng, lengths.sum(), int(rng.integers(1, 6))), np.cumsum(lengths)[:-1]
        y = [part.tolist() for part in np.split(labels(rng, scores(rng, X), K), ends)]
        X = np.split(X.astype(rng.choice([np.float32, np.float64])), ends)
        outputs = Chain(cost=cost, fit_intercept=bool(rng.random() < 0.7))
    else:
        n, d = sizes(rng, min(60, most))
        X = features(rng, n, d)
        y, X = labels(rng, scores(rng, X), K), layout(rng, X)
        outputs = Multiclass(cost=cost)
    model = StructuredSVM(
        outputs, reg_lambda=strength(rng), solver=str(rng.choice(STRUCTURED)), random_state=0,
        loss=str(rng.choice(["hinge", "squared_hinge"])),
        scaling=str(rng.choice(["margin", "slack"] if kind == "multiclass" else ["margin"])),
        sampling=str(rng.choice(["gap", "uniform"])),
        n_cached_outputs=None if rng.random() < 0.7 else int(rng.integers(2, 6)),
        **({"max_iter": STEPS["StructuredSVM"]} | limits(rng)),
    )  # fmt: skip
    return Problem(seed, model, X, y, sample_weights(rng, len(y)))


def few_outputs(rng, seed):
    """Segments, graphs of three labels, matchings, label sets: a few examples of each."""
    kind = str(rng.choice(["segments", "graph", "matching", "multilabel"]))
    n, size = int(rng.integers(3, 9)), 10.0 ** rng.uniform(-2, 3)
    loss = str(rng.choice(["hinge", "squared_hinge", "log"][: 1 + 2 * (kind == "segments")]))
    if kind == "segments":
        X, y = drawn(rng.integers(1, 5, n), 3, seed=int(rng.integers(10**6)))
        X, outputs = [size * x for x in X], Segments()
    elif kind == "graph":
        edges = [rng.integers(0, 4, (rng.integers(1, 6), 2)) for _ in range(n)]
        edges = [np.array([(a, (a + 1) % 4 if a == b else b) for a, b in e]) for e in edges]
        X = [(size * rng.normal(size=(4, 2)), e, rng.normal(size=(len(e), 2))) for e in edges]
        y, outputs = [rng.permutation(4) % 3 for _ in range(n)], PairwiseGraph()
    elif kind == "matching":
        X = [size * rng.normal(size=(3, 3 + i % 2, 2)) for i in range(n)]
        y, outputs = [rng.permutation(x.shape[1])[:3] for x in X], "matching"
    else:
        X, y = features(rng, n + 3, 2, moderate=True), rng.integers(0, 2, (n + 3, 3))
        y[0], y[1] = 0, 1
        outputs = Multilabel("tree" if rng.random() < 0.5 else None)
    model = StructuredSVM(
        outputs, reg_lambda=strength(rng), loss=loss, random_state=0,
        **({"max_iter": STEPS["StructuredSVM"]} | limits(rng)),
    )  # fmt: skip
    return Problem(seed, model, X, y, sample_weights(rng, len(y)))


STRUCTURED = ["auto", "bcfw", "rsd", "rsd-one-simplex", "rsd-working-sets", "bundle"]
ESTIMATORS = {
    "BMRMClassifier": (bmrm_classifier, 0.3),
    "BMRMClassifierCV": (bmrm_classifier_cv, 0.03),
    "BMRMRegressor": (bmrm_regressor, 0.15),
    "BMRMRegressorCV": (bmrm_regressor_cv, 0.03),
    "BMRMRanker": (bmrm_ranker, 0.08),
    "BMRMNoveltyDetector": (bmrm_novelty_detector, 0.07),
    "PragamSVC": (pragam_svc, 0.1),
    "SwapSVC": (swap_svc, 0.15),
    "SwapSVCCV": (swap_svc_cv, 0.02),
    "SwapSVR": (swap_svr, 0.0),  # problems of a seed stay what they are
    "SwapNoveltyDetector": (swap_novelty_detector, 0.0),
    "SDCACRF": (sdca_crf, 0.03),
    "StructuredSVM": (structured_svm, 0.04),
    "SwapSVRCV": (swap_svr_cv, 0.0),
    "SDCACRFCV": (sdca_crf_cv, 0.0),
    "SVC": (svc, 0.0),
    "SVR": (svr, 0.0),
    "OneClassSVM": (one_class_svm, 0.0),
}


def draw(seed, only=None, most=120):
    """The problem of a seed, of any estimator or of one, with at most so many rows."""
    rng = np.random.default_rng(seed)
    shares = [share for _, share in ESTIMATORS.values()]
    name = str(rng.choice(list(ESTIMATORS), p=shares))
    name = only or name
    return replace(ESTIMATORS[name][0](rng, seed, most), name=name)


def draw_plain(seed, only=None, most=40):
    """The same with one of the plainest shapes; the estimators take turns."""
    name = only or list(ESTIMATORS)[seed % len(ESTIMATORS)]
    return plain(draw(seed, name, most), np.random.default_rng([seed, 1]))
