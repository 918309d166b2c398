"""What each solver of kernel machines needs of a problem: Protocols, as for linear models."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.kernel._compiled import lazy, tiles, whole
from sklearn_bundle.kernel.problems.l2svm import Certified
from sklearn_bundle.kernel.problems.l2tube import Tube

Array = NDArray[np.float64]


class SimplexProblem(Protocol):
    """``a'Ka`` over the unit simplex with ``K = M + diag(ridge)``, M by rows.

    Attributes
    ----------
    n : int
    ridge, diagonal : ndarray of shape (n,)
        What is added to the diagonal of M, and the diagonal of K.
    dtype : dtype
        The working precision: that of the rows of M.
    """

    n: int
    ridge: Array
    diagonal: Array
    dtype: np.dtype

    def fill(self, indices: np.ndarray, out: np.ndarray) -> None:
        """Write rows of M to ``out``, in the working precision."""
        ...

    def space(self, n_rows: int, width: int | None = None) -> np.ndarray:
        """Memory for rows, of n numbers or of ``width``."""
        ...

    def compiled(self) -> lazy.Source | None:
        """The source from which compiled steps compute rows themselves, or None."""
        ...

    def promote(self) -> None:
        """Work in double precision from now on."""
        ...

    def products(self, a: Array) -> Array:
        """``K a``, recomputed in float64."""
        ...

    def certify(self, *candidates: tuple) -> list[Certified]:
        """The certificates of models alpha, recomputed in float64, with their rounding errors.

        A candidate is ``(a, q, alpha)``: alpha is a multiple of a, and q is ``K a`` from rows in
        the working precision. ``(a, q, alpha, sizes, travel, spread)`` says that q comes from
        scores whose sums over both classes are ``sizes``, added up over changes of a whose sizes
        have the sum ``travel`` and the root of the sum of squares ``spread``.
        """
        ...

    def primal_value(self, a: Array, q: Array, value: float) -> float:
        """Objective of the model that belongs to a, with ``q = K a`` and ``value = a'q``."""
        ...


class BlockProblem(SimplexProblem, Protocol):
    """The same with scores of all points, and small squares of M.

    Attributes
    ----------
    y : ndarray of shape (n,), in {-1.0, 1.0}
    """

    y: Array

    def square(self, indices: np.ndarray, scale: Array, out: np.ndarray) -> None:
        """Write ``scale_i scale_j M_ij`` of some points to ``out``, and zeros to the rest of it.

        ``out`` has a multiple of 64 rows and columns, in the working precision.
        """
        ...

    def add_scores(self, coef: Array, indices: np.ndarray, scores: Array) -> None:
        """Add ``sum_c coef_c |y_i y_c M_ic|`` to the scores of all points i.

        c runs over ``indices``: those with the label 1 add to ``scores[0]``, the others to
        ``scores[1]``. The labels give the signs of M.
        """
        ...


class WholeProblem(BlockProblem, Protocol):
    """The same where compiled steps compute the rows of M that they need.

    Attributes
    ----------
    rounding_of_value, rounding_of_product : float
        Bounds on the errors of an entry of M in the working precision, from all its causes and
        from one more product.
    """

    rounding_of_value: float
    rounding_of_product: float

    def scaled_rows(self, tiled: tiles.Tiled | None) -> whole.Source:
        """What rows of M are computed from, scaled so that K has a diagonal of ones.

        ``tiled`` are the points, if they are known from a problem with the same ones.
        """
        ...

    def prove(self, alpha: Array, near: np.ndarray) -> Certified:
        """What the model alpha proves in float64; points that are not ``near`` have no loss."""
        ...


class DivisibleProblem(SimplexProblem, Protocol):
    """The same with subproblems of some of its points, all of which have a label.

    Attributes
    ----------
    y : ndarray of shape (n,), in {-1.0, 1.0}
    """

    y: Array

    def part(self, indices: np.ndarray) -> "DivisibleProblem":
        """The problem of some of the points, in the same precision."""
        ...

    def gram(self, out: np.ndarray, first: int) -> None:
        """Write all rows of M, of which the first are already there; ``out`` may be larger."""
        ...

    def rough_products(self, a: Array, rows: np.ndarray) -> Array:
        """Entries of ``K a`` at some points where a is 0, in the working precision."""
        ...


class TubeProblem(Protocol):
    """A kernel machine with squared losses outside a tube: see :class:`~.l2tube.L2Tube`."""

    n: int
    dtype: np.dtype
    C: Array
    tube: Tube
    cache_bytes: float

    @property
    def diagonal(self) -> Array:
        """k(x, x) of all points, with the intercept's part."""
        ...

    @property
    def values_kept(self) -> bool:
        """Whether products read kernel values from memory."""
        ...

    def promote(self) -> None:
        """Use kernel values in double precision from now on."""
        ...

    def block(self, rows: np.ndarray) -> np.ndarray:
        """Rows of the kernel matrix."""
        ...

    def scores(self, coef: Array) -> Array:
        """The scores of a function at all points, in the working precision."""
        ...

    def loss(self, scores: Array) -> float:
        """The sum of the losses."""
        ...

    def bound(self, coef: Array, scores: Array) -> float:
        """The bound that a dual point proves."""
        ...

    def certified_objective(self, coef: Array) -> tuple[float, float, Array]:
        """The objective in float64, a bound on how far rounding lowered it, and the scores."""
        ...

    def certified_bound(self, coef: Array) -> tuple[float, Array]:
        """The bound that a dual point proves despite rounding, and scores where it is not 0."""
        ...

    def is_indefinite(self, coef: Array, scores: Array) -> bool:
        """Whether this shows that the kernel is not positive semidefinite."""
        ...
