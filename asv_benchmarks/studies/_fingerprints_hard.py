"""The instances of ``fingerprints.py`` on which numbers are hard, and formulas called by hand."""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from _fingerprints import Case, Found, computed
from _fingerprints_data import task

from sklearn_bundle import SDCACRF, BMRMClassifier, BMRMRegressor, PragamSVC, SwapSVC
from sklearn_bundle.losses import (
    BINARY_LOSSES,
    REGRESSION_LOSSES,
    Loss,
    MulticlassHinge,
    Novelty,
    Softmax,
)
from sklearn_bundle.regularizers import L1, L2, Entropy, EntropySimplex, Lp, Quadratic

SOLVERS = ("newton", "dual-coordinate", "line-search", "cutting-plane")
REGULARIZERS = ("l1", "lp", "entropy", "entropy_simplex")
TIGHTEST = 1e-15  # a relative gap that rounding may keep a fit from


def classifier(loss="hinge", reg_lambda=1e-2, **params) -> BMRMClassifier:
    """One that ends soon where it does not converge."""
    return BMRMClassifier(loss, reg_lambda=reg_lambda, **{"max_iter": 60} | params)


SCALES = [
    *(
        Case(f"scales, {solver}", classifier(solver=solver, reg_lambda=1e-4), "scales")
        for solver in SOLVERS
    ),
    *(
        Case(f"scales, {omega}", classifier(regularizer=omega, reg_lambda=1e-4), "scales")
        for omega in REGULARIZERS
    ),
    Case("scales, exponential", classifier("exponential"), "scales"),
    Case("scales, exponential, cutting-plane", classifier("exponential", solver=SOLVERS[3]), "far"),
    Case("scales, entropy, exponential", classifier("exponential", regularizer="entropy"), "far"),
    Case("scales, fbeta, entropy", classifier("fbeta", regularizer="entropy"), "scales"),
    Case("scales, fbeta, L1", classifier("fbeta", regularizer="l1"), "scales"),
    Case("scales, softmax, Lp", classifier("softmax", regularizer="lp"), "three scales"),
    Case("scales, multiclass_hinge", classifier("multiclass_hinge", 1e-4), "three scales"),
    Case("scales, regression", BMRMRegressor("huber", max_iter=60), "regression scales"),
    Case("scales, several targets", BMRMRegressor(max_iter=60), "targets scales"),
    Case("scales, Pragam", PragamSVC(reg_lambda=1e-3, max_iter=200), "scales"),
    Case("scales, tiny reg_lambda", classifier(reg_lambda=1e-12, solver=SOLVERS[2]), "scales"),
    Case("scales, auto", classifier("log_loss", 1e-8), "scales"),
    Case("scales, SWAP", SwapSVC(max_iter=5000, gamma=0.1), "scales"),
    Case("scales, SWAP, CSR", SwapSVC(max_iter=5000, gamma=1.0), "scales", "float32 CSR"),
    Case("scales, SWAP, poly", SwapSVC(max_iter=5000, kernel="poly", coef0=1.0), "scales"),
    Case(
        "scales, SWAP, active set",
        SwapSVC(100.0, max_iter=5000, active_set=20, random_state=0),
        "scales",
    ),
    Case("scales, CRF", SDCACRF(random_state=0, max_iter=20), "far"),
]

