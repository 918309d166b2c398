"""What an output structure is: features, loss and inference. The one contract for models."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import sparray
from sklearn.base import BaseEstimator

from sklearn_bundle.models.examples import Examples


class StructuredModel(BaseEstimator):
    """Base of all models of structured outputs: derive one of your own from it.

    A model scores an output y of an input x by ``<w, phi(x, y)>``. It is written with five methods,
    in plain numpy; x and y are whatever stands in the lists that `fit` is given. `fit` works on a
    clone, and calls :meth:`n_parameters` of it first, with all data: a model may keep what it
    learns there in attributes whose names end with an underscore. Parameters of the constructor
    are scikit-learn's: ``model__name`` in a search.
    """

    #: Whether the two inferences find a best output. Where they may miss it nothing is proved,
    #: unless there is :meth:`upper_bound`.
    exact: bool = True

    def n_parameters(self, X: list, y: list) -> int:
        """Length of w, and of every joint feature."""
        raise NotImplementedError

    def joint_feature(self, x: Any, y: Any) -> ArrayLike | sparray:
        """phi(x, y): a vector of length `n_parameters`, or a sparse one."""
        raise NotImplementedError

    def loss(self, y: Any, y_hat: Any) -> float:
        """l(y, y_hat): what it costs to predict y_hat for y; at least 0, and 0 for y itself."""
        raise NotImplementedError

    def inference(self, x: Any, w: np.ndarray) -> Any:
        """An output of the highest ``<w, phi(x, y)>``."""
        raise NotImplementedError

    def loss_augmented_inference(self, x: Any, y: Any, w: np.ndarray) -> Any:
        """An output of the highest ``l(y, y_hat) + <w, phi(x, y_hat)>``."""
        raise NotImplementedError

    # What follows is optional.

    #: ``slack_rescaled_inference(x, y, w)`` -> an output of the highest ``l(y, y_hat) (1 + <w,
    #: phi(x, y_hat) - phi(x, y)>)``, for ``scaling="slack"``.
    slack_rescaled_inference: Any = None

    #: ``upper_bound(x, y, w)`` -> a number that no ``l(y, y_hat) + <w, phi(x, y_hat)>`` exceeds (in
    #: slack rescaling no ``l(y, y_hat) (1 + <w, phi(x, y_hat) - phi(x, y)>)``), for a model that is
    #: not exact.
    upper_bound: Any = None

    def nonnegative(self) -> ArrayLike:
        """Indices of the parameters that must not be negative, after `n_parameters`."""
        return ()

    def max_loss(self, y: Any) -> float:
        """What the loss is divided by in `score`: as a rule the largest that y can have."""
        return 1.0

    def examples(self, X: Any, y: Any, scaling: str) -> Examples:
        """The data bound to the model, for solvers: compiled batches override this."""
        from sklearn_bundle.models.listed import ListedExamples

        return ListedExamples(self, X, y, scaling)
