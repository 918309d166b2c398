"""What your own problem has to offer, what it gets, and how it is refused otherwise."""

from collections import UserString
from typing import Protocol

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.bundle import BundleSolver
from sklearn_bundle.linear.solvers.class_coordinate import ClassCoordinateSolver
from sklearn_bundle.linear.solvers.coordinate_descent import CoordinateDescentSolver
from sklearn_bundle.linear.solvers.descent_solver import DescentSolver
from sklearn_bundle.linear.solvers.dual_coordinate import DualCoordinateSolver
from sklearn_bundle.linear.solvers.inner.planes import Bundle
from sklearn_bundle.linear.solvers.least_squares import LeastSquaresSolver
from sklearn_bundle.linear.solvers.newton import NewtonSolver
from sklearn_bundle.linear.solvers.protocols import (
    CuttingPlanes,
    LineSearch,
    Points,
    missing,
    offers,
)
from sklearn_bundle.linear.solvers.solver import Task
from sklearn_bundle.losses import (
    Exponential,
    Hinge,
    MulticlassHinge,
    Poisson,
    Softmax,
    SquaredError,
)
from sklearn_bundle.regularizers import L1, L2, Entropy

REG_LAMBDA, K = 0.02, 10


class StructuredHinge:
    """Mean over i of ``max_k [k != y_i] + <w_k - w_(y_i), x_i>``: labels as the outputs."""

    nonnegative = True  # k = y_i is among them, with the value 0

    def __init__(self, X, y):
        self.X, self.y, self.dimension = X, y, K * X.shape[1]

    def evaluate(self, w):
        X, rows = self.X, np.arange(len(self.y))
        scores = X @ w.reshape(K, -1).T
        values = scores - scores[rows, self.y][:, None] + 1.0
        values[rows, self.y] -= 1.0
        worst = values.argmax(axis=1)
        signs = np.zeros_like(scores)
        np.add.at(signs, (rows, worst), 1.0 / len(X))
        np.add.at(signs, (rows, self.y), -1.0 / len(X))
        return values[rows, worst].mean(), (signs.T @ X).ravel()


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600] / 16.0, y[:600]


@pytest.fixture(scope="module")
def fitted(digits):
    solver = BundleSolver(StructuredHinge(*digits), REG_LAMBDA, algorithm="cutting-plane")
    return run(solver, tol=1e-4, max_iter=2000)


def objective(w, X, y):
    return 0.5 * REG_LAMBDA * float(w @ w) + StructuredHinge(X, y).evaluate(w)[0]


def test_structured_hinge_by_cutting_planes(digits, fitted):
    """liblinear's Crammer-Singer, whose optimum is that of the same objective times n C."""
    X, y = digits
    svc = LinearSVC(
        multi_class="crammer_singer",
        C=1.0 / (REG_LAMBDA * len(y)),
        fit_intercept=False,
        tol=1e-6,
        max_iter=100_000,
        random_state=0,
    ).fit(X, y)
    best = objective(svc.coef_.ravel(), X, y)
    assert fitted.status is Status.CONVERGED
    assert fitted.primal == objective(fitted.point, X, y)
    assert fitted.lower_bound <= best * (1.0 + 1e-9)
    assert best * (1.0 - 1e-6) <= fitted.primal <= best * (1.0 + 1e-4)


def test_structured_hinge_as_our_own_loss_has_it(digits, fitted):
    X, y = digits
    ours = BMRMClassifier(
        "multiclass_hinge", reg_lambda=REG_LAMBDA, fit_intercept=False, tol=1e-6
    ).fit(X, y)
    assert ours.lower_bound_ <= fitted.primal and fitted.lower_bound <= ours.objective_
    assert fitted.primal == pytest.approx(ours.objective_, rel=2e-4)


def test_no_lower_bound_is_negative_where_the_risk_is_not(fitted):
    """That of the first plane alone is far below 0: it is cut at w = 0, where it is steep."""
    bounds = fitted.history["lower_bound"]
    assert len(bounds) > 10
    assert (bounds >= 0.0).all()


def test_bounds_of_a_risk_that_may_be_negative(digits):
    """The same less 5, which moves the optimum, the bounds and nothing else."""

    class Shifted(StructuredHinge):
        nonnegative = False

        def evaluate(self, w):
            value, gradient = super().evaluate(w)
            return value - 5.0, gradient

    states = BundleSolver(Shifted(*digits), REG_LAMBDA, algorithm="cutting-plane").states()
    peer = BundleSolver(StructuredHinge(*digits), REG_LAMBDA, algorithm="cutting-plane").states()
    for _, state, other in zip(range(60), states, peer, strict=False):
        assert state.primal == pytest.approx(other.primal - 5.0, rel=1e-9)
        assert state.lower_bound <= state.primal
    assert other.lower_bound > 0.0
    assert state.lower_bound == pytest.approx(other.lower_bound - 5.0, rel=1e-6)


