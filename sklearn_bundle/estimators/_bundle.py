"""What the estimators of the bundle method share: loss and regularizer by name, the solver."""

from inspect import signature
from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_bundle.estimators._linear import CertifiedLinear
from sklearn_bundle.estimators._validation import TrainingData
from sklearn_bundle.losses import Loss
from sklearn_bundle.problems.linear import LinearProblem
from sklearn_bundle.problems.rows import rows_in_memory
from sklearn_bundle.regularizers import REGULARIZERS, Regularizer
from sklearn_bundle.solvers.bundle import BundleSolver
from sklearn_bundle.solvers.contract import SolverResult, Status
from sklearn_bundle.solvers.linear_auto import LinearAutoSolver, Task, linear_solver
from sklearn_bundle.solvers.linear_start import LinearStart

_FEW = 10  # planes; with 6 and fewer, fits stalled
_L1_ADVICE = {
    limit: "With L1, a small reg_lambda takes many iterations, and the later ones are the longer: "
    f"increase reg_lambda or tol, or {limit}; scaling the features helps too."
    for limit in (Status.MAX_ITER, Status.MAX_TIME)
}


class BundleEstimator(CertifiedLinear):
    """A subclass has the table of its losses; their parameters are parameters of its own."""

    _losses: ClassVar[dict[str, type[Loss]]]

    _bundle_constraints: ClassVar[dict] = {
        "regularizer": [StrOptions(set(REGULARIZERS)), Regularizer],
        "solver": [StrOptions({"auto", "line-search", "cutting-plane"})],
        "bundle_size": [Interval(Integral, 2, None, closed="left"), None],
        "theta": [Interval(Real, 0, 1, closed="right")],
    }

    @property
    def _advice(self) -> dict[Status, str]:
        advice = CertifiedLinear._advice
        return advice | _L1_ADVICE if self._omega().is_l1 else advice

    def _loss(self) -> Loss:
        """The loss, made with those parameters of the estimator that it has too."""
        if not isinstance(self.loss, str):
            return self.loss
        kind = self._losses[self.loss]
        names = signature(kind).parameters
        return kind(**{name: getattr(self, name) for name in names if hasattr(self, name)})

    def _omega(self) -> Regularizer:
        if not isinstance(self.regularizer, str):
            return self.regularizer
        kind = REGULARIZERS[self.regularizer]
        needs = [p.name for p in signature(kind).parameters.values() if p.default is p.empty]
        if needs:
            raise ValueError(
                f"regularizer={self.regularizer!r} needs {needs[0]}: pass an instance, "
                f"regularizer={kind.__name__}({needs[0]}=...)."
            )
        return kind()

    def _formulation(self) -> tuple[Any, ...]:
        return self._loss(), self._omega()

    def _loss_for(self, data: TrainingData) -> Loss:
        """The loss as it is for these data."""
        return self._loss()

    def _problem(self, data: TrainingData, target: Any, n_threads: int) -> LinearProblem:
        rows, loss = rows_in_memory(data.X, n_threads), self._loss_for(data)
        return LinearProblem(rows, target, data.weights, loss, self.fit_intercept)

    def _solver(
        self, problem: LinearProblem, kept: LinearStart | None, seed: None
    ) -> BundleSolver | LinearAutoSolver:
        omega = self._omega().bind(problem.n_features, problem.dimension)
        self._check_bundle_size(problem, omega)
        task = Task(problem, self.reg_lambda, omega, self.tol, self.theta, self.bundle_size)
        return linear_solver(self.solver, task, LinearStart() if kept is None else kept)

    def _settings(self) -> tuple:
        return self.reg_lambda, self.solver, self.theta, self.bundle_size

    def _check_bundle_size(self, problem: LinearProblem, omega: Regularizer) -> None:
        """An average of planes cannot be balanced or scaled again: few of them lead nowhere."""
        if self.bundle_size is None or not (problem.n_free or omega.is_l1):
            return
        least = _FEW + problem.n_free
        if self.bundle_size < least:
            why = "regularizer='l1'"
            if not omega.is_l1:
                why = f"loss={self.loss!r}, whose intercept is a coordinate of the planes,"
            raise ValueError(
                f"bundle_size={self.bundle_size} is too small: {why} needs at least {least} planes."
            )

    def _keep(self, solver: BundleSolver | LinearAutoSolver, result: SolverResult) -> LinearStart:
        return solver.kept((result.w, result.intercept))
