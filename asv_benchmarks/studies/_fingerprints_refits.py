"""The instances of ``fingerprints.py`` with several fits: warm starts, paths, cross-validation."""

import numpy as np
from _fingerprints import Case, Found, computed
from _fingerprints_data import task
from _fingerprints_further import TARGET_METRIC, detector, ranker
from _fingerprints_linear import SOLVERS, WEIGHTS, classifier, regressor
from sklearn.model_selection import KFold

from sklearn_bundle import BMRMClassifierCV, BMRMRegressorCV, PragamSVC, bmrm_path

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
    Case(
        "warm start over a change of solver",
        classifier("hinge", 1e-6, solver="dual-coordinate", warm_start=True, max_iter=100),
        "repeated",
        then=({"max_iter": 2000}, {"tol": 1e-6}, {"reg_lambda": 1e-5}, {"solver": "newton"}),
    ),
    Case(
        "warm start after a change of solver",
        classifier(reg_lambda=1e-5, warm_start=True, max_iter=2000),
        "more tied",
        then=(ANOTHER_TOL, ANOTHER_LAMBDA, {"solver": "dual-coordinate"}),
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
    Case("warm start, novelty", detector(rho=1.0, warm_start=True), "novelty", then=THEN),
    Case(
        "warm start, Pragam",
        PragamSVC(reg_lambda=1e-2, warm_start=True, max_iter=20),
        "binary",
        then=({"max_iter": 5000}, *THEN[:2]),
    ),
]

FOLDS = [(np.arange(k, 200, 2), np.arange(1 - k, 200, 2)) for k in range(2)]
LAMBDAS = np.geomspace(1e-1, 1e-3, 4)


def path(loss: str, name: str, **params) -> list[Found]:
    """What ``bmrm_path`` returns."""
    names = ("reg_lambdas", "coefs", "intercepts", "dual_gaps", "n_iters")
    found = bmrm_path(*task(name), loss=loss, reg_lambdas=LAMBDAS, **params)
    return [computed(**{name: getattr(found, name) for name in names})]


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
        Case(
            "CV, folds given as rows",
            BMRMClassifierCV("roc_auc", **searched | {"cv": FOLDS, "reg_lambdas": 5}),
            "binary",
        ),
        Case("CV, several targets", BMRMRegressorCV(**searched, M=TARGET_METRIC), "targets"),
    ]


CASES = [*WARM_STARTS, *paths_and_searches()]
