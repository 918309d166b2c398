"""What an output structure is: features, loss and inference. The one contract for models."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import sparray
from sklearn.base import BaseEstimator

from sklearn_bundle._pages import Documented
from sklearn_bundle.models.examples import Examples

# A model without one of these is refused with the names of all that are missing, before any work.
_REQUIRED = ("n_parameters", "joint_feature", "loss", "inference", "loss_augmented_inference")


class StructuredModel(Documented, BaseEstimator):
    """Base of all models of structured outputs: derive one of your own from it.

    A model scores an output y of an input x by ``<w, phi(x, y)>``, and predicts an output of the
    highest score. It is written in plain numpy; x and y are whatever stands in the lists that `fit`
    is given. Five methods are required:

    * :meth:`n_parameters`: the length of w;
    * :meth:`joint_feature`: phi(x, y);
    * :meth:`loss`: l(y, y_hat), what a mistake costs;
    * :meth:`inference`: the output of the highest score;
    * :meth:`loss_augmented_inference`: the same with the loss added to the score.

    The rest is optional. ``exact`` says whether the inferences find the highest; a model where they
    may miss it can have ``upper_bound(x, y, w)``, without which nothing is proved about a fit.
    ``slack_rescaled_inference(x, y, w)`` is what ``scaling="slack"`` needs, and
    ``expected_features(x, w)`` what ``loss="log"`` needs. :meth:`nonnegative`
    names parameters with a sign, :meth:`max_loss` gives `score` its unit, and :meth:`examples` is
    where a built-in model puts compiled code; so a class derived from a built-in model must replace
    it too if it changes what is inferred.

    `fit` works on a clone, and calls :meth:`n_parameters` of it first, with all data: a model may
    keep what it learns there in attributes whose names end with an underscore. The other methods
    must not change the model, as they may be called from several threads at a time; w is read-only.
    Parameters of the constructor are scikit-learn's: stored as they came, under their own names,
    ``model__name`` in a search.

    Raises
    ------
    TypeError
        If a required method is missing; by :meth:`examples`, and so by `fit`.
    ValueError
        With the method's name and the example's number if a method returns what it must not: a
        joint feature of another length, a loss that is negative or not 0 for y itself, what is not
        a finite number, or an output that is worse than the true one though the model is exact.

    See Also
    --------
    Multiclass, Ontology : Models of classes.

    Examples
    --------
    To choose one of several offers, each a row of features; x is a matrix, y the number of a row:

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
    >>> examples.find(np.array([1.0, -1.0]), 0, 2).scores  # the second is 3 and the loss too high
    array([0., 4.])
    """

    #: Whether the two inferences find a best output. Where they may miss it nothing is proved,
    #: unless there is ``upper_bound``.
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
            An output, as the lists or the inferences give it.

        Returns
        -------
        phi : array-like of shape (n_parameters,)
            Or any sparse matrix or array of shape (1, n_parameters) or (n_parameters,).
        """
        raise NotImplementedError  # required: examples() says which are missing

    def loss(self, y: Any, y_hat: Any) -> float:
        """What it costs to predict y_hat for y: l(y, y_hat).

        Parameters
        ----------
        y : object
            The true output.
        y_hat : object
            Another one, as the inferences give it.

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

    # What follows is optional.

    #: ``slack_rescaled_inference(x, y, w)`` -> an output of the highest ``l(y, y_hat) (1 + <w,
    #: phi(x, y_hat) - phi(x, y)>)``, for ``scaling="slack"``.
    slack_rescaled_inference: Any = None

    #: ``upper_bound(x, y, w)`` -> a number that no ``l(y, y_hat) + <w, phi(x, y_hat)>`` exceeds (in
    #: slack rescaling no ``l(y, y_hat) (1 + <w, phi(x, y_hat) - phi(x, y)>)``), for a model that is
    #: not exact.
    upper_bound: Any = None

    #: ``expected_features(x, w)`` -> ``log sum_y exp <w, phi(x, y)>`` over all outputs y, and the
    #: mean of phi(x, y) with the probabilities ``exp <w, phi(x, y)>`` over that sum: a number and a
    #: vector as :meth:`joint_feature` returns it, for ``loss="log"``.
    expected_features: Any = None

    def nonnegative(self) -> ArrayLike:
        """Indices of the parameters that must not be negative; by default none.

        Asked for after :meth:`n_parameters`.

        Returns
        -------
        indices : array-like of int
            From 0 to n_parameters - 1, in any order.
        """
        return ()

    def max_loss(self, y: Any) -> float:
        """What the loss is divided by in `score`: as a rule the largest that y can have.

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

        By default lists, and the methods above called for one example after the other; the models
        with compiled code override it.

        Parameters
        ----------
        X, y : list
            Inputs and their true outputs.
        scaling : {"margin", "slack"}
            What the loss scales.

        Returns
        -------
        examples : Examples
            What a solver asks for worst outputs.

        Raises
        ------
        TypeError
            If a required method is missing.
        ValueError
            If a method returns what it must not, or none finds outputs for this scaling.
        """
        from sklearn_bundle.models.listed import ListedExamples

        kind = type(self)
        missing = [m for m in _REQUIRED if getattr(kind, m) is getattr(StructuredModel, m)]
        if missing:
            raise TypeError(
                f"{kind.__name__} must define {', '.join(missing)}: see StructuredModel."
            )
        return ListedExamples(self, X, y, scaling)
