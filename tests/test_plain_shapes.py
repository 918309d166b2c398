"""Every loss and solver of the linear family on the plainest data; points stay as they are.

The judge recomputes objectives from the fitted attributes: what a solver hands out must be a copy.
"""

from functools import cache

import numpy as np
import pytest

from sklearn_bundle import (
    BMRMClassifier,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    PragamSVC,
)
from sklearn_bundle.core import contract
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.linear_auto import solver_class
from sklearn_bundle.linear.solvers.solver import LinearStart, Task
from sklearn_bundle.losses import Hinge, MulticlassHinge, Softmax, SquaredError
from sklearn_bundle.regularizers import L2
from tests.certificates import judge
from tests.fits import quiet
from tests.random_problems import Problem, verdict

PLANES = "auto", "line-search", "cutting-plane"
SOLVERS = {
    BMRMClassifier: {
        "hinge": (*PLANES, "newton", "dual-coordinate"),
        "squared_hinge": (*PLANES, "newton", "dual-coordinate", "lbfgs"),
        "log_loss": (*PLANES, "newton", "dual-coordinate", "lbfgs"),
        "exponential": (*PLANES, "newton", "lbfgs"),
        "multiclass_hinge": (*PLANES, "dual-coordinate"),
        "softmax": (*PLANES, "newton", "lbfgs"),
        "roc_auc": PLANES,
        "fbeta": PLANES,
    },
    BMRMRegressor: {
        "squared_error": (*PLANES, "newton", "conjugate-gradient"),
        "absolute_error": (*PLANES, "newton", "dual-coordinate"),
        "quantile": (*PLANES, "newton", "dual-coordinate"),
        "epsilon_insensitive": (*PLANES, "newton", "dual-coordinate"),
        "squared_epsilon_insensitive": (*PLANES, "newton"),
        "huber": (*PLANES, "newton", "lbfgs"),
        "poisson": (*PLANES, "newton", "lbfgs"),
    },
    BMRMRanker: {"ordinal": PLANES, "ndcg": PLANES},
    BMRMNoveltyDetector: {"novelty": PLANES, "nu_novelty": PLANES},
    PragamSVC: {"hinge": ("excessive-gap",)},
}
WITH_L1 = ("squared_error", "huber", "log_loss", "squared_hinge")
KINDS = [
    *(
        (of, loss, k)
        for of, losses in SOLVERS.items()
        for loss, each in losses.items()
        for k in each
    ),
    *((BMRMRegressor, loss, "coordinate-descent") for loss in WITH_L1[:2]),
    *((BMRMClassifier, loss, "coordinate-descent") for loss in WITH_L1[2:]),
]
JOINT = "multiclass_hinge", "softmax"
SHAPES = "one column", "two classes", "few rows", "constant", "single", "far"
# The general methods, which other solvers go on with, get what their own shapes are about.
PLAIN = [
    (kind, shape)
    for kind in KINDS
    for shape in SHAPES
    if kind[2] not in PLANES[1:] or shape in ("one column", "few rows")
]


@cache
def shaped(shape, of):
    """X and y of a shape, for an estimator: a number, a class, or a level for each row."""
    rng = np.random.default_rng(len(shape))
    n, d = (2 if shape == "few rows" else 8), (1 if shape == "one column" else 2)
    X = np.round(64 * rng.normal(size=(n, d))) / 64
    if shape == "constant":
        X[:, -1] = 3.0
    elif shape == "far":
        X[:, -1] += 1e8
    y = np.arange(n) % (2 if shape in ("two classes", "few rows") else 3)
    if shape == "single":
        y = (np.arange(n) == n - 1) + np.zeros(n, int)
    if of is BMRMRegressor:
        y = np.round(X[:, 0] + np.abs(rng.normal(size=n)), 3) + 3.0
    return X, y


def made(of, loss, solver):
    """An estimator with the loss and the solver."""
    own = {"reg_lambda": 2.0**-6}
    if of is BMRMNoveltyDetector:
        own |= {"nu": 0.5} if loss == "nu_novelty" else {"rho": 1.0}
    elif of is not PragamSVC:
        own["loss"] = loss
    if solver == "coordinate-descent":
        own["regularizer"] = "l1"
    if of in (BMRMClassifier, BMRMRegressor):
        own["solver"] = solver
    elif solver == "cutting-plane":
        own["bundle_size"] = 3
    return of(**own, tol=1e-3, max_iter=60)


