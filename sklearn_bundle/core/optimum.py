"""Scores of estimators, and what the gap of a fit says of the exact optimum's."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn import base
from sklearn.base import BaseEstimator
from sklearn.metrics import r2_score
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.core.validation import check_sample_weight, num_samples
from sklearn_bundle.core.values import as_numbers, refuse_misread, require_y


def checked_for_score(estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any) -> Any:
    """The weights of a score, None or checked; all may be 0, as in a fold of a search."""
    require_y(f"score of {type(estimator).__name__}", y)
    if sample_weight is None:
        return None
    return check_sample_weight(sample_weight, num_samples(X), all_zero=True)


class ClassifierMixin(base.ClassifierMixin):
    """scikit-learn's, with a check of y and of the weights of the score."""

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy of the predictions.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        score : float
            Between 0 and 1.
        """
        refuse_misread("y", y, dates=True)
        return super().score(X, y, checked_for_score(self, X, y, sample_weight))


class RegressorMixin(base.RegressorMixin):
    """scikit-learn's, with a check of y and of the weights of the score."""

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R^2 of the predictions, as scikit-learn's ``r2_score``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            True targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        score : float
            At most 1; the mean over several targets.
        """
        weights = checked_for_score(self, X, y, sample_weight)
        as_numbers("y", y)  # for an error that names y
        return super().score(X, y, weights)


class SparseCoefMixin:
    """``coef_`` as a sparse matrix, as scikit-learn's linear models have it."""

    coef_: Any
    _coef_is_vector = False  # before it became sparse

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
        if not sp.issparse(self.coef_):
            self._coef_is_vector = self.coef_.ndim == 1
            self.coef_ = sp.csr_matrix(np.atleast_2d(self.coef_))
        return self

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
        check_is_fitted(self)
        if sp.issparse(self.coef_):
            coef = self.coef_.toarray()
            self.coef_ = coef.ravel() if self._coef_is_vector else coef
        return self


Array = NDArray[np.float64]


def known_regions(model: Any, kind: type, why: str) -> list[Any]:
    """Where the scores of the optimum lie, one region per subproblem, as ``kind(*fields)``.

    ``why`` one may be missing, or say nothing, ends the error.
    """
    check_is_fitted(model)
    stored = vars(model).get("_regions", [None])
    regions = [None if fields is None else kind(*fields) for fields in stored]
    if not all(region is not None and region.is_known for region in regions):
        raise ValueError(
            f"The duality gap of this {type(model).__name__} bounds no scores of the optimum: {why}"
        )
    return regions


class BoundedDecisions(ABC):
    """Bounds of what ``decision_function``, or ``predict`` of a ranker, returns at the optimum."""

    @abstractmethod
    def _bounds(self, X: Any) -> tuple[Array, Array]:
        """Bounds in the shape of ``decision_function``."""

    def decision_bounds(self, X: Any) -> tuple[Array, Array]:
        """Bounds of the scores that the exact optimum gives to X.

        They belong to the exact minimum of the objective on the training data, and hold for any
        `X`. Their distance falls with the square root of `dual_gap_`: a `tol` of 1e-6 to 1e-9 makes
        them narrow. See :doc:`/user_guide/optimum`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        low, high : ndarray of the shape of ``decision_function(X)``
            The optimum's scores are between them.

        Raises
        ------
        ValueError
            If the gap bounds no scores, because the regularizer is not strongly convex (as "l1"),
            or because nothing is known of the best intercept.
        """
        return self._bounds(X)


class CertainDetector(BoundedDecisions):
    """Bounds of the scores, and labels of the optimum, for novelty detectors."""

    @abstractmethod
    def predict(self, X: Any) -> np.ndarray:
        """Labels -1 and +1."""

    def certain(self, X: Any) -> NDArray[np.bool_]:
        """Whether the predicted labels are those of the exact optimum.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        certain : ndarray of shape (n_samples,)
            True if the exact minimum of the objective predicts the same label. False if the gap is
            too large to say.

        Raises
        ------
        ValueError
            As :meth:`decision_bounds`.
        """
        (low, high), new = self._bounds(X), self.predict(X) < 0
        return np.where(new, high < 0.0, low >= 0.0)


