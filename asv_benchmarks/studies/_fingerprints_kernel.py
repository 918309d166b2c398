"""The instances of ``fingerprints.py`` for kernel support vector machines."""

import numpy as np
from _fingerprints import Case
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import KFold

from sklearn_bundle import SwapSVC, SwapSVCCV

SOLVERS = ("swap-2o", "swap", "mfw", "fw", "cvm")
WEIGHTS = np.tile([0.0, 1.0, 2.0, 0.5], 60)  # of 240 rows, some without weight
STEPS = 20_000  # limit for those that are slow to converge


def laplacian(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """A kernel as a callable."""
    return np.exp(-0.5 * np.abs(X[:, None] - Z[None]).sum(axis=2))


def swap(C: float = 5.0, **params) -> SwapSVC:
    """One that ends soon where it does not converge."""
    return SwapSVC(C, **{"max_iter": STEPS} | params)


ANOTHER_C, ANOTHER_TOL = {"C": 20.0}, {"tol": 1e-5}
THEN = (ANOTHER_C, ANOTHER_TOL, {"max_iter": 2 * STEPS})
SEARCHED = {"Cs": [0.1, 1.0, 10.0], "cv": 3, "max_iter": STEPS}

SINGLE = [
    *(Case(f"SWAP, {solver}", swap(solver=solver), "rings") for solver in SOLVERS),
    *(
        Case(f"SWAP, linear kernel, {solver}", swap(kernel="linear", solver=solver), "rings", "CSR")
        for solver in SOLVERS[:3]
    ),
    Case("SWAP, ended by max_iter", swap(max_iter=40), "rings"),
    Case("SWAP, rows in double precision", swap(tol=1e-8), "rings"),
    Case("SWAP, double precision, cvm", swap(tol=1e-7, solver="cvm"), "rings", "float32"),
    Case("SWAP, poly", swap(kernel="poly", degree=2, coef0=1.0, gamma="auto"), "rings"),
    Case("SWAP, poly, CSR", swap(kernel="poly", gamma=0.5, coef0=0.5), "rings", "CSR"),
    Case("SWAP, gamma of distances", swap(gamma="distance"), "rings", "float32 CSR"),
    Case("SWAP, precomputed", swap(kernel="precomputed"), "gram"),
    Case("SWAP, callable", swap(kernel=laplacian), "rings"),
    Case("SWAP, weights", swap(), "rings", fit={"sample_weight": WEIGHTS}),
    Case(
        "SWAP, precomputed, weights",
        swap(kernel="precomputed", class_weight={0: 2.0}),
        "gram",
        fit={"sample_weight": WEIGHTS},
    ),
    Case("SWAP, balanced", swap(class_weight="balanced", solver="swap"), "rings", "Fortran"),
    Case("SWAP, small cache", swap(cache_size=0.02), "rings"),
    Case("SWAP, candidates", swap(n_candidates=20, random_state=0), "rings"),
    Case("SWAP, candidates, mfw", swap(n_candidates=20, random_state=0, solver="mfw"), "rings"),
    Case("SWAP, initial points", swap(n_initial=20, random_state=1), "rings"),
    Case("SWAP, active set", swap(active_set=40, random_state=2), "rings"),
    Case(
        "SWAP, active set, weights",
        swap(active_set=30, random_state=3, kernel="poly", coef0=1.0),
        *("rings", "CSR"),
        fit={"sample_weight": WEIGHTS},
    ),
    Case("SWAP, mapped", swap(), "rings", "mapped"),
    Case("SWAP, small C", swap(1e-3), "rings"),
    Case("SWAP, large C", swap(1e4), "rings"),
    Case("SWAP, linear, two threads", swap(kernel="linear", n_jobs=2), "rings"),
]

PAIRS_OF_CLASSES = [
    Case("SWAP, three classes", swap(), "three rings"),
    Case("SWAP, three classes, two threads", swap(n_jobs=2), "three rings"),
    Case(
        "SWAP, three classes, pairs",
        swap(decision_function_shape="ovo", class_weight="balanced", kernel="poly", coef0=1.0),
        *("three rings", "CSR"),
        fit={"sample_weight": WEIGHTS},
    ),
    Case("SWAP, three classes, ties", swap(break_ties=True), "three"),
    Case("SWAP, three classes, linear", swap(kernel="linear"), "three"),
    Case("SWAP, three classes, active sets", swap(active_set=25, random_state=4), "three rings"),
    Case("SWAP, three classes, small cache", swap(cache_size=0.05), "three rings"),
]

WARM_STARTS = [
    Case("SWAP, warm start", swap(warm_start=True, max_iter=50), "rings", then=THEN),
    *(
        Case(
            f"SWAP, warm start, {solver}",
            swap(warm_start=True, solver=solver, max_iter=50),
            "rings",
            then=({"max_iter": STEPS}, ANOTHER_C),
        )
        for solver in SOLVERS[1:]
    ),
    Case("SWAP, warm start, three classes", swap(warm_start=True), "three rings", then=THEN),
    Case("SWAP, warm start, precomputed", swap(kernel="precomputed", warm_start=True), "gram"),
    Case("SWAP, warm start, callable", swap(kernel=laplacian, warm_start=True), "rings", then=THEN),
    Case(
        "SWAP, warm start, active set",
        swap(warm_start=True, active_set=40, random_state=5),
        "rings",
        then=THEN,
    ),
]

SEARCHES = [
    Case("SWAP CV", SwapSVCCV(**SEARCHED), "rings"),
    Case("SWAP CV, two threads", SwapSVCCV(**SEARCHED, n_jobs=2), "rings"),
    Case("SWAP CV, three classes", SwapSVCCV(**SEARCHED, n_jobs=2), "three rings", "CSR"),
    Case("SWAP CV, precomputed", SwapSVCCV(**SEARCHED, kernel="precomputed"), "gram"),
    Case(
        "SWAP CV, weights",
        SwapSVCCV(**SEARCHED, class_weight="balanced", solver="swap"),
        "rings",
        fit={"sample_weight": WEIGHTS},
    ),
    Case(
        "SWAP CV, own scorer and folds",
        SwapSVCCV(
            Cs=3,
            cv=KFold(3, shuffle=True, random_state=0),
            scoring=make_scorer(f1_score),
            kernel="linear",
            max_iter=STEPS,
        ),
        "rings",
    ),
    Case("SWAP CV, no shared matrix", SwapSVCCV(**SEARCHED, cache_size=0.2), "rings"),
]

CASES = [*SINGLE, *PAIRS_OF_CLASSES, *WARM_STARTS, *SEARCHES]
