"""Base of linear models: parameters and scores; for classifiers, targets and labels."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.core.base import ClassifierMixin
from sklearn_bundle.core.certainty import CertainClassifier, KnownOptimum
from sklearn_bundle.core.contract import Resumable, SolverResult, Status, bound_below
from sklearn_bundle.core.fit import Certificates, CertifiedEstimator, fit_certified
from sklearn_bundle.core.misread import is_collection
from sklearn_bundle.core.parameters import RELATIVE_GAP, Names
from sklearn_bundle.core.sklearn_internals import Interval, SparseCoefMixin
from sklearn_bundle.core.validation import (
    ClassificationData,
    TrainingData,
    binary_targets,
    check_classification_data,
    check_prediction_data,
    checked_reg_lambda_of,
    names_of,
)
from sklearn_bundle.core.values import shown
from sklearn_bundle.core.warm import problem_fingerprint
from sklearn_bundle.linear.estimators._scores import lazily, lazy_accuracy
from sklearn_bundle.linear.problems.class_intercepts import MOST_CLASSES
from sklearn_bundle.linear.problems.linear import LinearProblem, Point
from sklearn_bundle.linear.problems.score_region import MeasuredRows, ScoreRegion, score_region

# Largest factor on a gap above tol that rounding of the weights may cost.
_LARGER_GAP = 1.001
DEFAULT_REG_LAMBDA = 1e-4  # of a regressor, for a target of spread one


class CertifiedLinear(SparseCoefMixin, KnownOptimum, CertifiedEstimator):
    """The parameters of all linear models, and the fingerprints of their problems.

    Entries that docstrings share:

    [reg_lambda]
    reg_lambda : float, default=None
        Regularization strength relative to the mean loss: try 1e-1 to 1e-5; larger is simpler. None
        means 1e-4, unless C is set.

    [mean_loss_C]
    C : float, default=None
        In place of `reg_lambda`: ``C = 1 / (W reg_lambda)``, with W the sum of the weights, n
        without any.
    """

    reg_lambda: float | None = None  # a parameter, except of searches
    C: float | None = None  # a parameter of some
    fit_intercept: bool

    reg_lambda_: float | NDArray[np.float64]
    coef_: NDArray[np.float64]  # after sparsify a CSR matrix, which the annotation omits
    intercept_: float | NDArray[np.float64]

    _region_kind = ScoreRegion
    _common_constraints: ClassVar[dict[str, list[Any]]] = {
        "reg_lambda": [Interval(Real, 0, None, closed="neither")],
        "tol": [RELATIVE_GAP],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "fit_intercept": ["boolean"],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }
    _cost_constraints: ClassVar[dict[str, list[Any]]] = {  # of estimators that take C too
        name: [Interval(Real, 0, None, closed="neither"), None] for name in ("reg_lambda", "C")
    }
    _advice: ClassVar[dict[Status, str]] = {
        Status.MAX_ITER: "Increase max_iter or tol, or reg_lambda; scaling the features helps too.",
        Status.MAX_TIME: "Increase max_time or tol, or reg_lambda.",
        Status.STALLED: "Rounding prevents further progress: center the features and scale them to "
        "similar sizes, or increase tol or reg_lambda.",
    }

    def _refuse_both(self) -> None:
        """Raise ValueError if reg_lambda and C are both set."""
        if self.C is not None and self.reg_lambda is not None:
            raise ValueError(
                f"reg_lambda={self.reg_lambda} and C={self.C} are both set, but C stands for "
                "reg_lambda = 1 / (C * sum of the weights): leave the other one at None."
            )

    def _strength(self, data: Any) -> float:
        """The reg_lambda that was given, or that C stands for, or the default."""
        if self.reg_lambda is not None:
            return self.reg_lambda
        return DEFAULT_REG_LAMBDA if self.C is None else checked_reg_lambda_of(self.C, data.total)

    @abstractmethod
    def _objective_at(self, problem: Any, point: Point) -> float:
        """J at a point with its own intercept."""

    def _singles(self, data: Any, w: Any, b: Any) -> tuple[Any, Any]:
        """Weights and intercept whose coefficients are of single precision."""
        return np.float32(w), np.float32(b)

    def _as_stored(self, data: Any, problem: Any, result: SolverResult) -> SolverResult:
        """The point in single precision if X is, unless `tol` is then missed.

        The bound holds for all points, so that only the objective changes.
        """
        if not isinstance(data, TrainingData) or data.X.dtype != np.float32:
            return result
        with np.errstate(over="ignore", invalid="ignore"):
            singles = self._singles(data, result.point, result.intercept)
            w, b = (np.asarray(value, dtype=np.float64) for value in singles)
            b = b if b.ndim else float(b)
            point = problem.point(w, b)
            point.intercept = b
            primal = self._objective_at(problem, point) + result.excess
        bound = bound_below(result.lower_bound, primal)
        allowed = self.tol * abs(primal)
        if result.status is not Status.CONVERGED:
            allowed = max(allowed, _LARGER_GAP * result.gap)
        # Rounded weights may have left the domain of the regularizer: the simplex, say.
        if not (np.isfinite(primal) and primal - bound <= allowed):
            return result
        history = result.history.copy()
        history["objective"] = np.maximum(history["objective"], primal)
        history["lower_bound"] = np.minimum(history["lower_bound"], bound)
        history["objective"][-1:], history["lower_bound"][-1:] = primal, bound
        point = {"point": w, "intercept": b, "primal": primal, "lower_bound": bound}
        return replace(result, **point, history=history)

    def _typed(self, data: Any, fitted: dict[str, Any]) -> dict[str, Any]:
        """``coef_`` and ``intercept_`` in single precision if X is, and no digit is lost."""
        if not isinstance(data, TrainingData) or data.X.dtype != np.float32:
            return fitted
        for name in ("coef_", "intercept_"):
            value = fitted.get(name)
            if isinstance(value, np.ndarray) and np.array_equal(np.float32(value), value):
                fitted[name] = value.astype(np.float32)
        return fitted

    def _region(self, problem: Any, result: SolverResult) -> ScoreRegion | None:
        """The region of the optimum's scores; None where the rows are elsewhere."""
        if result.region is not None:
            return result.region
        if not isinstance(problem, LinearProblem) or result.ball is None:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            return score_region(problem, result.ball, result.intercept)

    def _why_unknown(self) -> str:
        """What the fit would have to be like."""
        return (
            "that takes a strongly convex regularizer (as 'l2', 'elasticnet', Lp or Quadratic), "
            "rows in memory, and an intercept that is minimized for each row's own loss (with "
            f"'multiclass_hinge' of at most {MOST_CLASSES} classes, no costs as factors), or "
            f"fit_intercept=False. Here regularizer={shown(getattr(self, 'regularizer', 'l2'))}, "
            f"loss={shown(getattr(self, 'loss', 'hinge'))}, fit_intercept={self.fit_intercept}."
        )

    def _measured(self, X: Any) -> MeasuredRows:
        """X as bounds need it; a search has measured the rows that it holds out."""
        return X if isinstance(X, MeasuredRows) else MeasuredRows(check_prediction_data(self, X))

    def _intervals(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bounds of the scores, of shape (n_samples, n_outputs), one problem after the other."""
        regions = self._known_regions()
        X = self._measured(X)
        lows, highs = zip(*[region.intervals(X) for region in regions], strict=True)
        return np.concatenate(lows, axis=1), np.concatenate(highs, axis=1)

    @abstractmethod
    def _formulation(self) -> tuple[Any, ...]:
        """The objects that define the problem in addition to the data; the loss first."""

    def _released(self, solver: Any) -> Resumable | None:
        """None without a warm start: of many classes the solvers hold much more than the data."""
        return super()._released(solver) if self.warm_start else None

    def _fingerprint(self, data: TrainingData) -> tuple[Any, ...] | None:
        return problem_fingerprint(data, self._formulation(), self.fit_intercept)

    def _blas_threads(self, n_threads: int) -> int:
        """One thread: more would make the last bits depend on ``n_jobs``."""
        return 1

    def _scores(self, X: Any) -> np.ndarray:
        """``X coef_' + intercept_``."""
        return self._products(X) + self.intercept_

    def _products(self, X: Any) -> np.ndarray:
        """``X coef_'``, whether the coefficients are sparse or not."""
        check_is_fitted(self)
        X = check_prediction_data(self, X)
        products = safe_sparse_dot(X, self.coef_.T, dense_output=True)
        return products.ravel() if self._has_vector() else products

    def _has_vector(self) -> bool:
        """Whether ``coef_`` of the fitted model has shape (n_features,)."""
        return False

    def sparsify(self) -> Self:
        """Make ``coef_`` a sparse matrix in CSR format, as ``sparsify`` of scikit-learn does.

        This saves memory and prediction time if most coefficients are 0, as with L1. Predictions
        and pickles work as before; ``fit`` makes ``coef_`` an array again.

        Returns
        -------
        self : object
            With ``coef_`` of shape (1, n_features) if it was a vector.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        """
        check_is_fitted(self)
        if self._has_vector() and not sp.issparse(self.coef_):
            self.coef_ = self.coef_[None]  # the result for a vector would depend on scipy's version
        return super().sparsify()

    def densify(self) -> Self:
        """Make ``coef_`` an array again, with its shape before :meth:`sparsify`.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        """
        super().densify()
        if self._has_vector():
            self.coef_ = self.coef_.ravel()
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class CertifiedLinearClassifier(CertainClassifier, ClassifierMixin, Certificates, CertifiedLinear):
    """Two classes make one problem, more make one each, unless a subclass overrides this."""

    class_weight: dict[Any, float] | str | None

    classes_: np.ndarray
    intercept_: NDArray[np.float64]

    _common_constraints: ClassVar[dict[str, list[Any]]] = {
        **CertifiedLinear._common_constraints,
        "class_weight": [Names({"balanced"}), dict, None],
    }

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data. C-ordered arrays and CSR of float32 or float64 are used without a copy.
        y : array-like of shape (n_samples,)
            Labels of any type.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0. A weight of 2 counts as a repeated row, a weight of 0 as a missing one.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As listed for the class. Nothing is fitted then.
        """
        return fit_certified(self, X, y, sample_weight)

    def _check(self, X, y, sample_weight):
        self._refuse_both()
        return check_classification_data(self, X, y, sample_weight, self.class_weight)

    def _targets(self, data: ClassificationData) -> list[NDArray[np.float64]]:
        return binary_targets(data.labels, len(data.classes))

    def _names(self, classes: np.ndarray) -> list[str]:
        return names_of(classes)

    def _model(self, data, points):
        return {
            "classes_": data.classes,
            "coef_": np.array([w for w, _ in points]),
            "intercept_": np.array([np.ravel(b)[0] for _, b in points], dtype=np.float64),
        }

    def _decision_bounds(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        low, high = self._intervals(X)
        return (low.ravel(), high.ravel()) if low.shape[1] == 1 else (low, high)

    def _possible(self, X: Any) -> NDArray[np.bool_]:
        low, high = self._intervals(X)
        if low.shape[1] == 1:
            return np.column_stack([low[:, 0] <= 0.0, high[:, 0] > 0.0])
        return high >= low.max(axis=1, keepdims=True)

    @lazily
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores ``<w, x> + b``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            With two classes, positive if the second class is predicted.
        """
        scores = self._scores(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    @lazily
    def predict(self, X: Any) -> np.ndarray:
        """Labels with the largest score.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Elements of ``classes_``.
        """
        scores = self.decision_function(X)
        indices = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[indices]

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Any:
        """Accuracy of the predictions; for dask collections, a dask array that is not computed yet.

        Parameters
        ----------
        X : array-like, sparse matrix or dask collection of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        score : float, or dask array of shape ()
            Between 0 and 1.
        """
        if is_collection(X):
            return lazy_accuracy(self.predict, X, y, sample_weight)
        return super().score(X, y, sample_weight)


def best_thresholds(
    scores: NDArray[np.float64], grades: NDArray[np.intp], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Thresholds theta_1 <= ... of grades 0..K-1; grade k is predicted if k of them are below f.

    Each minimizes the weight of grades on its wrong side; together they minimize the weighted mean
    absolute error. They are midpoints between two scores, or one unit outside if all scores are on
    one side.
    """
    order = np.argsort(scores, kind="stable")
    scores, grades, weights = scores[order], grades[order].astype(np.intp), weights[order]
    last = np.r_[scores[1:] > scores[:-1], True]  # a threshold may follow
    values = scores[last]
    cuts = np.r_[values[0] - 1.0, 0.5 * (values[1:] + values[:-1]), values[-1] + 1.0]
    thresholds = []
    for k in range(1, grades.max() + 1):
        # a threshold after sample i is wrong for high grades up to i and low grades after it
        gain = np.r_[0.0, np.cumsum(np.where(grades < k, -weights, weights))[last]]
        thresholds.append(cuts[np.argmin(gain)])
    return np.maximum.accumulate(np.array(thresholds))
