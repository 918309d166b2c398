"""Regularizers with a multiple of ``|w_j|`` per weight, whose models have exact zeros."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_bundle.core.values import as_float, as_numbers, shown
from sklearn_bundle.linear.regularizers.base import (
    Array,
    LassoForm,
    Regularizer,
    places,
    split_infinite,
)
from sklearn_bundle.linear.regularizers.quadratic import L2


class SparseNorm(Regularizer):
    """``Omega(w) = sum_j t_j |w_j| + r/2 ||w||^2``, with t and r given by ``lasso_form``.

    Its conjugate is ``sum_j max(|m_j| - t_j, 0)^2 / (2 r)``. For r = 0 this is 0 or infinity.
    """

    lasso_form: Any  # the t and r, a LassoForm

    def value(self, w) -> float:
        thresholds, ridge = self.lasso_form
        return float(np.sum(thresholds * np.abs(w))) + 0.5 * ridge * float(np.sum(w * w))

    def conjugate(self, m) -> float:
        thresholds, ridge = self.lasso_form
        beyond = np.maximum(np.abs(m) - thresholds, 0.0)
        if ridge == 0.0:
            return np.inf if np.any((beyond > 0.0) & (thresholds > 0.0)) else 0.0
        return 0.5 * float(np.sum(beyond * beyond)) / ridge

    def conjugate_gradient(self, m) -> Array:
        thresholds, ridge = self.lasso_form
        if ridge == 0.0:
            return np.zeros_like(m)
        return np.copysign(np.maximum(np.abs(m) - thresholds, 0.0) / ridge, m)

    def conjugate_curvature(self, m, planes) -> Array:
        thresholds, ridge = self.lasso_form
        if ridge == 0.0:
            return super().conjugate_curvature(m, planes)
        active = planes[:, np.abs(m) > thresholds]
        return active @ active.T / ridge

    def slope(self, w, direction) -> tuple[float, float]:
        thresholds, ridge = self.lasso_form
        moved = np.where(w == 0.0, np.abs(direction), np.sign(w) * direction)
        first = float(np.sum(thresholds * moved)) + ridge * float(np.sum(w * direction))
        return first, ridge * float(np.sum(direction * direction))


class L1(SparseNorm):
    """``Omega(w) = ||w||_1``; its conjugate is 0 if ``|m|_inf <= 1`` and infinity otherwise.

    If the conjugate is finite, w = 0 is a maximizer, and the only one that follows from m alone.
    Section 3.3.1 of [1]_.

    References
    ----------
    .. [1] Stephen Boyd, Lieven Vandenberghe: Convex optimization. Cambridge University Press, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.regularizers import L1
    >>> L1().value(np.array([3.0, -4.0]))
    7.0
    >>> L1().conjugate(np.array([0.5, -1.0])), L1().conjugate(np.array([0.5, -2.0]))
    (0.0, inf)
    """

    lasso_form = LassoForm(1.0, 0.0)

    @property
    def degree(self) -> float:
        return 1.0


class WeightedL1(SparseNorm):
    """``Omega(w) = sum_j weights_j |w_j|``: L1 with a weight per feature.

    Its conjugate is 0 if ``|m_j| <= weights_j`` for all j, and infinity otherwise. With k outputs,
    the sum of this over the outputs. A feature with a large weight enters the model late. Weights
    of ``1 / |v_j|``, with v a first estimate, give the adaptive lasso [1]_.

    Parameters
    ----------
    weights : array-like of shape (n_features,)
        Not negative, and one of them positive and finite: 0 is a feature that is not penalized,
        infinity one that gets the weight 0 in w.

    Raises
    ------
    ValueError
        If `weights` has the wrong length, or not these numbers; raised by `fit`, and by
        :meth:`bind`.

    References
    ----------
    .. [1] Hui Zou: The adaptive lasso and its oracle properties. Journal of the American
       Statistical Association 101 (2006), 1418-1429.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.regularizers import WeightedL1
    >>> WeightedL1([1.0, 10.0]).value(np.array([3.0, -4.0]))
    43.0
    """

    _n_features: int | None = None  # of one output, once it is bound

    def __init__(self, weights: ArrayLike):
        self.weights = weights

    def bind(self, n_features, dimension) -> Regularizer:
        weights = as_numbers("weights", self.weights).astype(np.float64)
        if weights.shape != (n_features,):
            raise ValueError(
                f"weights of WeightedL1 must have shape ({n_features},), one per feature; got "
                f"{shown(self.weights)} of shape {weights.shape}."
            )
        wrong = np.flatnonzero(~(weights >= 0.0))
        if len(wrong):
            raise ValueError(
                f"weights of WeightedL1 must not be negative; weights[{wrong[0]}] is "
                f"{weights[wrong[0]]}."
            )
        bound = copy(self)
        bound.excluded, weights = split_infinite(weights)
        if not weights.any():
            raise ValueError("weights of WeightedL1 must have one that is positive and finite.")
        bound.weights, bound._n_features = np.tile(weights, dimension // n_features), n_features
        return bound

    @property
    def unpenalized(self):
        return places(np.asarray(self.weights)[: self._n_features] == 0.0)

    @property
    def lasso_form(self) -> LassoForm:
        return LassoForm(np.asarray(self.weights, dtype=np.float64), 0.0)


class ElasticNet(SparseNorm):
    """``Omega(w) = l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2``.

    Its conjugate is ``sum_j max(|m_j| - l1_ratio, 0)^2 / (2 (1 - l1_ratio))``. The form is that of
    scikit-learn's ElasticNet, where ``alpha`` is reg_lambda. Among nearly equal features L1 selects
    one, and the elastic net uses their mean [1]_. ``l1_ratio=1`` is :class:`L1`, ``l1_ratio=0`` is
    :class:`L2`.

    Parameters
    ----------
    l1_ratio : float, default=0.5
        The share of L1, from 0 to 1.

    Raises
    ------
    ValueError
        If `l1_ratio` is not between 0 and 1; raised by `fit`, and by :meth:`bind`.

    References
    ----------
    .. [1] Hui Zou, Trevor Hastie: Regularization and variable selection via the elastic net.
       Journal of the Royal Statistical Society B 67 (2005), 301-320.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle.regularizers import ElasticNet
    >>> omega = ElasticNet(l1_ratio=0.5)
    >>> omega.value(np.array([3.0, -4.0]))
    9.75
    >>> omega.conjugate(np.array([0.5, 1.5])), omega.conjugate_gradient(np.array([0.5, 1.5]))
    (1.0, array([0., 2.]))
    """

    def __init__(self, l1_ratio: float = 0.5):
        self.l1_ratio = as_float(l1_ratio)

    @property
    def degree(self) -> float:
        """That of L1 if it is L1; otherwise that of ``||w||^2``, which large weights follow."""
        return 1.0 if self.l1_ratio == 1.0 else 2.0

    def bind(self, n_features, dimension) -> Regularizer:
        ratio = self.l1_ratio
        if not (isinstance(ratio, float) and 0.0 <= ratio <= 1.0):
            raise ValueError(
                f"l1_ratio of ElasticNet must be a number from 0 to 1; got {shown(self.l1_ratio)}."
            )
        if ratio in (0.0, 1.0):
            return L1() if ratio else L2()
        return ElasticNet(ratio)

    @property
    def strong_convexity(self) -> float:
        return 1.0 - self.l1_ratio

    @property
    def lasso_form(self) -> LassoForm:
        return LassoForm(self.l1_ratio, 1.0 - self.l1_ratio)