def test_passes_are_evaluations_unless_the_problem_counts():
    class Counting(StructuredHinge):
        passes = 0

        def evaluate(self, w):
            self.passes += 2
            return super().evaluate(w)

    X, y = np.eye(K), np.arange(K)
    plain, counting = (
        next(BundleSolver(kind(X, y), 1.0, algorithm="cutting-plane").states()).passes
        for kind in (StructuredHinge, Counting)
    )
    assert plain > 0 and counting == 2 * plain


# ---- who offers what ----------------------------------------------------------------------------


class OneOfTheirOwn(Exponential):
    """A loss that may have another curvature than the one it is derived from."""


def linear(loss):
    X, y = np.eye(2), np.array([-1.0, 1.0])
    return LinearProblem(rows_in_memory(X), y, np.full(2, 0.5), loss, fit_intercept=False)


@pytest.mark.parametrize(
    "problem, offered",
    [
        (StructuredHinge(np.eye(K), np.arange(K)), {CuttingPlanes}),
        (linear(Hinge()), {CuttingPlanes, Points, LineSearch, LinearProblem}),
        (object(), set()),
    ],
    ids=["own", "hinge", "object"],
)
def test_offers(problem, offered):
    asked = {CuttingPlanes, Points, LineSearch, LinearProblem}
    assert {needed for needed in asked if offers(problem, needed)} == offered


def test_missing_names_what_derived_protocols_ask_for_too():
    class Long(Protocol):
        data: list

        def count(self, item): ...

    class Longer(Long, Protocol):
        def encode(self): ...

    assert missing(UserString("text"), Longer) == []
    assert missing(["text"], Longer) == ["data", "encode"]


def test_refusals_name_solver_problem_and_what_is_missing():
    own = StructuredHinge(np.eye(K), np.arange(K))
    with pytest.raises(
        ValueError, match=r"'line-search' needs .*risk_along.*StructuredHinge lacks"
    ):
        BundleSolver(own, 1.0)
    with pytest.raises(ValueError, match=r"'newton' needs .* \(Points in .*StructuredHinge lacks"):
        NewtonSolver(Task(own, 1.0, tol=1e-3))
    with pytest.raises(ValueError, match=r"'cutting-plane' needs .* evaluate .* object lacks"):
        BundleSolver(object(), 1.0, algorithm="cutting-plane")


FORMS = {
    NewtonSolver: {Hinge, Exponential, Poisson, SquaredError},
    DescentSolver: {Exponential, Poisson, SquaredError, Softmax},
    DualCoordinateSolver: {Hinge},
    CoordinateDescentSolver: {Exponential, Poisson, SquaredError},
    LeastSquaresSolver: {SquaredError},
    ClassCoordinateSolver: {MulticlassHinge},
}


@pytest.mark.parametrize("kind", FORMS)
def test_engines_take_the_losses_of_which_they_know_the_form(kind):
    losses = Hinge, Exponential, Poisson, SquaredError, Softmax, MulticlassHinge, OneOfTheirOwn
    known = {loss for loss in losses if kind.form(loss()) is not None}
    assert known == FORMS[kind]
    omega = L1() if kind is CoordinateDescentSolver else L2()
    named = {loss for loss in losses if kind.supports("auto", loss(), omega)}
    assert named == known


@pytest.mark.parametrize("kind", [NewtonSolver, DualCoordinateSolver, CoordinateDescentSolver])
def test_a_loss_of_no_form_is_refused_by_name(kind):
    with pytest.raises(ValueError, match=f"'{kind.name}' does not solve .* OneOfTheirOwn"):
        kind(Task(linear(OneOfTheirOwn()), 1.0, L1() if kind.name[0] == "c" else L2()))


def test_newtons_method_refuses_other_regularizers():
    with pytest.raises(ValueError, match="L2 regularizer; got Entropy"):
        NewtonSolver(Task(linear(Hinge()), 1.0, Entropy()))


class Negative:
    """``R(w) = w_1 - 1``, which is not bounded below by the plane 0 of L1 and the entropies."""

    dimension = 2

    def evaluate(self, w):
        return w[0] - 1.0, np.array([1.0, 0.0])


@pytest.mark.parametrize("omega", [L1(), Entropy()], ids=str)
def test_plane_0_needs_a_risk_that_is_known_not_to_be_negative(omega):
    with pytest.raises(ValueError, match=r"nonnegative = True"):
        BundleSolver(Negative(), 1.0, algorithm="cutting-plane", bundle=Bundle(2, None, omega))


def test_linear_risk_with_l2_is_solved_exactly():
    solver = BundleSolver(Negative(), 0.5, algorithm="cutting-plane", bundle=Bundle(2, None, L2()))
    result = run(solver, tol=1e-12, max_iter=10)
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.point, [-2.0, 0.0], rtol=1e-14)
    assert result.primal == pytest.approx(-2.0, rel=1e-14)


def test_a_risk_that_is_negative_though_it_said_not_is_refused():
    class Lying(Negative):
        nonnegative = True

    with pytest.raises(ValueError, match="said to be nowhere negative"):
        run(BundleSolver(Lying(), 0.5, algorithm="cutting-plane"), tol=1e-3, max_iter=10)
