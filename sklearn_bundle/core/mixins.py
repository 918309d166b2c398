"""Methods that estimators of several families share: ``score``, and sparse coefficients."""

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn import base
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.core.misread import refuse_misread
from sklearn_bundle.core.validation import check_sample_weight, num_samples
from sklearn_bundle.core.values import as_numbers, require_y


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