class CertainClassifier(BoundedDecisions):
    """Bounds of the scores, labels and accuracy of the optimum, for classifiers."""

    classes_: np.ndarray

    @abstractmethod
    def _possible(self, X: Any) -> NDArray[np.bool_]:
        """Whether the optimum may predict a class, of shape (n_samples, n_classes)."""

    @abstractmethod
    def predict(self, X: Any) -> np.ndarray:
        """Labels."""

    def certain(self, X: Any) -> NDArray[np.bool_]:
        """Whether the predicted labels are those of the exact optimum.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        certain : ndarray of shape (n_samples,)
            True if the exact minimum of the objective predicts the same label. False if the gap is
            too large to say.

        Raises
        ------
        ValueError
            As :meth:`decision_bounds`.
        """
        possible, predicted = self._possible(X), self.predict(X)
        places = np.searchsorted(self.classes_, predicted)
        return possible[np.arange(len(places)), places] & (possible.sum(axis=1) == 1)

    def score_bounds(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> tuple[float, float]:
        """Bounds of the accuracy of the exact optimum.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Test data.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        low, high : float
            ``score`` of the exact optimum is between them. Rows whose label is not certain count
            against it in the first, and for it in the second.

        Raises
        ------
        ValueError
            As :meth:`decision_bounds`.
        """
        refuse_misread("y", y, dates=True)
        weights = checked_for_score(self, X, y, sample_weight)
        possible, y = self._possible(X), np.asarray(y).ravel()
        check_consistent_length(possible, y)
        return accuracy_bounds(possible, y[:, None] == self.classes_, weights)


def accuracy_bounds(
    possible: NDArray[np.bool_], true: NDArray[np.bool_], weights: Array | None
) -> tuple[float, float]:
    """Accuracies if all rows that may be wrong are, and if all that may be right are.

    Both matrices have a column per class, and ``true`` has at most one entry per row. NaN if all
    weights are 0.
    """
    right = (possible & true).any(axis=1)
    sure = right & (possible.sum(axis=1) == 1)
    shares = np.ones(possible.shape[0]) if weights is None else weights
    total = float(shares.sum())
    if not total > 0.0:
        return np.nan, np.nan
    return float(shares @ sure) / total, float(shares @ right) / total


class CertainRegressor(ABC):
    """Bounds of the predictions of the optimum and of their R^2, for regressors."""

    @abstractmethod
    def _bounds(self, X: Any) -> tuple[Array, Array]:
        """Bounds in the shape of ``predict``."""

    def predict_bounds(self, X: Any) -> tuple[Array, Array]:
        """Bounds of the predictions of the exact optimum.

        They belong to the exact minimum of the objective on the training data, and hold for any
        `X`. Their distance falls with the square root of `dual_gap_`. They say nothing of the
        distance between predictions and targets. See :doc:`/user_guide/optimum`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        low, high : ndarray of the shape of ``predict(X)``
            The optimum's predictions are between them.

        Raises
        ------
        ValueError
            If the gap bounds no scores, because the regularizer is not strongly convex (as "l1"),
            or because nothing is known of the best intercept.
        """
        return self._bounds(X)

    def score_bounds(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> tuple[float, float]:
        """Bounds of R^2 of the exact optimum.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Test data.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            True targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        low, high : float
            ``score`` of the exact optimum is between them.

        Raises
        ------
        ValueError
            As :meth:`predict_bounds`.
        """
        weights = checked_for_score(self, X, y, sample_weight)
        target = as_numbers("y", y)
        low, high = self._bounds(X)
        check_consistent_length(low, target)
        target = target.reshape(low.shape)
        worst, best = extreme_predictions(target, low, high, lambda y, p: np.abs(y - p))
        highest = float(r2_score(target, best, sample_weight=weights))
        if not np.isfinite(worst).all():
            return -np.inf, highest
        return float(r2_score(target, worst, sample_weight=weights)), highest


def extreme_predictions(
    y: Array, low: Array, high: Array, error: Callable[[Array, Array], Array]
) -> tuple[Array, Array]:
    """The predictions of largest and of least error between two bounds.

    ``error(y, prediction)`` is entry by entry, and grows with the distance on either side of y.
    """
    worst = np.where(error(y, low) >= error(y, high), low, high)
    return worst, np.clip(y, low, high)
