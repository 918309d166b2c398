"""Queries of a fitted chain: labels, probabilities, weights.

The functions work for any estimator with ``classes_``, ``coef_``, ``transitions_``, ``intercept_``,
``start_``, ``end_`` and ``n_jobs``; :class:`ChainLabeler` also has probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, chain, repeat
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.chain._compiled.decode import best_of_one
from sklearn_bundle.chain.model import ChainModel, Weights
from sklearn_bundle.chain.readers.features import places_of
from sklearn_bundle.chain.readers.sequences import (
    PerSequence,
    Sequences,
    check_labels,
    check_prediction_sequences,
    shaped,
)
from sklearn_bundle.core.optimum import SparseCoefMixin
from sklearn_bundle.core.parallel import split_threads
from sklearn_bundle.core.values import refuse_misread, require_y
from sklearn_bundle.metrics import token_accuracy_score

_ONE = np.ones(1)  # the value of attributes that are names


def bound_chain(estimator: BaseEstimator, X: Any) -> tuple[Sequences, ChainModel]:
    """Checked sequences, and the labelings and probabilities of the fitted model."""
    check_is_fitted(estimator)
    sequences = check_prediction_sequences(estimator, X)
    parts = (getattr(estimator, f"{name}_") for name in Weights._fields)
    _, n_threads = split_threads(estimator.n_jobs, 1)
    return sequences, ChainModel(sequences.X, sequences.lengths, Weights(*parts), n_threads)


def labels_like(estimator: BaseEstimator, sequences: Sequences, indices: NDArray[np.int64]) -> Any:
    """Labels of all tokens in the shape of X."""
    labels = shaped(estimator.classes_[indices], sequences)
    return labels if sequences.plain else PerSequence(part.tolist() for part in labels)


def certain_labels(estimator: BaseEstimator, X: Any, ridge: float, biased: bool) -> Any:
    """Whether labels are those of the exact optimum, in the shape of X.

    ``ridge / 2 ||w - w*||^2`` is at most the gap, by strong convexity; ``biased`` says whether the
    weights of biases are among w.
    """
    gap = estimator.dual_gap_
    if not (ridge > 0.0 and np.isfinite(gap)):
        raise ValueError(
            f"The duality gap of this {type(estimator).__name__} bounds no scores of the optimum: "
            "l1_ratio=1 leaves no strong convexity, or there is no lower bound."
        )
    radius = float(np.sqrt(2.0 * max(gap, 0.0) / ridge))
    sequences, model = bound_chain(estimator, X)
    return shaped(model.certain_labels(sequences.X, estimator.coef_, radius, biased), sequences)


def _names_of_features(estimator: BaseEstimator) -> np.ndarray:
    """Names of attributes or of columns of a data frame, or their numbers."""
    for names in ("attribute_names_", "feature_names_in_"):
        if hasattr(estimator, names):
            return getattr(estimator, names)
    return np.arange(estimator.coef_.shape[1])


def _of_one_sentence(fitted: Mapping[str, Any], X: Any) -> list | None:
    """Best labels of a single sentence of named attributes, without what a batch needs.

    None if X is anything else, or may be wrong: all else is for the readers to say.
    """
    if type(X) is not list or len(X) != 1 or type(X[0]) is not list or not X[0]:
        return None
    vocabulary, coef, tokens = fitted.get("_vocabulary"), fitted.get("coef_"), X[0]
    if vocabulary is None or type(coef) is not np.ndarray or not coef.flags.f_contiguous:
        return None
    kinds, values, n = set(map(type, tokens)), _ONE, len(tokens)
    if kinds != {list} and kinds != {dict}:
        return None
    names = list(chain.from_iterable(tokens))
    if names and set(map(type, names)) != {str}:
        return None
    if kinds == {dict}:
        given = list(chain.from_iterable(map(dict.values, tokens)))
        kinds = set(map(type, given))
        if not kinds <= {str, int, float, bool}:
            return None
        if kinds == {str}:
            names = map("%s:%s".__mod__, zip(names, given, strict=True))
        elif kinds:
            pairs = zip(names, given, strict=True)
            names = [f"{name}:{value}" if type(value) is str else name for name, value in pairs]
            values = np.array([1.0 if type(value) is str else value for value in given], np.float64)
            if not np.isfinite(values).all():
                return None
    columns = map(vocabulary.get, names, repeat(-1))
    places = np.array([*accumulate(map(len, tokens)), *columns], np.int64)
    parts = fitted["transitions_"], fitted["intercept_"], fitted["start_"], fitted["end_"]
    if best_of_one(coef.T, places, n, values, *parts) == -np.inf:
        return None
    return fitted["classes_"][places[:n]].tolist()


def _by_names(weights: Any, rows: list[Any], columns: list[Any]) -> Mapping[tuple[Any, Any], float]:
    """The nonzero entries of a matrix, by the names of row and column."""
    entries = sp.coo_array(weights)
    places = zip(entries.row.tolist(), entries.col.tolist(), strict=True)
    names = ((rows[i], columns[j]) for i, j in places)
    return MappingProxyType(dict(zip(names, entries.data.tolist(), strict=True)))


class ChainLabeler(SparseCoefMixin, BaseEstimator):
    """Labels sequences, with probabilities."""

    classes_: np.ndarray
    coef_: NDArray[np.float64]  # after sparsify a CSR matrix, which the annotation omits
    transitions_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    start_: NDArray[np.float64]
    end_: NDArray[np.float64]
    attribute_names_: np.ndarray  # for dicts and strings
    n_features_in_: int

    def sparsify(self) -> Self:
        """Keep only the nonzero weights in ``coef_``; there are few with `l1_ratio` above 0.

        ``coef_`` becomes a sparse matrix in CSR format. Named attributes (of dicts and of strings)
        without a nonzero weight are removed from ``attribute_names_``, the columns of ``coef_`` and
        ``n_features_in_``. Predictions stay the same, and pickles are as small as the model.
        ``fit`` makes an array of all weights again.

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
        if hasattr(self, "attribute_names_"):
            coef = sp.csc_array(self.coef_)
            coef.eliminate_zeros()
            used = np.flatnonzero(np.diff(coef.indptr))
            self.coef_ = coef[:, used]
            self.attribute_names_ = names = self.attribute_names_[used]
            self.n_features_in_ = len(names)
            self._vocabulary = places_of(names)
        return super().sparsify()

    @property
    def state_features_(self) -> Mapping[tuple[Any, Any], float]:
        """Weights of attributes with labels, ``{(attribute, label): weight}``, read-only."""
        check_is_fitted(self)
        names = _names_of_features(self).tolist()
        return _by_names(sp.csr_array(self.coef_.T), names, self.classes_.tolist())

    @property
    def transition_features_(self) -> Mapping[tuple[Any, Any], float]:
        """Weights of pairs of successive labels, ``{(from, to): weight}``, read-only."""
        check_is_fitted(self)
        labels = self.classes_.tolist()
        return _by_names(self.transitions_, labels, labels)

    def predict(self, X: Any) -> np.ndarray | list[list[Any]]:
        """The most probable labels of each sequence (Viterbi).

        Parameters
        ----------
        X : list of sequences, or array-like or sparse matrix of shape (n_samples, n_features)
            Data of the kind used in `fit`. Attributes that `fit` has not seen are ignored.

        Returns
        -------
        y : list of lists of labels, or ndarray of shape (n_samples,)
            Shaped like X. numpy treats such a list as a vector of objects, the inner lists.
        """
        labels = _of_one_sentence(vars(self), X)
        if labels is not None:
            return PerSequence((labels,))
        sequences, model = bound_chain(self, X)
        return labels_like(self, sequences, model.best_labels())

    def predict_marginals(self, X: Any) -> np.ndarray | list[NDArray[np.float64]]:
        """Probability of each label at each token.

        Parameters
        ----------
        X : list of sequences, or array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        probabilities : list of ndarray of shape (T_i, n_classes), or ndarray of shape \
                (n_samples, n_classes)
            Columns as in ``classes_``.
        """
        sequences, model = bound_chain(self, X)
        return shaped(model.marginals(), sequences)

    def predict_log_proba(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        """Log-probability of whole sequences of labels.

        Parameters
        ----------
        X : list of sequences, or array-like or sparse matrix of shape (n_samples, n_features)
            Data.
        y : list of sequences of labels, or array-like of shape (n_samples,), default=None
            The labels. None means those that `predict` returns.

        Returns
        -------
        log_proba : ndarray of shape (n_sequences,)
            ``log p(y_i|x_i)``.

        Raises
        ------
        ValueError
            For labels that `fit` has not seen, or that do not match X.
        """
        sequences, model = bound_chain(self, X)
        labels = model.best_labels() if y is None else check_labels(self, sequences, y)
        return model.log_probabilities(labels.astype(np.int64, copy=False))

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Share of tokens with the true label.

        Parameters
        ----------
        X : list of sequences, or array-like or sparse matrix of shape (n_samples, n_features)
            Data.
        y : list of sequences of labels, or array-like of shape (n_samples,)
            True labels. Labels that `fit` has not seen count as wrong in every prediction.
        sample_weight : array-like of shape (n_sequences,), default=None
            Weights, one per sequence.

        Returns
        -------
        accuracy : float
            Between 0 and 1.

        Raises
        ------
        ValueError
            For labels that do not match X.
        """
        require_y(type(self).__name__, y)
        refuse_misread("y", y, dates=True)
        return token_accuracy_score(y, self.predict(X), sample_weight=sample_weight)