def id_of(kind):
    return "-".join((kind[0].__name__, *kind[1:]))


def fitted(kind, shape):
    """What the fit came to, judged."""
    X, y = shaped(shape, kind[0])
    if kind[1] in ("roc_auc", "fbeta"):
        y = np.minimum(y, 1)
    y = None if kind[0] is BMRMNoveltyDetector else y
    further = {"group": np.arange(len(X)) // 4} if kind[1] == "ndcg" else {}
    return verdict(Problem(0, made(*kind), X, y, None, further))


@pytest.mark.wide
@pytest.mark.parametrize(("kind", "shape"), PLAIN, ids=lambda v: v if v in SHAPES else id_of(v))
def test_plain_data(kind, shape):
    found = fitted(kind, shape)
    assert found.statuses and not found.faults and not found.refused


@pytest.mark.parametrize("value", [2.0, 3.0, 5.0])
@pytest.mark.parametrize("loss", JOINT)
def test_joint_losses_of_one_column(loss, value):
    """One column: where the transposed weights of K classes are a view, steps changed the model."""
    X = np.full((3, 1), value)
    for reg_lambda in 9.77e-4, 2e-3:
        for y in [1, 0, 0], [0, 0, 1]:
            judge(quiet(BMRMClassifier(loss, reg_lambda=reg_lambda, tol=0.01), X, y), X, y)


@pytest.mark.matrix
@pytest.mark.parametrize("shape", ["one column", "two classes"])
@pytest.mark.parametrize("kind", KINDS[::7], ids=id_of)
def test_later_steps_leave_points_as_they_were(kind, shape, monkeypatch):
    seen, states_of = [], contract._quietly

    def watched(states):
        for state in states_of(states):
            arrays = state.point, np.asarray(state.intercept)
            seen.extend((array, array.copy()) for array in arrays)
            yield state

    monkeypatch.setattr(contract, "_quietly", watched)
    fitted(kind, shape)
    assert len(seen) > 1 and all(np.array_equal(*pair) for pair in seen)


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        *((Hinge(), name) for name in ("dual-coordinate", "line-search", "newton")),
        *((MulticlassHinge(), name) for name in ("dual-coordinate", "line-search")),
        *((Softmax(), name) for name in ("newton", "lbfgs")),
        *((SquaredError(), name) for name in ("conjugate-gradient", "line-search")),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_confirmation_trusts_no_kept_scores(loss, name):
    """Whatever the scores that the best point has kept, the objective is that of its w and b."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=30) > 0.0, 1.0, -1.0)
    target = (y > 0.0).astype(int) if isinstance(loss, MulticlassHinge | Softmax) else y
    problem = LinearProblem(rows_in_memory(X), target, np.full(30, 1.0 / 30), loss, True)
    task = Task(problem, 0.1, L2(), 1e-9, solver=name)
    solver = solver_class(name, task).of(task, LinearStart())
    for _ in zip(solver.states(), range(50), strict=False):
        pass
    if solver.best.point.scores is not None:
        solver.best.point.scores = np.zeros(problem.scores_shape)
    state = solver.confirm(moving=False)
    point = problem.point(state.point.copy(), state.intercept)
    assert state.primal == pytest.approx(0.1 * L2().value(state.point) + problem.risk(point))


FAR = [
    (BMRMRegressor, "absolute_error", "auto"),
    (BMRMRegressor, "quantile", "dual-coordinate"),
    (BMRMClassifier, "hinge", "line-search"),
    (BMRMClassifier, "multiclass_hinge", "dual-coordinate"),
]


@pytest.mark.parametrize("kind", FAR, ids=id_of)
def test_no_bound_of_columns_far_from_0_is_above_the_optimum(kind):
    """Integers plus 2^20: products are rounded to 1e-10, with and without a tol that notices."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = np.round(4.0 * rng.normal(size=(7, 6)))
        y = np.arange(7) % 2 if kind[0] is BMRMClassifier else np.round(rng.normal(size=7), 2)
        model = kind[0](kind[1], solver=kind[2], reg_lambda=6.5e-7, tol=1e-8, max_iter=30)
        judge(quiet(model, X + 2.0**20, y), X + 2.0**20, y)


def test_rounding_is_next_to_nothing_on_scaled_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 10))
    y = X[:, 0] + rng.normal(size=500)
    for loss in "squared_error", "huber":
        model = BMRMRegressor(loss, reg_lambda=1e-3, tol=1e-12).fit(X, y)
        assert model.converged_
