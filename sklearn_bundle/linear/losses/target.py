"""The target of a problem, as an estimator describes it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Target(NamedTuple):
    """The target of one problem, as checked by the estimator.

    Parameters
    ----------
    y : ndarray or None
        Labels in {-1, +1}; for a joint loss the numbers of the classes, from 0, each of them
        present; real targets of shape (n,) or (n, k); grades, relevances or pairs; None if there is
        no target.
    n_samples : int
        Rows of X.
    classes : sequence of length K, default=None
        For a joint loss: the labels, in the order of their numbers.
    group : array-like of shape (n_samples,), default=None
        A query id per sample.
    weights : ndarray of shape (n_samples,), default=None
        For losses of a group: the sample weights; None if all are equal.

    See Also
    --------
    Loss.prepare_target : Takes it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.losses import Ontology, Target
    >>> loss = Ontology([("animal", "cat"), ("animal", "dog"), ("plant", "oak")])
    >>> numbers = np.array([2, 0, 1, 0])
    >>> bound, y = loss.prepare_target(Target(numbers, 4, classes=["cat", "dog", "oak"]))
    >>> bound.n_outputs(y)
    5
    """

    y: Any
    n_samples: int
    classes: Any = None
    group: ArrayLike | None = None
    weights: NDArray[np.float64] | None = None
