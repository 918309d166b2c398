"""The instances of ``fingerprints.py`` for the linear family."""

import numpy as np
from _fingerprints import Case

from sklearn_bundle import (
    BMRMClassifier,
    BMRMRegressor,
)
from sklearn_bundle.losses import FBeta
from sklearn_bundle.regularizers import Lp, Quadratic

SOLVERS = ("auto", "newton", "dual-coordinate", "line-search", "cutting-plane")
WEIGHTS = np.tile([0.0, 1.0, 2.0, 0.5], 50)  # of 200 rows, some without weight
LONG = {"max_iter": 2000, "tol": 1e-5}  # where epochs are given up late
COST = [[0.0, 1.0, 4.0], [1.0, 0.0, 2.0], [3.0, 1.0, 0.0]]
EDGES = [("all", "mammals"), ("all", "cat"), ("mammals", "ape"), ("mammals", "bat")]
CURVED = np.diag(np.linspace(1.0, 3.0, 6)) + 0.2  # positive definite


def classifier(loss="hinge", reg_lambda=1e-2, **params) -> BMRMClassifier:
    """One that ends soon where it does not converge."""
    return BMRMClassifier(loss, reg_lambda=reg_lambda, **{"max_iter": 150} | params)


def regressor(loss="squared_error", reg_lambda=1e-2, **params) -> BMRMRegressor:
    """One that ends soon where it does not converge."""
    return BMRMRegressor(loss, reg_lambda=reg_lambda, **{"max_iter": 150} | params)


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
    Case("ontology, cost", classifier("ontology", edges=EDGES, cost=COST), "three", "CSR"),
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
    Case("epochs hand over", classifier(reg_lambda=1e-6, solver=SOLVERS[2], **LONG), "few rows"),
    Case(
        "epochs hand over twice", classifier("hinge", 1e-6, solver=SOLVERS[2], **LONG), "repeated"
    ),
    Case(
        "epochs hand over, log_loss",
        classifier("log_loss", 1e-6, solver="dual-coordinate", **LONG),
        "few rows",
    ),
    Case("Newton hands over", classifier(reg_lambda=1e-5, **LONG), "tied"),
    Case("auto changes its mind", classifier(reg_lambda=1e-5, **LONG), "more tied"),
    Case("auto does not change its mind", classifier(reg_lambda=1e-6, tol=1e-6), "text"),
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
    Case("one-versus-rest, max_time", classifier(n_jobs=2, max_time=1e9), "three"),
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

CASES = [
    *LOSSES_AND_SOLVERS,
    *PATHS_OF_SOLVERS,
    *LAYOUTS_AND_WEIGHTS,
    *SEVERAL_CLASSES,
    *REGULARIZERS,
]
