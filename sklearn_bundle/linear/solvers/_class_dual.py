"""Dual coordinate ascent on a multiclass linear problem: sweeps, balancing, planes.

The dual of ``reg_lambda/2 ||W||^2 + sum_i s_i max_k (f_ik - f_iy + Delta(y_i, k))`` at an alpha of
shape (n, K), whose rows are on the simplex: Crammer and Singer's, section 3 of Keerthi,
Sundararajan, Chang, Hsieh and Lin (2008). ``W = X'S(Y - alpha) / reg_lambda``, Y the indicators.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.contract import ABSENT
from sklearn_bundle.core.dual_methods import momentum
from sklearn_bundle.core.limits import TINY
from sklearn_bundle.jit.vector import WIDTH
from sklearn_bundle.linear._compiled import classes
from sklearn_bundle.linear.losses.multiclass import dual_hinge
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.rows import RowOperator

Array = NDArray[np.float64]

# How far a step moves the intercepts, relative to its row's own scores. 0.02 to 0.05 needed the
# fewest sweeps on standardized sets; with larger values rows disturb each other.
_PULL = 0.05
_LEAST_PULL = 0.1  # of the largest cost: if the weights can do little, the intercepts must move
_SEED = 88172645463325252  # of Marsaglia's xorshift; any number but 0 would do
# Entries of a dense row from which one dot product per class is faster than a sum of rows of W:
# a step changes only two or three classes.
_WIDE = 48
# The running mean of dual points: the m-th one gets the weight 2 / (m + 1), and at least a tenth,
# which is a memory of ten sweeps.
_RECENT, _LEAST_SHARE = 2.0, 0.1
_DRAWN_SHARE = 0.5  # of the newest W and intercepts in their means, if a center moves
_PAD = -1e300  # cost of the classes that fill the last vector: never the largest


class Sweep(NamedTuple):
    """Results of a sweep: the rows' parts of the duality gap, and the gain of the dual.

    ``share`` is the share of the rows that it visited.
    """

    gap: float
    gained: float
    share: float


class ClassPlane(NamedTuple):
    """The cutting plane of a dual point alpha, and the ``reg_lambda W`` of alpha.

    The plane is that of the balanced alpha; W is that of alpha itself.
    """

    gradient: Array
    offset: float
    scaled_weights: Array


@dataclass
class _Mean:
    """Running means, their count, and how far each row has followed: inactive rows lag behind."""

    alpha: Array
    intercepts: Array
    size: int
    stamps: Array
    stamp: float


@dataclass
class _Center:
    """Center of a proximal term ``kappa/2 ||W - Z||^2``: Z, W at its last move, running means."""

    kappa: float
    Z: Array
    last: Array
    mean: Array
    intercepts: Array


class ClassAscent:
    """The dual at a point alpha, one distribution over the classes per row.

    Free intercepts require ``sum_i s_i (alpha_ik - [k = y_i]) = 0`` for every class k, which no
    single step preserves. Each is instead a coordinate with a quadratic term around a center, which
    follows it after every sweep (the method of multipliers).

    With a proximal term ``kappa/2 ||W - Z||^2`` the steps are those of its dual in the same alpha:
    ``W = (X'S(Y - alpha) + kappa Z) / (reg_lambda + kappa)``. Planes are those of the problem
    without it.

    Parameters
    ----------
    problem : LinearProblem
        Its loss is a :class:`~.multiclass.MulticlassHinge` with dual steps.
    reg_lambda : float
    alpha : ndarray of shape (n, K), default=None
        The starting point; the labels by default.

    Attributes
    ----------
    n_active : int
        Rows that the next sweep visits.
    """

    def __init__(self, problem: LinearProblem, reg_lambda: float, alpha: Array | None = None):
        rows, weights, loss = problem.rows, problem.weights, dual_hinge(problem.loss)
        assert loss is not None
        n, n_classes, free = problem.n_samples, problem.n_outputs, problem.n_free > 0
        self._free, self._lambda, self._weights = free, reg_lambda, weights
        self._labels = problem.target.astype(np.int64)
        self._own = np.arange(n), self._labels
        self._n_classes = n_classes
        self._k = -(-n_classes // WIDTH) * WIDTH
        self._costs = np.full((n_classes, self._k), _PAD)
        self._costs[:, :n_classes] = loss.costs(n_classes)
        self._squares = rows.squared_norms()
        squares = self._squares / reg_lambda
        least = _LEAST_PULL * float(self._costs.max())
        self._pull = max(_PULL * float(weights @ squares), least) if free else 0.0
        self._center: _Center | None = None
        self._set_curvatures()
        self._of_class = sp.csr_array((weights, (self._labels, np.arange(n))), (n_classes, n))
        self._alpha = np.zeros((n, self._k))
        if alpha is None:
            self._alpha[self._own] = 1.0
        else:
            self._alpha[:, :n_classes] = alpha
        index = np.int32 if n < 2**31 else np.int64
        self._order = np.empty(n, dtype=index)
        self._active = np.empty(n, dtype=index)
        self._mean: _Mean | None = None
        self._seed = np.array([_SEED], dtype=np.uint64)
        self._space = np.zeros((2, self._k))
        self._b, self._off = np.zeros((2, self._k))
        self._passed = 0.0  # parts of passes that are not counted yet
        self._W: Array = ABSENT  # until :meth:`begin`, as the next one
        self._label_sums: Array = ABSENT  # X'SY, of shape (K, d), if there are intercepts
        self.attach(rows)
        self._by_class = self._stored.width >= _WIDE
        self._filled = self._blocks()
        self._listed = np.empty((n if self._by_class else 0, n_classes + 1), dtype=np.int32)
        self.activate_all()

    def attach(self, rows: RowOperator) -> None:
        """Continue with the same rows in another object."""
        self._rows, self._stored = rows, rows.stored()

    def detach(self) -> None:
        """Release the rows."""
        self._rows = self._stored = ABSENT

    @property
    def alpha(self) -> Array:
        """The dual point, a copy of shape (n, K)."""
        return self._alpha[:, : self._n_classes].copy()

    @property
    def intercepts(self) -> Array:
        """The intercepts of :meth:`newest`, of shape (K,), or of :meth:`drawn`."""
        b = self._b if self._mean is None else self._mean.intercepts
        if self._center is not None:
            b = self._center.intercepts
        return b[: self._n_classes].copy()

    @property
    def is_whole(self) -> bool:
        """Whether the next sweep visits all rows."""
        return self.n_active == len(self._order)

    def begin(self, intercepts: Array | None) -> None:
        """Make the working W. Alpha may be of another reg_lambda: it is scaled to the best dual."""
        K, d = self._n_classes, self._rows.shape[1]
        self._W = np.zeros(d * (K if self._by_class else self._k))
        if self._free:
            self._label_sums = self._rows.gradient(self._labeled(0.0)).reshape(K, d)
        alpha = self.alpha
        if (alpha[self._own] != 1.0).any():
            plane = self.plane(alpha)
            square = max(float(np.sum(plane.scaled_weights**2)), TINY)
            share = min(self._lambda * self._offset(self._of_class @ alpha) / square, 1.0)
            alpha *= share
            alpha[self._own] += 1.0 - share
            self.restart(alpha, share * plane.scaled_weights)
        if self._free and intercepts is not None:
            self._b[:K] = intercepts

    def sweep(self) -> Sweep:
        """Take a step for each active row, in random order; one reading of rows is two passes."""
        taken, before = self.n_active, self._b.copy()
        self.n_active, gap, gained = classes.sweep(
            *self._stored,
            self._labels,
            self._costs,
            self._numbers,
            self._active,
            taken,
            self._order,
            self._alpha.reshape(-1),
            self._listed,
            *self._filled,
            self._W,
            self._b,
            1.0 / self._strength,
            self._pull,
            self._space,
            self._seed,
        )
        self._off += self._b - before
        self._b += self._off
        self._average(self._order[:taken])
        share = taken / len(self._order)
        self._passed += 2.0 * share
        whole = int(self._passed)
        self._rows.passes += whole
        self._passed -= whole
        return Sweep(gap, gained, share)

    def activate_all(self) -> None:
        """Let the next sweep visit all rows, and all classes of each."""
        if self._mean is not None:
            self._catch_up(self._mean)
        self.n_active = len(self._order)
        self._active[:] = np.arange(self.n_active)
        self._listed[:] = np.arange(self._n_classes + 1)  # the last number is their count

    def start_mean(self) -> None:
        """From now on :meth:`newest` is a running mean of alpha, and so are the intercepts."""
        stamps = np.zeros(len(self._order))
        self._mean = _Mean(self._alpha.copy(), self._b.copy(), 1, stamps, 0.0)

    def newest(self) -> Array:
        """Alpha, or its running mean if there is one; each row sums to one."""
        alpha = self.alpha
        if self._mean is not None:
            mean = replace(
                self._mean, alpha=self._mean.alpha.copy(), stamps=self._mean.stamps.copy()
            )
            self._catch_up(mean)
            alpha = mean.alpha[:, : self._n_classes]
        alpha /= alpha.sum(axis=1, keepdims=True)
        return alpha

    def plane(self, alpha: Array) -> ClassPlane:
        """The plane of a dual point, balanced if there are intercepts: a product with X'."""
        coefs = self._labeled(-self._weights[:, None] * alpha)
        scaled_weights = self._rows.gradient(coefs).reshape(self._n_classes, -1)
        confusions = self._of_class @ alpha
        if not self._free:
            return ClassPlane(
                -scaled_weights.ravel(), self._offset(confusions), scaled_weights.ravel()
            )
        balance = balancing(confusions)
        gradient = balance.T @ (self._label_sums - scaled_weights) - self._label_sums
        return ClassPlane(
            gradient.ravel(), self._offset(confusions @ balance), scaled_weights.ravel()
        )

    def restart(self, alpha: Array, scaled_weights: Array) -> None:
        """Continue from a dual point with its ``reg_lambda W`` and the current intercepts."""
        K = self._n_classes
        if self._mean is not None:
            self._b[:K], self._mean = self.intercepts, None
        self._alpha[:, :K] = alpha
        w = scaled_weights.reshape(K, -1) / self._strength
        if self._by_class:
            self._W[:] = w.ravel()
        else:
            self._W.reshape(-1, self._k)[:, :K] = w.T
        if self._center is not None:
            self._W += self._center.kappa / self._strength * self._center.Z
        confusions = self._of_class @ alpha
        self._off[:K] = self._pull * (confusions.sum(axis=1) - confusions.sum(axis=0))

    @property
    def is_long(self) -> bool:
        """Whether a sweep over all rows reads as many entries as there are columns, or more."""
        return self._stored.data.size >= self._rows.shape[1]

    def add_proximal_term(self, kappa: float) -> None:
        """From now on the problem has a proximal term, around the current W."""
        self._mean = None
        W = self._W
        self._center = _Center(kappa, W.copy(), W.copy(), W.copy(), self._b.copy())
        W *= self._lambda / self._strength
        W += kappa / self._strength * self._center.Z
        self._set_curvatures()
        self.activate_all()

    def remove_proximal_term(self) -> None:
        """Remove the proximal term; :meth:`restart` must follow."""
        self._center = None
        self._set_curvatures()

    def move_center(self) -> None:
        """Move Z to W and a step beyond."""
        center = self._center
        assert center is not None
        Z = self._W + momentum(self._lambda, center.kappa) * (self._W - center.last)
        center.last[:] = self._W
        self._W += center.kappa / self._strength * (Z - center.Z)
        center.Z = Z

    def follow(self) -> float:
        """Update the running means of W and intercepts; returns the center's part of the gap.

        It is ``reg_lambda/2`` times the squared distance of W to the W of alpha.
        """
        center = self._center
        assert center is not None
        center.mean += _DRAWN_SHARE * (self._W - center.mean)
        center.intercepts += _DRAWN_SHARE * (self._b - center.intercepts)
        away = self._W - center.Z
        return 0.5 * center.kappa**2 / self._lambda * float(away @ away)

    @property
    def proximal_mean(self) -> Array | None:
        """The running mean of W if there is a proximal term, as a vector."""
        if self._center is None:
            return None
        mean = self._center.mean
        if self._by_class:
            return mean.copy()
        return mean.reshape(-1, self._k)[:, : self._n_classes].T.flatten()

    @property
    def _strength(self) -> float:
        return self._lambda + (0.0 if self._center is None else self._center.kappa)

    def _set_curvatures(self) -> None:
        curvatures = self._squares / self._strength + self._pull
        self._numbers = np.column_stack([self._weights, self._weights * curvatures]).ravel()

    def _average(self, rows: NDArray[np.integer]) -> None:
        mean = self._mean
        if mean is None:
            return
        mean.size += 1
        newest = max(_RECENT / (mean.size + _RECENT - 1), _LEAST_SHARE)
        mean.stamp += math.log1p(-newest)
        alphas = self._alpha.reshape(-1), self._k, newest, mean.alpha.reshape(-1)
        classes.follow(rows, *alphas, mean.stamps, mean.stamp)
        mean.intercepts += newest * (self._b - mean.intercepts)

    def _blocks(self) -> tuple[NDArray[np.int64], NDArray[np.unsignedinteger]]:
        """The blocks of entries of each wide row, as compiled sweeps read them."""
        data, width = self._stored.data, self._stored.width
        n, count = (len(self._order), width // WIDTH) if self._by_class else (0, 0)
        starts = np.zeros(n + 1, dtype=np.int64)
        blocks = np.empty(n * count, dtype=np.uint16 if count < 2**16 else np.uint32)
        if n:
            classes.filled(data, n, width, starts, blocks)
        return starts, blocks

    def _catch_up(self, mean: _Mean) -> None:
        """Update inactive rows of the mean as well, with the alpha at which they stay."""
        alphas = self._alpha.reshape(-1), self._k, mean.alpha.reshape(-1)
        classes.catch_up(*alphas, mean.stamps, mean.stamp)

    def _labeled(self, coefs: Array | float) -> Array:
        """``coefs + SY``, shape (n, K)."""
        out = np.zeros((len(self._labels), self._n_classes))
        out += coefs
        out[self._own] += self._weights
        return out

    def _offset(self, confusions: Array) -> float:
        """The offset of the plane of an alpha, from the sums of s alpha, with a row per label."""
        return float(np.sum(confusions * self._costs[:, : self._n_classes]))


def balancing(confusions: Array) -> Array:
    """M with rows on the simplex, such that the columns of ``confusions M`` have the rows' sums.

    The surplus of each class goes to those that have too little, in proportion to their lack.
    """
    have, want = confusions.sum(axis=0), confusions.sum(axis=1)
    surplus, lack = np.maximum(have - want, 0.0), np.maximum(want - have, 0.0)
    moved = surplus / np.maximum(have, TINY)
    return np.diag(1.0 - moved) + np.outer(moved, lack / max(float(lack.sum()), TINY))
