"""The instances of ``fingerprints.py`` for regression, ranking, novelty and Pragam."""

import numpy as np
from _fingerprints import Case
from _fingerprints_linear import WEIGHTS, regressor

from sklearn_bundle import BMRMNoveltyDetector, BMRMRanker, PragamSVC
from sklearn_bundle.losses import MultivariateSquaredError, PositionMeasure, PrecisionAtK

QUERIES = np.repeat(np.arange(25), 8)  # of the 200 rows
QUERY_WEIGHTS = np.repeat(np.linspace(0.5, 2.0, 25), 8)
TARGET_METRIC = np.array([[2.0, 0.5], [0.5, 1.0]])


def ranker(loss="ordinal", reg_lambda=1e-2, **params) -> BMRMRanker:
    """One that ends soon where it does not converge."""
    return BMRMRanker(loss, reg_lambda=reg_lambda, **{"max_iter": 150} | params)


def detector(reg_lambda=1e-1, **params) -> BMRMNoveltyDetector:
    """One that ends soon where it does not converge."""
    return BMRMNoveltyDetector(reg_lambda=reg_lambda, **{"max_iter": 150} | params)


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
    Case("novelty", detector(rho=1.0), "novelty"),
    Case("novelty, nu", detector(nu=0.2), "novelty"),
    Case("novelty, rho", detector(rho=2.0, solver="cutting-plane"), "novelty", "CSR"),
    Case("novelty, L1", detector(rho=1.0, regularizer="l1"), "novelty"),
    Case(
        "novelty, weights",
        detector(rho=1.0, regularizer="lp"),
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

CASES = [*REGRESSION, *RANKING, *NOVELTY, *PRAGAM]
