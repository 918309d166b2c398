"""The instances of ``fingerprints.py`` for structured outputs."""

import numpy as np
from _fingerprints import Case, Found, found
from _fingerprints_data import task

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Chain, Multiclass, Ontology
from tests.contract.user_models import Grid, Ranking

SOLVERS = ("bcfw", "rsd", "rsd-one-simplex", "rsd-working-sets", "bundle")
WEIGHTS = np.tile([0.0, 1.0, 2.0, 0.5], 15)  # of sequences, some without weight
EDGES = [("animal", "mammal"), ("mammal", "ape"), ("mammal", "bat"), ("animal", "cat")]
COST = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [1.0, 2.0, 0.0]])


def svm(model="chain", **params) -> StructuredSVM:
    """One with a seed that ends soon where it does not converge."""
    return StructuredSVM(model, **{"random_state": 0, "max_iter": 60} | params)


CHAINS = [
    Case("structured, chain", svm(), "chains"),
    *(Case(f"structured, chain, {solver}", svm(solver=solver), "words") for solver in SOLVERS),
    Case("structured, chain, little regularization", svm(reg_lambda=1e-4), "words"),
    Case("structured, chain, squared", svm(loss="squared_hinge"), "words"),
    Case("structured, chain, small cache", svm(n_cached_outputs=2, sampling="uniform"), "chains"),
    Case("structured, chain, no intercept", svm(Chain(fit_intercept=False)), "sparse chains"),
    Case("structured, chain, weights", svm(), "words", fit={"sample_weight": WEIGHTS}),
    Case("structured, chain, 2-D", svm(reg_lambda=0.01), "three", "float32"),
    Case("structured, chain, two threads", svm(n_jobs=2), "words"),
    Case(
        "structured, chain, warm start",
        svm(warm_start=True, max_iter=4),
        "words",
        then=({"max_iter": 200}, {"reg_lambda": 0.05}, {"tol": 1e-5}),
    ),
]

CLASSES = [
    Case("structured, multiclass", svm("multiclass", reg_lambda=0.01), "three"),
    Case(
        "structured, multiclass, CSR",
        svm(Multiclass(cost=COST), solver="rsd", reg_lambda=0.01),
        *("three", "CSR"),
    ),
    Case(
        "structured, multiclass, slack",
        svm(Multiclass(cost=COST), scaling="slack", reg_lambda=0.01),
        "three",
    ),
    Case(
        "structured, multiclass, slack, squared",
        svm(Multiclass(cost=COST), scaling="slack", loss="squared_hinge", solver="rsd"),
        "three",
    ),
    Case("structured, ontology", svm(Ontology(EDGES), reg_lambda=0.01), "three"),
]


def pictures() -> list[Found]:
    """A user's model with a cone."""
    rng = np.random.default_rng(21)
    X = rng.normal(size=(20, 2, 3, 2))
    y = (X.mean(axis=2, keepdims=True) + 0.5 * X)[..., 0] > 0.0
    X, y = list(X), list(y.astype(int))
    models = [svm(Grid(), solver=solver, reg_lambda=0.02) for solver in ("auto", "rsd")]
    return [found(model.fit(X, y), X) for model in models]


def rankings() -> list[Found]:
    """A user's model, rows of X as items."""
    X, y = task("regression")
    X, y = list(X[:100].reshape(25, 4, -1)), list(np.argsort(-y[:100].reshape(25, 4)))
    models = [svm(Ranking(), scaling=scaling, reg_lambda=0.02) for scaling in ("margin", "slack")]
    return [found(model.fit(X, y), X) for model in models]


CASES = [
    *CHAINS,
    *CLASSES,
    ("structured, a user's grid", pictures),
    ("structured, a user's ranking", rankings),
]
