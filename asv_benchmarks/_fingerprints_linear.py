"""The instances of ``fingerprints.py`` for the linear family."""

import numpy as np
from _fingerprints import Case, Found, computed
from _fingerprints_data import task
from sklearn.model_selection import KFold

from sklearn_bundle import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    BMRMRegressorCV,
    PragamSVC,
    bmrm_path,
)
from sklearn_bundle.losses import FBeta, MultivariateSquaredError, PositionMeasure, PrecisionAtK
from sklearn_bundle.regularizers import Lp, Quadratic

SOLVERS = ("auto", "newton", "dual-coordinate", "line-search", "cutting-plane")
QUERIES = np.repeat(np.arange(25), 8)  # of the 200 rows
WEIGHTS = np.tile([0.0, 1.0, 2.0, 0.5], 50)  # of 200 rows, some without weight
QUERY_WEIGHTS = np.repeat(np.linspace(0.5, 2.0, 25), 8)
COST = [[0.0, 1.0, 4.0], [1.0, 0.0, 2.0], [3.0, 1.0, 0.0]]
EDGES = [("all", "mammals"), ("all", "cat"), ("mammals", "ape"), ("mammals", "bat")]
TARGET_METRIC = np.array([[2.0, 0.5], [0.5, 1.0]])
CURVED = np.diag(np.linspace(1.0, 3.0, 6)) + 0.2  # positive definite


def classifier(loss="hinge", reg_lambda=1e-2, **params) -> BMRMClassifier:
    """One that ends soon where it does not converge."""
    return BMRMClassifier(loss, reg_lambda=reg_lambda, **{"max_iter": 150} | params)


def regressor(loss="squared_error", reg_lambda=1e-2, **params) -> BMRMRegressor:
    """One that ends soon where it does not converge."""
    return BMRMRegressor(loss, reg_lambda=reg_lambda, **{"max_iter": 150} | params)


def ranker(loss="ordinal", reg_lambda=1e-2, **params) -> BMRMRanker:
    """One that ends soon where it does not converge."""
    return BMRMRanker(loss, reg_lambda=reg_lambda, **{"max_iter": 150} | params)


def detector(reg_lambda=1e-1, **params) -> BMRMNoveltyDetector:
    """One that ends soon where it does not converge."""
    return BMRMNoveltyDetector(reg_lambda=reg_lambda, **{"max_iter": 150} | params)


LOSSES_AND_SOLVERS = [
    *(
        Case(f"{loss}, {solver}", classifier(loss, solver=solver, tol=1e-4), "binary")
        for loss in ("hinge", "squared_hinge", "log_loss")
        for solver in SOLVERS
    ),
    Case("exponential", classifier("exponential"), "binary"),
    Case("exponential, cutting-plane", classifier("exponential", solver=SOLVERS[-1]), "binary"),
    Case("roc_auc", classifier("roc_auc"), "binary"),
    Case("roc_auc, balanced", classifier("roc_auc", class_weight="balanced"), "binary", "CSR"),
    Case("roc_auc, cutting-plane", classifier("roc_auc", solver="cutting-plane"), "binary"),
    Case("fbeta", classifier("fbeta", beta=2.0), "binary"),
    Case("fbeta instance, cutting-plane", classifier(FBeta(0.5), solver=SOLVERS[-1]), "binary"),
    Case("multiclass_hinge", classifier("multiclass_hinge"), "three"),
    Case("multiclass_hinge, two classes", classifier("multiclass_hinge"), "binary"),
    Case("multiclass_hinge, cost", classifier("multiclass_hinge", cost=COST), "three", "CSR"),
    Case(
        "multiclass_hinge, slack",
        classifier("multiclass_hinge", cost=COST, scaling="slack", solver="cutting-plane"),
        "three",
    ),
    Case("softmax", classifier("softmax"), "three"),
    Case("softmax, no intercept", classifier("softmax", fit_intercept=False), "three"),
    Case("softmax, few planes", classifier("softmax", bundle_size=14), "three"),
    Case("ontology", classifier("ontology", edges=EDGES), "three"),
]

