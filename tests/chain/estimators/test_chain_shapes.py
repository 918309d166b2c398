"""Chain and structured estimators on the plainest shapes: what the fits say is true."""

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_bundle import SDCACRF, SDCACRFCV, StructuredSVM
from tests.contract.fits import quiet
from tests.contract.judge import judge

CRF = {"reg_lambda": 0.1, "random_state": 0}
STRUCTURED = {"model": "chain", "reg_lambda": 0.1, "random_state": 0}
SOLVERS = "auto", "bcfw", "rsd", "rsd-one-simplex", "rsd-working-sets", "bundle"
KINDS = {
    **{s: SDCACRF(solver=s, **CRF) for s in ("auto", "exponentiated", "sdca", "lbfgs")},
    "elastic net": SDCACRF(l1_ratio=0.5, **CRF),
    "log": StructuredSVM(loss="log", **STRUCTURED),
    "log, bundle": StructuredSVM(loss="log", solver="bundle", **STRUCTURED),
    **{f"hinge, {s}": StructuredSVM(solver=s, **STRUCTURED) for s in (*SOLVERS, "excessive-gap")},
    **{
        f"squared, {s}": StructuredSVM(solver=s, loss="squared_hinge", **STRUCTURED)
        for s in ("auto", "rsd", "bundle")
    },
}
OPTIMA = {}  # of a problem, by whichever kind came first


def shapes():
    """X, y and weights by name."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9, 2)), [0, 1, 1, 0, 2, 1, 0, 0, 1]
    two = [label % 2 for label in y]
    parts = [X[:3], X[3:5], X[5:6], X[6:]]
    labels, twos = ([part[:3], part[3:5], part[5:6], part[6:]] for part in (y, two))
    constant, large = X.copy(), X.copy()
    constant[:, 0], large[:, 0] = 3.0, 1e8 * X[:, 0]
    ends = [3, 5, 6]
    return {
        "one sequence": ([X[:4]], [y[:4]], None),
        "length one": ([x[None] for x in X], [[label] for label in y], None),
        "one feature": ([x[:, :1] for x in parts], labels, None),
        "one constant feature": ([np.full((len(x), 1), 3.0) for x in parts], twos, None),
        "two labels": (parts, twos, None),
        "one position in a class": (parts, [[0] * 3, [0, 1], [0], [0] * 3], None),
        "a constant column": (np.split(constant, ends), labels, None),
        "all weights but one zero": (parts, labels, np.array([2.0, 0.0, 0.0, 0.0])),
        "a column of 1e8": (np.split(large, ends), labels, None),
    }


SHAPES = shapes()


@pytest.mark.wide
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_plain_shapes(kind, shape):
    X, y, weights = SHAPES[shape]
    hard = shape == "a column of 1e8"  # few iterations, however far they get
    model = clone(KINDS[kind]).set_params(**({"max_iter": 10} if hard else {}))
    quiet(model, X, y, weights)
    kept = range(len(X)) if weights is None else np.flatnonzero(weights)
    given = None if weights is None else weights[kept]
    problem = type(model), getattr(model, "loss", model.get_params().get("l1_ratio")), shape
    data = [X[i] for i in kept], [y[i] for i in kept], given
    OPTIMA[problem] = judge(model, *data, optimum=OPTIMA.get(problem))
    assert model.status_ == "converged" or hard or kind == "hinge, excessive-gap"


@pytest.mark.parametrize("kind", ["auto", "log", "hinge, auto"])
def test_a_single_label_is_refused(kind):
    with pytest.raises(ValueError, match="labels of at least 2 classes in y"):
        KINDS[kind].fit([np.ones((2, 1)), np.ones((1, 1))], [[1, 1], [1]])


@pytest.mark.wide
@pytest.mark.parametrize("shape", ["one feature", "two labels", "a constant column"])
def test_plain_shapes_with_folds(shape):
    X, y, _ = SHAPES[shape]
    model = quiet(SDCACRFCV(cv=2, reg_lambdas=[0.1, 1.0], random_state=0), X, y)
    judge(model, X, y)
