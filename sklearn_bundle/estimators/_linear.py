"""What linear models share: one way through fit; of classifiers scores and labels."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle._parallel import blas_threads, split_threads
from sklearn_bundle.estimators._base import (
    CallbackSupportMixin,
    Monitor,
    certificate,
    fit_certified,
    with_callbacks,
)
from sklearn_bundle.estimators._multiclass import binary_targets, solve_each
from sklearn_bundle.estimators._validation import (
    ClassificationData,
    TrainingData,
    check_classification_data,
    check_prediction_data,
)
from sklearn_bundle.estimators._warm import WarmStart, problem_fingerprint
from sklearn_bundle.problems.linear import LinearProblem
from sklearn_bundle.solvers.contract import Resumable, SolverResult, Status, run


class CertifiedLinear(CallbackSupportMixin, BaseEstimator, ABC):
    """One way through fit for all linear models.

    A subclass says how data are checked, which problems they make, which solver takes one on, what
    of it the next fit may start from, and which attributes the solutions become.
    """

    _common_constraints: ClassVar[dict] = {
        "reg_lambda": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "fit_intercept": ["boolean"],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }
    _advice: ClassVar[dict[Status, str]] = {
        Status.MAX_ITER: "Increase max_iter or tol, or reg_lambda; scaling the features helps too.",
        Status.MAX_TIME: "Increase max_time or tol, or reg_lambda.",
        Status.STALLED: "Rounding leaves nothing to gain: scale the features to similar sizes, or "
        "increase tol or reg_lambda.",
    }

    @abstractmethod
    def _check(self, X: Any, y: Any, sample_weight: Any, **further: Any) -> TrainingData:
        """The data, checked."""

    @abstractmethod
    def _targets(self, data: TrainingData) -> list[Any]:
        """What the loss takes for a target, one a subproblem."""

    @abstractmethod
    def _problem(
        self, data: TrainingData, target: Any, n_threads: int
    ) -> AbstractContextManager[LinearProblem]:
        """The problem of one target."""

    @abstractmethod
    def _solver(self, problem: LinearProblem, kept: Any, seed: int | None) -> Resumable:
        """A solver that starts from what :meth:`_keep` returned, or from None."""

    @abstractmethod
    def _settings(self) -> tuple:
        """The parameters that make a solver what it is, beside those of the formulation."""

    @abstractmethod
    def _keep(self, solver: Resumable, result: SolverResult) -> Any:
        """What a next fit on the same data may start from."""

    @abstractmethod
    def _model(self, data: TrainingData, points: list[tuple]) -> dict[str, Any]:
        """Fitted attributes of a list of (w, intercept), one a subproblem."""

    @abstractmethod
    def _formulation(self) -> tuple[Any, ...]:
        """The objects that make the problem what it is, beside the data: the loss first."""

    def _seed(self) -> int | None:
        """One seed for all subproblems; None if nothing is random."""
        return None

    def _further_attributes(self, data: TrainingData, kept: list) -> dict[str, Any]:
        """Fitted attributes beside coefficients and certificate, from what the solvers kept."""
        return {}

    @with_callbacks
    def _fit(
        self, X, y, sample_weight, warm, **further
    ) -> tuple[dict[str, Any], list[SolverResult], bool]:
        data = self._check(X, y, sample_weight, **further)
        targets = self._targets(data)
        warm = self._warm_start(warm, data, len(targets))
        outer, inner = split_threads(self.n_jobs, len(targets))
        seed = self._seed()
        warm.match(self._settings())
        model = partial(self._model, data)
        monitor = Monitor(
            *(self, X, y, sample_weight, len(targets), self.max_iter, self.verbose, model),
            **further,
        )

        def solve(k: int, seconds: float | None) -> SolverResult:
            reached = warm.reached(k, self.tol)
            if reached is not None:
                return reached
            with self._problem(data, targets[k], inner) as problem:
                solver = warm.solver(k, self.tol)
                if solver is None:
                    solver = self._solver(problem, warm.kept[k], seed)
                else:
                    solver.attach(problem)
                result = run(
                    solver,
                    tol=self.tol,
                    max_iter=self.max_iter,
                    max_time=seconds,
                    observe=partial(monitor, k),
                )
            solver.detach()
            warm.leave(k, self._keep(solver, result), result, self.tol, solver)
            return result

        with blas_threads(1):  # more would change the last bits with n_jobs
            results, interrupted = solve_each(
                solve, monitor.close, len(targets), outer, self.max_time, monitor.stop
            )
        try:
            monitor.close_all(results)
        except KeyboardInterrupt:
            interrupted = True
        fitted = model([(r.w, r.intercept) for r in results]) | certificate(results)
        fitted |= self._further_attributes(data, warm.kept)
        if self.warm_start and not interrupted:  # Ctrl-C may hit in the middle of a change
            fitted["_warm"] = warm
        return fitted, results, interrupted

    def _warm_start(
        self, last: WarmStart | None, data: TrainingData, n_subproblems: int
    ) -> WarmStart:
        """What the last fit kept if it belongs to this problem, else nothing."""
        fingerprint = None
        if self.warm_start:
            fingerprint = problem_fingerprint(data, self._formulation(), self.fit_intercept)
            if last is not None and fingerprint is not None and last.fingerprint == fingerprint:
                return last
        return WarmStart(fingerprint, [None] * n_subproblems)

    def _scores(self, X: Any) -> np.ndarray:
        """``X coef_' + intercept_``."""
        check_is_fitted(self)
        X = check_prediction_data(self, X)
        return safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in super().__getstate__().items() if key != "_warm"}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class CertifiedLinearClassifier(ClassifierMixin, CertifiedLinear):
    """Two classes make one problem, more of them one each, unless a subclass says otherwise."""

    _common_constraints: ClassVar[dict] = {
        **CertifiedLinear._common_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data. C-ordered arrays and CSR of float32 or float64 are used without a copy.
        y : array-like of shape (n_samples,)
            Labels of any kind.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0. A weight 2 is a repeated row, a weight 0 a missing one.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As the class says. Nothing is fitted then.
        """
        return fit_certified(self, X, y, sample_weight)

    def _check(self, X, y, sample_weight):
        return check_classification_data(self, X, y, sample_weight, self.class_weight)

    def _targets(self, data: ClassificationData) -> list[NDArray[np.float64]]:
        return binary_targets(data.labels, len(data.classes))

    def _model(self, data, points):
        return {
            "classes_": data.classes,
            "coef_": np.array([w for w, _ in points]),
            "intercept_": np.array([np.ravel(b)[0] for _, b in points], dtype=np.float64),
        }

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores ``<w, x> + b``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            With two classes, positive where the second one is predicted.
        """
        scores = self._scores(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Labels with the largest score.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels out of ``classes_``.
        """
        scores = self.decision_function(X)
        indices = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[indices]
