"""What a fitted chain is asked: labels, probabilities, the best labellings, its weights.

The functions are for any estimator with ``classes_``, ``coef_``, ``transitions_``, ``intercept_``,
``start_``, ``end_`` and ``n_jobs``; :class:`ChainLabeller` is one that has probabilities.
"""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle._parallel import split_threads
from sklearn_bundle._values import shown
from sklearn_bundle._weights import check_sample_weight
from sklearn_bundle.estimators._sequences import (
    Sequences,
    check_labels,
    check_prediction_sequences,
    shaped,
)
from sklearn_bundle.models.chain import ChainModel, Weights


def bound_chain(estimator: BaseEstimator, X: Any) -> tuple[Sequences, ChainModel]:
    """Checked sequences, and what the fitted model says about them."""
    check_is_fitted(estimator)
    sequences = check_prediction_sequences(estimator, X)
    parts = (getattr(estimator, f"{name}_") for name in Weights._fields)
    _, n_threads = split_threads(estimator.n_jobs, 1)
    return sequences, ChainModel(sequences.X, sequences.lengths, Weights(*parts), n_threads)


def labels_like(estimator: BaseEstimator, sequences: Sequences, indices: NDArray[np.int64]) -> Any:
    """Labels of all tokens in the shape that X came in."""
    labels = shaped(estimator.classes_[indices], sequences)
    return labels if sequences.plain else [part.tolist() for part in labels]


def best_labellings(
    estimator: BaseEstimator, X: Any, n_best: int, *, normalised: bool
) -> list[list[tuple[Any, float]]]:
    """For each sequence up to ``n_best`` pairs of labels and log-probability, or score."""
    check_count("n_best", n_best)
    sequences, model = bound_chain(estimator, X)

    def labels(path: NDArray[np.int64]) -> Any:
        found = estimator.classes_[path].tolist()
        return found[0] if sequences.plain else found

    return [
        [(labels(path), float(value)) for path, value in zip(paths, values, strict=True)]
        for paths, values in model.several_best(n_best, normalised=normalised)
    ]


def heaviest_features(estimator: BaseEstimator, n: int) -> dict[Any, list[tuple[Any, float]]]:
    """For each label the features with the largest weights, by size."""
    check_is_fitted(estimator)
    check_count("n", n)
    names = getattr(estimator, "attribute_names_", getattr(estimator, "feature_names_in_", None))
    features = {}
    for label, row in zip(estimator.classes_.tolist(), estimator.coef_, strict=True):
        order = np.argsort(-np.abs(row), kind="stable")[:n]
        chosen = order if names is None else names[order]
        features[label] = list(zip(chosen.tolist(), row[order].tolist(), strict=True))
    return features


def check_count(name: str, value: Any) -> None:
    """ValueError unless it is an integer of at least 1."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {shown(value)}.")


class ChainLabeller(BaseEstimator):
    """Labels sequences, with probabilities."""

    def predict(self, X: Any) -> np.ndarray | list[list]:
        """The most probable labels of each sequence (Viterbi).

        Parameters
        ----------
        X : list of sequences, or array-like or sparse matrix of shape (n_samples, n_features)
            Data of the kind that was fitted. Attributes that `fit` has not seen are ignored.

        Returns
        -------
        y : list of lists of labels, or ndarray of shape (n_samples,)
            Shaped like X.
        """
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

    def predict_pairwise_marginals(self, X: Any) -> np.ndarray | list[NDArray[np.float64]]:
        """Probability of each two labels at tokens that follow one another.

        Parameters
        ----------
        X : list of sequences, or array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        probabilities : list of ndarray of shape (T_i - 1, n_classes, n_classes), or ndarray of \
                shape (n_samples, 0, n_classes, n_classes)
            Entry (t, j, k): label j at token t and label k at token t + 1.
        """
        sequences, model = bound_chain(self, X)
        pairs = model.pair_marginals()
        if sequences.plain:
            return pairs.reshape(len(sequences.lengths), 0, *pairs.shape[1:])
        return np.split(pairs, np.cumsum(sequences.lengths - 1)[:-1])

    def predict_log_proba(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        """Log-probability of whole sequences of labels.

        Parameters
        ----------
        X : list of sequences, or array-like or sparse matrix of shape (n_samples, n_features)
            Data.
        y : list of sequences of labels, or array-like of shape (n_samples,), default=None
            The labels in question. None are those that `predict` gives.

        Returns
        -------
        log_proba : ndarray of shape (n_sequences,)
            ``log p(y_i|x_i)``.

        Raises
        ------
        ValueError
            For labels that `fit` has not seen, or that do not fit to X.
        """
        sequences, model = bound_chain(self, X)
        labels = model.best_labels() if y is None else check_labels(self, sequences, y)
        return model.log_probabilities(labels.astype(np.int64, copy=False))

    def decode(self, X: Any, n_best: int = 1) -> list[list[tuple[Any, float]]]:
        """The most probable labellings of each sequence, with their log-probabilities.

        Parameters
        ----------
        X : list of sequences, or array-like or sparse matrix of shape (n_samples, n_features)
            Data.
        n_best : int, default=1
            How many, at least 1.

        Returns
        -------
        labellings : list of lists of (labels, log_probability)
            For each sequence up to `n_best` of them (there may be less in all), best first. For a
            two-dimensional X, labels are one label.

        Raises
        ------
        ValueError
            For an `n_best` that is not an integer of at least 1.
        """
        return best_labellings(self, X, n_best, normalised=True)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Share of tokens with the true label.

        Parameters
        ----------
        X : list of sequences, or array-like or sparse matrix of shape (n_samples, n_features)
            Data.
        y : list of sequences of labels, or array-like of shape (n_samples,)
            True labels, among those of `fit`.
        sample_weight : array-like of shape (n_sequences,), default=None
            Weights, one a sequence.

        Returns
        -------
        accuracy : float
            Between 0 and 1.

        Raises
        ------
        ValueError
            For labels that `fit` has not seen, or that do not fit to X.
        """
        sequences, model = bound_chain(self, X)
        labels = check_labels(self, sequences, y)
        weights = check_sample_weight(sample_weight, len(sequences.lengths))
        weights = np.repeat(weights, sequences.lengths)
        return float(np.average(model.best_labels() == labels, weights=weights))

    def heaviest_features(self, n: int = 10) -> dict[Any, list[tuple[Any, float]]]:
        """For each label the features with the largest weights, by size.

        Parameters
        ----------
        n : int, default=10
            How many a label.

        Returns
        -------
        features : dict of lists of (attribute, weight)
            By label. Attributes have the names of ``attribute_names_`` or ``feature_names_in_``,
            and else are columns of ``coef_``.

        Raises
        ------
        ValueError
            For an `n` that is not an integer of at least 1.
        """
        return heaviest_features(self, n)