LIMITS = [
    *(
        Case(
            f"to the last digit, {loss}, {solver}",
            classifier(loss, solver=solver, tol=TIGHTEST, max_iter=200),
            "few rows",
        )
        for loss in ("hinge", "log_loss")
        for solver in SOLVERS
    ),
    Case("to the last digit, Pragam", PragamSVC(reg_lambda=0.1, tol=TIGHTEST), "few rows"),
    Case("to the last digit, L1", classifier(regularizer="l1", tol=TIGHTEST), "binary"),
    Case("to the last digit, Lp", classifier(regularizer="lp", tol=TIGHTEST), "binary"),
    Case("to the last digit, softmax", classifier("softmax", tol=TIGHTEST), "three"),
    Case("to the last digit, wide", classifier(tol=TIGHTEST, solver=SOLVERS[2]), "wide"),
    Case("to the last digit, SWAP", SwapSVC(tol=TIGHTEST, max_iter=20_000), "rings"),
    Case(
        "to the last digit, SWAP, active set",
        SwapSVC(tol=TIGHTEST, max_iter=20_000, active_set=30, random_state=0),
        "rings",
    ),
    *(
        Case(
            f"to the last digit, CRF, {solver}",
            SDCACRF(solver=solver, tol=TIGHTEST, random_state=0),
            "chains",
        )
        for solver in ("auto", "exponentiated", "sdca", "lbfgs")
    ),
    Case("columns in two threads", classifier(solver=SOLVERS[2], n_jobs=2), "very wide text"),
    Case("SWAP, many steps", SwapSVC(1e4, max_iter=200_000), "rings"),
    Case("SWAP, samples of points", SwapSVC(3.0, active_set=40, random_state=0), "many rings"),
    Case("one class of one row", classifier(reg_lambda=1e-6), "lonely"),
    Case("one class of one row, SWAP", SwapSVC(), "lonely"),
    Case("separable", classifier("log_loss", 1e-9, tol=1e-6), "lonely"),
    Case("indefinite", SwapSVC(kernel="precomputed", max_iter=2000), "indefinite"),
    Case("repeated rows", SwapSVC(1e3, max_iter=5000), "repeated"),
    Case("repeated rows, hinge", classifier(solver="dual-coordinate", tol=1e-8), "repeated"),
    Case("no features", classifier("log_loss"), "constant"),
    Case(
        "sparse B",
        classifier(regularizer=Quadratic(sp.diags([0.2, 1.0, 0.2], [-1, 0, 1], shape=(6, 6)))),
        "three",
    ),
    Case(
        "warm start, text, auto",
        classifier(warm_start=True, max_iter=2),
        "text",
        then=(
            {"max_iter": 6},
            {"max_iter": 100},
            {"tol": 1e-6},
            {"reg_lambda": 1e-4},
        ),
    ),
    Case(
        "warm start, changed regularizer",
        classifier(warm_start=True),
        "binary",
        then=(
            {"regularizer": "lp"},
            {"loss": "log_loss"},
            {"fit_intercept": False},
            {"bundle_size": 5},
        ),
    ),
]


def formulas(kind: type[Loss], scores: np.ndarray, y: np.ndarray) -> Callable:
    """Values and derivatives of a loss at given scores."""

    def found() -> list[Found]:
        loss = kind()
        return [computed(value=loss.value(scores, y), gradient=loss.gradient(scores, y))]

    return found


def regularizers() -> list[Found]:
    """Values, conjugates and derivatives of each regularizer."""
    rng = np.random.default_rng(30)
    m, direction, planes = rng.normal(size=6), rng.normal(size=6), rng.normal(size=(4, 6))
    values = {}
    for omega in (L2(), Lp(1.3), Quadratic(np.arange(1.0, 7.0)), Entropy(), EntropySimplex()):
        w = omega.conjugate_gradient(m)
        values[repr(omega)] = [
            *(w, omega.value(w), omega.conjugate(m), omega.start(6), omega.slope(w, direction)),
            omega.conjugate_curvature(m, planes),
        ]
    values["L1"] = [L1().value(m), L1().conjugate(0.3 * m), L1().slope(m, direction)]
    return [computed(**values)]


def by_hand() -> list[tuple[str, Callable]]:
    """Formulas of losses and regularizers."""
    scores = np.linspace(-3.0, 3.0, 41)
    signs, targets = np.where(np.arange(41) % 3, 1.0, -1.0), np.linspace(4.0, 0.0, 41)
    several, labels = task("three")[0][:, :3], np.arange(180) % 3
    return [
        *((f"formula, {name}", formulas(k, scores, signs)) for name, k in BINARY_LOSSES.items()),
        *(
            (f"formula, {name}", formulas(kind, scores, targets))
            for name, kind in REGRESSION_LOSSES.items()
        ),
        ("formula, multiclass_hinge", formulas(MulticlassHinge, several, labels)),
        ("formula, softmax", formulas(Softmax, several, labels)),
        ("formula, novelty", formulas(Novelty, scores, signs)),
        ("formula, regularizers", regularizers),
    ]


CASES = [*SCALES, *LIMITS, *by_hand()]