PATHS_OF_SOLVERS = [
    Case("samples before all rows", classifier(reg_lambda=1e-3), "tall"),
    Case("samples before all rows, log_loss", classifier("log_loss", 1e-3), "tall", "float32"),
    Case("samples before all rows, named", classifier(solver="newton", tol=1e-6), "tall"),
    Case("no intercept", classifier(fit_intercept=False), "binary"),
    Case(
        "no intercept, dual-coordinate",
        classifier(solver="dual-coordinate", fit_intercept=False, tol=1e-6),
        "text",
    ),
    Case("text, auto", classifier(reg_lambda=1e-3), "text"),
    Case("text, dual-coordinate", classifier("log_loss", 1e-3, solver=SOLVERS[2]), "text"),
    Case("text, float32", classifier("squared_hinge", 1e-3), "text", "float32 CSR"),
    Case("more features than a cache", classifier(reg_lambda=1e-3), "very wide text"),
    Case(
        "more features than a cache, double precision",
        classifier(reg_lambda=1e-3, solver="dual-coordinate", tol=1e-6),
        "very wide text",
    ),
    Case("planes in sample space", classifier(solver="line-search", tol=1e-5), "wide"),
    Case("planes in sample space, text", classifier(solver="line-search"), "wide text"),
    Case("planes in sample space, few", classifier(solver=SOLVERS[3], bundle_size=5), "wide"),
    Case("wide, auto", classifier("log_loss"), "wide"),
    Case("epochs hand over", classifier(reg_lambda=1e-5, solver="dual-coordinate"), "few rows"),
    Case("auto changes its mind", classifier(reg_lambda=1e-6, tol=1e-6), "text"),
    Case("Algorithm 4", classifier(solver="cutting-plane", bundle_size=2), "binary"),
    Case("few planes", classifier(solver="line-search", bundle_size=6), "binary"),
    Case("cuts at the new point", classifier(solver="line-search", theta=1.0), "binary"),
    *(
        Case(f"ended by max_iter, {solver}", classifier(solver=solver, max_iter=3), "binary")
        for solver in SOLVERS
    ),
]

LAYOUTS_AND_WEIGHTS = [
    *(
        Case(f"{loss}, {layout}", classifier(loss, reg_lambda=1e-3), "binary", layout)
        for loss, layout in (
            *(("hinge", "Fortran"), ("log_loss", "CSR"), ("hinge", "CSR array")),
            *(("hinge", "CSR int64"), ("squared_hinge", "CSC"), ("log_loss", "float32")),
            *(("hinge", "float32 CSR"), ("hinge", "mapped"), ("log_loss", "mapped CSR")),
        )
    ),
    Case("mapped, line-search", classifier(solver="line-search"), "binary", "mapped"),
    Case("sample weights", classifier(), "binary", fit={"sample_weight": WEIGHTS}),
    Case(
        "sample weights, dual-coordinate",
        classifier("log_loss", solver="dual-coordinate", class_weight={-1: 2.0, 1: 0.7}),
        *("binary", "CSR"),
        fit={"sample_weight": WEIGHTS},
    ),
    Case("balanced", classifier("squared_hinge", class_weight="balanced"), "binary"),
    Case("row blocks", classifier(reg_lambda=1e-2), "blocks"),
    Case("row blocks, two threads", classifier(reg_lambda=1e-2, n_jobs=2), "blocks"),
    Case("row blocks, CSC", classifier("log_loss", solver=SOLVERS[3], n_jobs=2), "blocks", "CSC"),
]

SEVERAL_CLASSES = [
    Case("one-versus-rest", classifier(class_weight="balanced"), "three"),
    Case("one-versus-rest, two threads", classifier(n_jobs=2), "three", "CSR"),
    Case("one-versus-rest, probabilities", classifier("log_loss"), "three"),
    Case("one-versus-rest, roc_auc", classifier("roc_auc"), "three"),
    Case("one-versus-rest, fbeta", classifier("fbeta"), "three"),
]

