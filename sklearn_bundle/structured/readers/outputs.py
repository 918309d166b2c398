"""Queries of a fitted structured SVM: outputs, costs, scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags, Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.chain.estimators._labeling import certain_labels
from sklearn_bundle.core.validation import check_sample_weight, normalized
from sklearn_bundle.structured.models.base import StructuredModel
from sklearn_bundle.structured.models.chain_structure import Chain
from sklearn_bundle.structured.models.classes import Multiclass
from sklearn_bundle.structured.models.multilabel import Multilabel
from sklearn_bundle.structured.models.segments import Segments
from sklearn_bundle.structured.readers.segment_reader import SegmentReader
from sklearn_bundle.structured.readers.structures import (
    MODELS,
    ChainReader,
    ClassReader,
    MultilabelReader,
    Reader,
    StructureReader,
)

_READERS: dict[type[StructuredModel], type[Reader]] = {
    Chain: ChainReader,
    Multiclass: ClassReader,
    Multilabel: MultilabelReader,
    Segments: SegmentReader,
}


def reader_of(model: Any) -> Reader:
    """The reader for this kind of model: that of its class or of the nearest base class."""
    kinds = [kind for kind in type(model).__mro__ if kind in _READERS]
    return _READERS[kinds[0]]() if kinds else StructureReader()


class OutputFinder(BaseEstimator):
    """Finds outputs with ``w_``, through the reader of ``model_``."""

    model: Any
    loss: str

    w_: NDArray[np.float64]
    model_: Any
    reg_lambda_: float

    # Which of these exist depends on the model.
    classes_: np.ndarray
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    transitions_: NDArray[np.float64]
    start_: NDArray[np.float64]
    end_: NDArray[np.float64]
    first_: NDArray[np.float64]
    last_: NDArray[np.float64]
    lengths_: NDArray[np.float64]
    pairs_: NDArray[np.float64]
    attribute_names_: np.ndarray

    def predict(self, X: Any) -> Any:
        """The outputs of the highest scores.

        Parameters
        ----------
        X : list of inputs
            Of the kind used in `fit`.

        Returns
        -------
        y : list of outputs
            For chains, labels in the shape of X; for models of classes, an ndarray of labels of
            shape (n_samples,).
        """
        check_is_fitted(self)
        return self._reader.predict(self, X)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """One minus the normalized loss: ``1 - sum_i s_i l_i(y_hat_i) / sum_i s_i L_i``.

        L_i is the model's ``max_loss(y_i)``. For a chain without `cost` this is the share of tokens
        with the true label, and for "multiclass" without `cost` the accuracy.

        Parameters
        ----------
        X : list of inputs
            Of the kind used in `fit`.
        y : list of outputs
            True outputs. Labels must be among those of `fit`.
        sample_weight : array-like of shape (n_examples,), default=None
            Weights s_i.

        Returns
        -------
        score : float
            At most 1; at least 0 if no loss is larger than the model's ``max_loss``.
        """
        check_is_fitted(self)
        losses, largest = self._reader.losses(self, X, y)
        weights = normalized(check_sample_weight(sample_weight, len(losses)))
        worst = float(weights @ largest)
        return 1.0 - float(weights @ losses) / worst if worst > 0.0 else 1.0

    @available_if(lambda self: hasattr(self._reader, "decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores ``<w, phi(x, y)>`` of the classes y, for models of classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes) or (n_samples,)
            With two classes the second score minus the first, as in scikit-learn.
        """
        check_is_fitted(self)
        return self._reader.decision_function(self, X)

    @available_if(lambda self: isinstance(self._reader, ChainReader))
    def certain(self, X: Any) -> Any:
        """Whether the predicted labels are those of the exact optimum, for chains.

        As :meth:`sklearn_bundle.SDCACRF.certain`: see :doc:`/user_guide/optimum`.

        Parameters
        ----------
        X : list of sequences, or array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        certain : list of ndarray of shape (T_i,), or ndarray of shape (n_samples,)
            True if the exact minimum of the objective predicts the same label. False if the gap is
            too large to say.

        Raises
        ------
        ValueError
            If there is no gap.
        """
        check_is_fitted(self)
        return certain_labels(self, X, self.reg_lambda_, self.model_.fit_intercept)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        if self._reader.is_classifier:
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags()
        return tags

    @property
    def _reader(self) -> Any:
        """Reader of the fitted model, or of the model to be fitted."""
        model = vars(self).get("model_", self.model)
        return reader_of(MODELS[model]() if isinstance(model, str) and model in MODELS else model)
