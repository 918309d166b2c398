"""The smoothed risk of a loss of one score at a point that moves: what solvers need of it."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.limits import CONSTANT
from sklearn_bundle.linear.losses.scores import ScoreLoss, Start

Array = NDArray[np.float64]

SHARES = (16, 4)  # one row out of so many: the first that leaves enough of them
ROWS_A_FEATURE = 50  # of a sample: the optimum of fewer is too far away
LARGEST_SAMPLE = 1 << 25  # bytes that a copy of rows may take: few beside X itself
RANK = 2  # curved rows per feature: with fewer a Hessian leaves directions without curvature


class Line(NamedTuple):
    """A direction from the point, and what the regularizer adds to the risk's derivative there.

    Parameters
    ----------
    w : ndarray of shape (d,)
    b : float or None
        None for the move that keeps b the best, as far as it is known.
    slope : float
        Derivative of the objective at the point along w and a given b: negative.
    across, square : float
        ``across + t square`` is the derivative of the regularizer at a step t.
    left : float
        Share of the slope that a search may leave.
    steps : ndarray
        Steps that a search tries first, where they are all tried at once; 1 is among them.
    is_newton : bool
        Whether the step of 1 is Newton's for a smooth loss, from a Hessian of all rows.
    """

    w: Array
    b: float | None
    slope: float
    across: float
    square: float
    left: float
    steps: Array
    is_newton: bool = False


class Model(NamedTuple):
    """The end of a whole Newton step as its quadratic model sees it.

    Its derivatives g make a plane of the loss. If none of them had to be held back, w is both the
    model's point and that of the plane: X'g = -reg_lambda w, up to rounding.

    Parameters
    ----------
    derivatives : ndarray of shape (n,)
    offset : float
        Of their plane.
    w : ndarray of shape (d,)
    """

    derivatives: Array
    offset: float
    w: Array


class ScoreRisk(ABC):
    """The smoothed risk at a point (w, b) that moves along lines.

    Newton's method and L-BFGS know nothing else of the rows, so that they run wherever these are.
    In memory scores are kept: a line costs a product with X, a gradient one with X', and slopes
    along the line cost none. Each w has its best b. On workers nothing is kept, and b is a
    coordinate: a round evaluates the end of a whole step and all that the next step may need. If
    the step is not a whole one, further rounds find its length and evaluate its end.

    Attributes
    ----------
    keeps_scores : bool
        Whether rows are in memory.
    loss : ScoreLoss
    free : bool
        Whether there is an intercept.
    units : Start
        What follows from the targets.
    w, b
        The point.
    risk, offset, balance
        Of the last evaluation: the loss's risk, and the plane ``R(v, c) >= <gradient, v> +
        balance c + offset`` for all v and c, by derivatives of the smoothed loss.
    n_curved, every : int
        Rows with curvature, and one of how many of them is in the last Hessian.
    detail : int
        Factor on the rows that a Hessian of a smooth loss is made of.
    takes_all : bool
        Whether it is made of all of them.
    """

    keeps_scores: ClassVar[bool]

    def __init__(self, loss: ScoreLoss, free: bool, units: Start, shape: tuple[int, int]):
        self.loss, self.free, self.units = loss, free, units
        n, d = shape
        self.w, self.b = np.zeros(d), units.intercept
        self.risk = self.offset = self.balance = 0.0
        self.n_samples = self.n_curved = n
        self.every = self.detail = 1
        self.takes_all = False
        self.is_wide = d >= n

    # ---- where the rows are --------------------------------------------------------------------

    @abstractmethod
    def attach(self, problem: Any) -> None:
        """Continue with the same rows in another object."""

    @abstractmethod
    def detach(self) -> None:
        """Release the rows."""

    def release_buffers(self) -> None:
        """Release what the next step makes again: nothing here."""
        return

    def release(self) -> None:
        """Release all that is kept of the point, which moves no more: nothing here."""
        return

    @property
    @abstractmethod
    def scale(self) -> Array:
        """Of each column: see :class:`~.rows.RowOperator`."""

    @abstractmethod
    def sample(self) -> "tuple[ScoreRisk, int] | None":
        """The risk of one row out of so many; None if a start from it does not pay."""

    def count(self, sampled: Any, share: int) -> None:
        """Count the products with a sample, if they take time from those with X."""
        return

    @abstractmethod
    def curvature_of_columns(self, reg_lambda: float) -> Array | None:
        """Diagonal of a rough Hessian of the objective; None if it is not worth a product."""

    # ---- the point -----------------------------------------------------------------------------

    @abstractmethod
    def go(self, w: Array, b: float) -> None:
        """Go to a point."""

    @abstractmethod
    def evaluate(self, width: float, precision: float) -> None:
        """Compute risk, offset and balance at the point; in memory at the best b for its w.

        The derivative in b is then at most ``precision``.
        """

    @property
    @abstractmethod
    def gradient(self) -> Array:
        """Of the smoothed risk in w, at the last evaluation."""

    @property
    @abstractmethod
    def intercept(self) -> float | Array:
        """The point's b in the form in which the problem has intercepts."""

    @property
    def hessian_passes(self) -> float:
        """Passes over the data in the time of a Hessian from all rows; of rows in memory."""
        return np.inf

    @abstractmethod
    def hessian(self, width: float) -> Array:
        """Lower triangle of that in (w, b), from one of ``every`` of the curved rows."""

    @abstractmethod
    def step(self, line: Line, width: float) -> float:
        """Move along the line to where its slope is nearly 0; the step, 0 for none."""

    def refresh(self) -> None:
        """Compute afresh what steps have updated: nothing here."""
        return

    def improve_intercept(self, gained: float) -> None:
        """Go to a better b if that gains much beside what the last step gained."""
        return

    def nearest_width(self, width: float, before: float) -> float:
        """A width below the one before, about as small as this, that costs least."""
        return width

    # ---- planes of the loss --------------------------------------------------------------------

    @abstractmethod
    def take_planes(self) -> list[tuple[Array, float, Array | None]]:
        """Gradient, offset and balance of planes that came since the last call.

        The balance is None where no b changes a plane.
        """

    def take_model(self) -> Model | None:
        """What the last step's quadratic model says of its end; None if it is not known."""
        return None

    def plane_of(self, model: Model) -> tuple[Array, float]:
        """Its plane: one product with X'."""
        raise NotImplementedError("take_model returns None")

    def cut_on_other_side(self, width: float) -> None:
        """Cut a plane whose balance has another sign than that at the point."""
        return

    @abstractmethod
    def balanced_plane(self, promised: float) -> tuple[Array, float]:
        """A plane near that at the point that no b changes, if it may lose a promised gap."""


def column_variances(means: Array | None, squares: Array) -> Array:
    """Of columns with these means, None without an intercept, and mean squares."""
    return squares if means is None else np.maximum(squares - means**2, CONSTANT * squares)