REGULARIZERS = [
    Case("L1", classifier(regularizer="l1", reg_lambda=2e-2), "binary"),
    Case("L1, softmax", classifier("softmax", regularizer="l1"), "three"),
    Case("L1, few planes", classifier(regularizer="l1", bundle_size=12), "binary"),
    Case("L1, cutting-plane", classifier(regularizer="l1", solver=SOLVERS[-1]), "binary"),
    Case("Lp", classifier("squared_hinge", regularizer="lp"), "binary"),
    Case("Lp, multiclass_hinge", classifier("multiclass_hinge", regularizer=Lp(1.2)), "three"),
    Case("Lp, cutting-plane", classifier(regularizer=Lp(1.8), solver=SOLVERS[-1]), "binary"),
    Case("quadratic", regressor(regularizer=Quadratic(CURVED)), "regression"),
    Case("quadratic, diagonal", classifier(regularizer=Quadratic(CURVED[0])), "three"),
    Case("entropy", regressor("huber", regularizer="entropy"), "regression"),
    Case("entropy, hinge", classifier(regularizer="entropy"), "binary"),
    Case("entropy on the simplex", regressor(regularizer="entropy_simplex", tol=1e-6), "experts"),
    Case("L1, regression", regressor(regularizer="l1", reg_lambda=0.1), "regression"),
]

REGRESSION = [
    *(
        Case(f"{loss}, regression", regressor(loss, **further, tol=1e-4), "regression")
        for loss, further in {
            "squared_error": {},
            "absolute_error": {},
            "quantile": {"quantile": 0.8},
            "epsilon_insensitive": {"epsilon": 0.3},
            "huber": {"delta": 0.7},
        }.items()
    ),
    Case("poisson", regressor("poisson"), "counts"),
    Case("poisson, cutting-plane", regressor("poisson", solver="cutting-plane"), "counts"),
    Case("several targets", regressor(), "targets"),
    Case("several targets, M", regressor(M=TARGET_METRIC), "targets", "CSR"),
    Case(
        "several targets, instance",
        regressor(MultivariateSquaredError(TARGET_METRIC), solver="cutting-plane"),
        "targets",
    ),
    Case(
        "regression, weights",
        regressor("quantile", quantile=0.3, fit_intercept=False),
        *("regression", "float32"),
        fit={"sample_weight": WEIGHTS},
    ),
    Case("regression, mapped", regressor("absolute_error", n_jobs=2), "regression", "mapped CSR"),
]

RANKING = [
    Case("ordinal", ranker(), "grades"),
    Case("ordinal, squared", ranker(cost="squared", solver="cutting-plane"), "grades", "CSR"),
    Case("ordinal, matrix", ranker(cost=np.triu(np.ones((4, 4)), 1) * 2.0), "grades"),
    Case(
        "ordinal, queries",
        ranker(cost="constant"),
        "grades",
        fit={"group": QUERIES, "sample_weight": WEIGHTS},
    ),
    Case("preference", ranker("preference"), "pairs"),
    Case("preference, weights", ranker("preference"), "pairs", fit={"sample_weight": WEIGHTS}),
    Case("ndcg", ranker("ndcg", k=5), "grades", fit={"group": QUERIES}),
    Case(
        "ndcg, weights",
        ranker("ndcg", regularizer="lp"),
        *("grades", "CSR"),
        fit={"group": QUERIES, "sample_weight": QUERY_WEIGHTS},
    ),
    Case("precision at k", ranker(PrecisionAtK(3)), "grades", fit={"group": QUERIES}),
    Case(
        "a measure of positions",
        ranker(PositionMeasure(discount="reciprocal", gain="linear", k=4)),
        "grades",
        fit={"group": QUERIES},
    ),
]

NOVELTY = [
    Case("novelty", detector(), "novelty"),
    Case("novelty, rho", detector(rho=2.0, solver="cutting-plane"), "novelty", "CSR"),
    Case("novelty, L1", detector(regularizer="l1"), "novelty"),
    Case(
        "novelty, weights",
        detector(regularizer="lp"),
        "novelty",
        fit={"sample_weight": np.arange(165.0) % 3},
    ),
]

PRAGAM = [
    Case("Pragam", PragamSVC(reg_lambda=1e-2), "binary"),
    Case("Pragam, no intercept", PragamSVC(reg_lambda=1e-2, fit_intercept=False), "text"),
    Case(
        "Pragam, power",
        PragamSVC(reg_lambda=1e-1, lipschitz="power", random_state=0, max_iter=300),
        "binary",
    ),
    Case("Pragam, a constant", PragamSVC(lipschitz=2e2, max_iter=300, reg_lambda=0.1), "binary"),
    Case(
        "Pragam, one-versus-rest",
        PragamSVC(reg_lambda=1e-2, class_weight="balanced", n_jobs=2),
        *("three", "CSR"),
        fit={"sample_weight": np.arange(180.0) % 4},
    ),
    Case("Pragam, mapped", PragamSVC(reg_lambda=1e-2), "binary", "mapped"),
]

