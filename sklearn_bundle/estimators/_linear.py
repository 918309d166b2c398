"""What linear classifiers share: one way through fit, scores and labels."""

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

from sklearn_bundle._parallel import split_threads
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
    check_classification_data,
    check_prediction_data,
)
from sklearn_bundle.estimators._warm import WarmStart, problem_fingerprint
from sklearn_bundle.losses.base import BinaryLoss
from sklearn_bundle.problems.linear import LinearProblem
from sklearn_bundle.solvers._run import Solver, SolverResult, Status, run


class CertifiedLinearClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator, ABC):
    """A subclass says which problem, which solver, and what of it the next fit may start from."""

    _common_constraints: ClassVar[dict] = {
        "reg_lambda": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "fit_intercept": ["boolean"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }
    _advice: ClassVar[dict[Status, str]] = {
        Status.MAX_ITER: "Increase max_iter or tol, or reg_lambda; scaling the features helps too.",
        Status.MAX_TIME: "Increase max_time or tol, or reg_lambda.",
        Status.STALLED: "Rounding leaves nothing to gain: increase tol, or scale the features.",
    }

    @abstractmethod
    def _loss(self) -> BinaryLoss:
        """The loss, as an object."""

    @abstractmethod
    def _problem(
        self, data: ClassificationData, target: NDArray[np.float64], n_threads: int
    ) -> AbstractContextManager[LinearProblem]:
        """The problem of one class against the rest."""

    @abstractmethod
    def _solver(self, problem: LinearProblem, kept: Any, seed: int | None) -> Solver:
        """A solver that starts from what :meth:`_keep` returned, or from None."""

    @abstractmethod
    def _keep(self, solver: Solver, result: SolverResult) -> Any:
        """What a next fit on the same data may start from."""

    def _seed(self) -> int | None:
        """One seed for all subproblems; None if nothing is random."""
        return None

    def _further_attributes(self, data: ClassificationData, kept: list) -> dict[str, Any]:
        """Fitted attributes beside coefficients and certificate, from what the solvers kept."""
        return {}

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
        """
        return fit_certified(self, X, y, sample_weight)

    @with_callbacks
    def _fit(self, X, y, sample_weight, warm) -> tuple[dict[str, Any], list[SolverResult], bool]:
        self._validate_params()
        loss = self._loss()
        data = check_classification_data(self, X, y, sample_weight, self.class_weight)
        targets = binary_targets(data.labels, len(data.classes))
        warm = self._warm_start(warm, data, loss, len(targets))
        outer, inner = split_threads(self.n_jobs, len(targets))
        seed = self._seed()

        def model(points):
            return {
                "classes_": data.classes,
                "coef_": np.array([w for w, _ in points]),
                "intercept_": np.array([b for _, b in points], dtype=np.float64),
            }

        monitor = Monitor(
            self, X, y, sample_weight, len(targets), self.max_iter, self.verbose, model
        )

        def solve(k: int, seconds: float | None) -> SolverResult:
            with self._problem(data, targets[k], inner) as problem:
                solver = self._solver(problem, warm.kept[k], seed)
                result = run(
                    solver,
                    tol=self.tol,
                    max_iter=self.max_iter,
                    max_time=seconds,
                    observe=partial(monitor, k),
                )
            warm.kept[k] = self._keep(solver, result)
            return result

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
        self, last: WarmStart | None, data: ClassificationData, loss: BinaryLoss, n_subproblems: int
    ) -> WarmStart:
        """What the last fit kept if it belongs to this problem, else nothing."""
        fingerprint = None
        if self.warm_start:
            fingerprint = problem_fingerprint(data, loss, self.fit_intercept)
            if last is not None and fingerprint is not None and last.fingerprint == fingerprint:
                return last
        return WarmStart(fingerprint, [None] * n_subproblems)

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
        check_is_fitted(self)
        X = check_prediction_data(self, X)
        scores = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
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

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in super().__getstate__().items() if key != "_warm"}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
