"""The contract of an output structure: features, loss and inference."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import sparray
from sklearn.base import BaseEstimator

from sklearn_bundle.core.docs import Documented
from sklearn_bundle.linear.losses.multiclass import check_cost
from sklearn_bundle.structured.models.examples import Examples, ListedExamples

# Checked before any work; the error names all that are missing.
_REQUIRED = ("n_parameters", "joint_feature", "loss", "inference", "loss_augmented_inference")


class StructuredModel(Documented, BaseEstimator):
    """Base class of all models of structured outputs: derive your own from it.

    A model scores an output y of an input x by ``<w, phi(x, y)>``, and predicts an output of the
    highest score. Plain numpy is enough; x and y are the items of the lists given to `fit`. Five
    methods are required:

    * :meth:`n_parameters`: the length of w;
    * :meth:`joint_feature`: phi(x, y);
    * :meth:`loss`: l(y, y_hat), the cost of a mistake;
    * :meth:`inference`: the output of the highest score;
    * :meth:`loss_augmented_inference`: the same with the loss added to the score.

    The rest is optional. ``exact`` says whether the inferences find the highest score; if they may
    miss it, ``upper_bound(x, y, w)`` is needed to prove anything about a fit. ``scaling="slack"``
    needs ``slack_rescaled_inference(x, y, w)``. :meth:`nonnegative` lists nonnegative parameters,
    and :meth:`max_loss` gives the unit of `score`. Built-in models put compiled code into
    :meth:`examples`, and those of sequences, classes and sets of labels have no other method; a
    subclass of one that changes the inference must override it too.

    `fit` works on a clone, and first calls its :meth:`n_parameters` with all data: a model may keep
    what it learns there in attributes whose names end with an underscore. The other methods must
    not change the model, since they may be called from several threads at a time; w is read-only.
    Constructor parameters follow scikit-learn: stored unchanged, under their own names, and called
    ``model__name`` in a search.

    Raises
    ------
    TypeError
        If a required method is missing, or :meth:`n_parameters` returns no integer; by
        :meth:`examples`, and thus by `fit`.
    ValueError
        If a method returns an invalid value: a joint feature of the wrong length, a loss that is
        negative or not 0 for y itself, a nonfinite number, or an output worse than the true one
        although the model is exact. The message names the method and the example.

    See Also
    --------
    Multiclass : A model of classes.

    Examples
    --------
    Choosing one of several offers, each a row of features; x is a matrix, y the number of a row:

    >>> import numpy as np
    >>> from sklearn_bundle.models import StructuredModel
    >>> class Choice(StructuredModel):
    ...     def n_parameters(self, X, y):
    ...         return X[0].shape[1]
    ...
    ...     def joint_feature(self, x, y):
    ...         return x[y]
    ...
    ...     def loss(self, y, y_hat):
    ...         return y != y_hat
    ...
    ...     def inference(self, x, w):
    ...         return np.argmax(x @ w)
    ...
    ...     def loss_augmented_inference(self, x, y, w):
    ...         return np.argmax(x @ w + (np.arange(len(x)) != y))
    >>> offers = np.array([[1.0, 3.0], [2.0, 1.0], [0.0, 2.0]])
    >>> int(Choice().inference(offers, np.array([1.0, -1.0])))
    1
    >>> examples = Choice().examples([offers, offers[:2]], [1, 0], "margin")
    >>> examples.find(np.array([1.0, -1.0]), 0, 2).scores  # the second: 3 + loss
    array([0., 4.])
    """

    #: Whether the two inferences find a best output. If they may miss it, nothing is proved without
    #: ``upper_bound``.
    exact: bool = True

    _public_module = "sklearn_bundle.models"

    def n_parameters(self, X: list[Any], y: list[Any]) -> int:
        """Length of w, and of every joint feature: below 2^32.

        Parameters
        ----------
        X, y : list
            All inputs and their true outputs.

        Returns
        -------
        n_parameters : int
            The length.
        """
        raise NotImplementedError  # required: examples() says which are missing

    def joint_feature(self, x: Any, y: Any) -> ArrayLike | sparray:
        """Features of an input together with an output: phi(x, y).

        Parameters
        ----------
        x : object
            An input.
        y : object
            An output from the lists or from an inference.

        Returns
        -------
        phi : array-like of shape (n_parameters,)
            It may also be a sparse matrix or array of shape (1, n_parameters) or (n_parameters,).
        """
        raise NotImplementedError  # required: examples() says which are missing

    def loss(self, y: Any, y_hat: Any) -> float:
        """Cost of predicting y_hat for y: l(y, y_hat).

        Parameters
        ----------
        y : object
            The true output.
        y_hat : object
            Another output, from an inference.

        Returns
        -------
        loss : float
            At least 0, and 0 for y itself. In the unit of the scores with margin rescaling.
        """
        raise NotImplementedError  # required: examples() says which are missing

    def inference(self, x: Any, w: np.ndarray) -> Any:
        """An output of the highest ``<w, phi(x, y)>``.

        Parameters
        ----------
        x : object
            An input.
        w : ndarray of shape (n_parameters,)
            Parameters.

        Returns
        -------
        y : object
            The output.
        """
        raise NotImplementedError  # required: examples() says which are missing

    def loss_augmented_inference(self, x: Any, y: Any, w: np.ndarray) -> Any:
        """An output of the highest ``l(y, y_hat) + <w, phi(x, y_hat)>``.

        Parameters
        ----------
        x : object
            An input.
        y : object
            Its true output.
        w : ndarray of shape (n_parameters,)
            Parameters.

        Returns
        -------
        y_hat : object
            The output; the true one is allowed.
        """
        raise NotImplementedError  # required: examples() says which are missing

    # The following is optional.

    #: ``slack_rescaled_inference(x, y, w)`` -> an output of the highest ``l(y, y_hat) (1 + <w,
    #: phi(x, y_hat) - phi(x, y)>)``, for ``scaling="slack"``.
    slack_rescaled_inference: Any = None

    #: ``upper_bound(x, y, w)`` -> upper bound of ``l(y, y_hat) + <w, phi(x, y_hat)>`` over all
    #: y_hat (with slack rescaling, of ``l(y, y_hat) (1 + <w, phi(x, y_hat) - phi(x, y)>)``), for a
    #: model that is not exact.
    upper_bound: Any = None

    def nonnegative(self) -> ArrayLike:
        """Indices of the parameters that must not be negative; by default none.

        Called after :meth:`n_parameters`.

        Returns
        -------
        indices : array-like of int
            From 0 to n_parameters - 1, in any order.
        """
        return ()

    def max_loss(self, y: Any) -> float:
        """Divisor of the loss in `score`: usually the largest loss that y can have.

        Parameters
        ----------
        y : object
            A true output.

        Returns
        -------
        max_loss : float
            Positive; by default 1.
        """
        return 1.0

    def examples(self, X: Any, y: Any, scaling: str) -> Examples:
        """The data bound to the model, for solvers.

        By default they hold lists and call the methods above for one example after the other;
        models with compiled code override this method.

        Parameters
        ----------
        X, y : list
            Inputs and their true outputs.
        scaling : {"margin", "slack"}
            What the loss scales: the margin or the slack.

        Returns
        -------
        examples : Examples
            The object that finds worst outputs for a solver.

        Raises
        ------
        TypeError
            If a required method is missing.
        ValueError
            If a method returns an invalid value, or if no method finds outputs for this scaling.
        """
        kind = type(self)
        missing = [m for m in _REQUIRED if getattr(kind, m) is getattr(StructuredModel, m)]
        if missing:
            raise TypeError(
                f"{kind.__name__} must define {', '.join(missing)}: see StructuredModel."
            )
        return ListedExamples(self, X, y, scaling)


# ---- checks that models share -----------------------------------------------------------------


def check_size(model: StructuredModel, n_parameters: int, parts: str) -> None:
    """Refuse more parameters than 32-bit indices can tell apart."""
    if n_parameters >= 1 << 32:
        raise ValueError(
            f"{type(model).__name__} takes at most 2^32 - 1 parameters, but {parts} make "
            f"{n_parameters}."
        )


def checked_labels(y: Any, n: int, n_labels: int) -> NDArray[np.int64]:
    """The numbers of n labels."""
    labels = np.ascontiguousarray(y, np.int64)
    if labels.shape != (n,) or labels.min() < 0 or labels.max() >= n_labels:
        raise ValueError(
            f"y must hold {n} numbers of labels, from 0 to {n_labels - 1}, got an array of shape "
            f"{labels.shape} with {labels.min()} to {labels.max()}."
        )
    return labels


def cost_matrix(cost: ArrayLike | None, n_labels: int) -> NDArray[np.float64]:
    """Checked costs of predicting the label of the column for that of the row; by default 1."""
    check_cost(cost, n_labels)
    return 1.0 - np.eye(n_labels) if cost is None else np.ascontiguousarray(cost, np.float64)