ANOTHER_LAMBDA, ANOTHER_TOL = {"reg_lambda": 2e-3}, {"tol": 1e-6}
ONWARDS = {"max_iter": 400}
THEN = (ANOTHER_LAMBDA, ANOTHER_TOL, ONWARDS)
WARM_STARTS = [
    *(
        Case(
            f"warm start, {solver}",
            classifier(solver=solver, warm_start=True, max_iter=8),
            "binary",
            then=(ONWARDS, *THEN, {"solver": "line-search", "reg_lambda": 1e-3}),
        )
        for solver in SOLVERS
    ),
    Case("warm start, sample space", classifier(warm_start=True), "wide", then=THEN),
    Case("warm start, wide text", classifier(warm_start=True), "wide text", then=THEN),
    Case("warm start, softmax", classifier("softmax", warm_start=True), "three", then=THEN),
    Case("warm start, one-versus-rest", classifier(warm_start=True), "three", then=THEN),
    Case(
        "warm start, L1",
        classifier(regularizer="l1", warm_start=True),
        "binary",
        then=(ANOTHER_LAMBDA, {"bundle_size": 12}),
    ),
    Case("warm start, regression", regressor("huber", warm_start=True), "regression", then=THEN),
    Case("warm start, ranking", ranker(warm_start=True), "grades", then=THEN),
    Case("warm start, novelty", detector(warm_start=True), "novelty", then=THEN),
    Case(
        "warm start, Pragam",
        PragamSVC(reg_lambda=1e-2, warm_start=True, max_iter=20),
        "binary",
        then=({"max_iter": 5000}, *THEN[:2]),
    ),
]

LAMBDAS = np.geomspace(1e-1, 1e-3, 4)


def path(loss: str, name: str, **params) -> list[Found]:
    """What ``bmrm_path`` returns."""
    names = ("reg_lambdas", "coefs", "intercepts", "dual_gaps", "n_iters")
    results = bmrm_path(*task(name), loss=loss, reg_lambdas=LAMBDAS, **params)
    return [computed(**dict(zip(names, results, strict=True)))]


def paths_and_searches() -> list:
    """Many values of reg_lambda: paths, and cross-validation along them."""
    searched = {"reg_lambdas": LAMBDAS, "cv": 3, "max_iter": 150}
    return [
        ("path, hinge", lambda: path("hinge", "binary")),
        ("path, one-versus-rest", lambda: path("log_loss", "three", solver="line-search")),
        ("path, softmax", lambda: path("softmax", "three", max_iter=150)),
        ("path, L1 regression", lambda: path("squared_error", "regression", regularizer="l1")),
        ("path, sample space", lambda: path("hinge", "wide", solver="line-search")),
        ("path, dual-coordinate", lambda: path("squared_hinge", "text", solver=SOLVERS[2])),
        Case("CV", BMRMClassifierCV(**searched), "binary"),
        Case("CV, two threads", BMRMClassifierCV(**searched, n_jobs=2), "binary"),
        Case(
            "CV, weights",
            BMRMClassifierCV("log_loss", **searched, scoring="neg_log_loss"),
            "binary",
            fit={"sample_weight": WEIGHTS},
        ),
        Case("CV, three classes", BMRMClassifierCV("softmax", **searched), "three", "CSR"),
        Case(
            "CV, regression",
            BMRMRegressorCV(
                "huber", **searched | {"cv": KFold(4, shuffle=True, random_state=0)}, n_jobs=2
            ),
            "regression",
        ),
        Case("CV, several targets", BMRMRegressorCV(**searched, M=TARGET_METRIC), "targets"),
    ]


CASES = [
    *LOSSES_AND_SOLVERS,
    *PATHS_OF_SOLVERS,
    *LAYOUTS_AND_WEIGHTS,
    *SEVERAL_CLASSES,
    *REGULARIZERS,
    *REGRESSION,
    *RANKING,
    *NOVELTY,
    *PRAGAM,
    *WARM_STARTS,
    *paths_and_searches(),
]
