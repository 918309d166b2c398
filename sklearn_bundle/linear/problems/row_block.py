"""A block of rows on its worker, and the tasks that a round of a distributed fit runs on it.

All functions whose first argument is a block are tasks: they depend only on their arguments, keep
nothing, and return arrays whose sums over all blocks are the answer. So a lost block is computed
again, and no answer depends on which worker gave it.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.parallel import blas_threads
from sklearn_bundle.linear.losses.base import Loss
from sklearn_bundle.linear.losses.scores import ScoreLoss
from sklearn_bundle.linear.losses.softmax import Softmax
from sklearn_bundle.linear.problems.balance import cut_by_class, shares_of_classes, sums_of_classes
from sklearn_bundle.linear.problems.linear_rounding import Sizes
from sklearn_bundle.linear.rows.memory_rows import Matrix, rows_in_memory
from sklearn_bundle.linear.rows.rows import RowOperator

Array = NDArray[np.float64]


class Formulation(NamedTuple):
    """What turns rows into a problem: the loss, and the targets that it uses.

    ``positive`` is the number of the class that is +1, or None if the targets are used as they are.
    ``column`` is that of one target of several. ``n_outputs`` is the number of scores per row, None
    for scores of shape (n,). ``newton_loss`` is None if the loss has no curvature to work with.
    """

    loss: Loss
    newton_loss: ScoreLoss | None = None
    positive: int | None = None
    column: int | None = None
    n_outputs: int | None = None

    @property
    def curved(self) -> ScoreLoss:
        """The loss of tasks that need its curvature."""
        assert self.newton_loss is not None
        return self.newton_loss


@dataclass
class RowBlock:
    """Rows with their targets, and weights that sum to one over all blocks.

    Parameters
    ----------
    X : C-ordered array or CSR of shape (n, d), float32 or float64; or None
        None if the caller has persisted it; tasks then get it from there.
    y : ndarray of shape (n,) or (n, k), or None
        Class numbers or real targets.
    weights : ndarray of shape (n,), positive
    """

    X: Any
    y: Any
    weights: Array

    def with_rows(self, X: Matrix) -> "RowBlock":
        """The block with this X, if it has none."""
        return replace(self, X=X) if self.X is None else self

    def __sizeof__(self) -> int:
        """The size including the arrays: dask uses it to estimate the cost of moving a block."""
        return sum(map(size_of, (self.X, self.y, self.weights)))

    @property
    def rows(self) -> RowOperator:
        """The operator of the rows."""
        return rows_in_memory(self.X, 1)

    def targets(self, of: Formulation) -> Any:
        """The targets as the loss takes them."""
        if of.positive is not None:
            signs = (self.y == of.positive).astype(np.float64)
            signs *= 2.0
            signs -= 1.0
            return signs
        return self.y if of.column is None else np.ascontiguousarray(self.y[:, of.column])


def size_of(values: Any) -> int:
    """Bytes of an array, a CSR matrix, or None."""
    if sp.issparse(values):
        return values.data.nbytes + values.indices.nbytes + values.indptr.nbytes
    return 0 if values is None else values.nbytes


def cut(block: RowBlock, of: Formulation, w: Array, b: Array) -> list[Array]:
    """Risk, sum of squared scores and offset; balance and gradient of the plane at (w, b)."""
    rows, scores = _scores(block, of, w, b)
    squares = float(np.vdot(scores, scores))
    derivatives, scratch = np.empty_like(scores), np.empty((4, len(scores)))
    args = block.targets(of), block.weights, False, derivatives, scratch
    plane = of.loss.cut(scores, *args)
    balance = np.atleast_1d(derivatives.sum(axis=0))
    sums = np.array([plane.risk, squares, plane.offset])
    return [sums, balance, rows.gradient(derivatives)]


def parts_of_classes(block: RowBlock, of: Formulation, w: Array, b: Array) -> list[Array]:
    """Offset and balance of the rows of each class in the plane at (w, b)."""
    _, scores = _scores(block, of, w, b)
    out = np.empty_like(scores)
    return [cut_by_class(of.loss, scores, block.targets(of), block.weights, out)]


def cut_with_shares(
    block: RowBlock, of: Formulation, w: Array, b: Array, shares: Array
) -> list[Array]:
    """Balance and gradient of the plane at (w, b), rows multiplied by the shares of classes."""
    rows, scores = _scores(block, of, w, b)
    y, derivatives = block.targets(of), np.empty_like(scores)
    cut_by_class(of.loss, scores, y, block.weights, derivatives)
    derivatives *= shares[y, None]
    return [derivatives.sum(axis=0), rows.gradient(derivatives)]


def softmax_sums(block: RowBlock, of: Formulation, w: Array, b: Array) -> list[Array]:
    """Surplus, class shares, gradient and class sums, for :func:`~.balance.mixing`."""
    rows, derivatives = _softmax(block, of, w, b)
    labels = block.targets(of), block.weights, len(derivatives)
    sums, gradient = sums_of_classes(rows, *labels), rows.class_gradient(derivatives)
    return [derivatives.sum(axis=1), shares_of_classes(*labels), gradient, sums]


def mixed_entropy(
    block: RowBlock, of: Formulation, w: Array, b: Array, moved: Array, given: Array
) -> list[Array]:
    """The offset of the mixed plane."""
    _, derivatives = _softmax(block, of, w, b)
    args = derivatives, block.targets(of), block.weights, moved, given
    return [np.array([Softmax().mixed_entropy(*args)])]


def _softmax(block: RowBlock, of: Formulation, w: Array, b: Array) -> tuple[RowOperator, Array]:
    """The rows, and the derivatives at (w, b) by class."""
    rows, scores = _scores(block, of, w, b)
    by_class = np.ascontiguousarray(scores.T)
    derivatives, still = np.empty_like(by_class), np.zeros_like(by_class)
    args = by_class, still, block.targets(of), block.weights, 0.0, derivatives
    Softmax().along_classes(*args)
    return rows, derivatives


def risk(block: RowBlock, of: Formulation, w: Array, b: Array) -> list[Array]:
    """The risk at (w, b), and the sum of squared scores."""
    _, scores = _scores(block, of, w, b)
    squares = float(np.vdot(scores, scores))
    return [np.array([of.loss.risk(scores, block.targets(of), block.weights, 0.0), squares])]


def slopes(
    block: RowBlock, of: Formulation, ends: list[tuple[Array, Array]], steps: Array
) -> list[Array]:
    """Risk and its derivative at steps from one point (w, b) towards another one."""
    (_, start), (_, end) = (_scores(block, of, *point) for point in ends)
    y, direction = block.targets(of), end - start
    answers, gradient = np.empty((len(steps), 2)), np.empty_like(start)
    with np.errstate(over="ignore", invalid="ignore"):
        for k, step in enumerate(steps):
            value = of.loss.evaluate(start + step * direction, y, block.weights, gradient)
            answers[k] = value, np.sum(gradient * direction)
    return [answers]


def scores(block: RowBlock, w: Array) -> Array:
    """The scores of the rows, without b."""
    return block.rows.scores(w)


def product(block: RowBlock, g: Array) -> list[Array]:
    """``X'g``."""
    return [block.rows.gradient(g)]


def squared_norms(block: RowBlock) -> Array:
    """The rows' squared lengths."""
    return block.rows.squared_norms()


def targets_and_weights(block: RowBlock, of: Formulation) -> tuple[Array, Array]:
    """What the loss takes beside the scores."""
    return block.targets(of), block.weights


def rounding_sizes(
    block: RowBlock, of: Formulation, w: Array, b: Array, near: float
) -> list[Array]:
    """The fields of :class:`~.linear_rounding.Sizes` at (w, b); all blocks have the same near."""
    rows, scores = _scores(block, of, w, b)
    args = of.loss, block.targets(of), block.weights, scores, near
    return [np.atleast_1d(field) for field in Sizes.of(rows.squared_columns(), *args)]


def squared_columns(block: RowBlock) -> list[Array]:
    """``sum_i x_ij^2`` of every column."""
    return [block.rows.squared_columns()]


def sizes(block: RowBlock) -> list[Array]:
    """Numbers of rows and entries, weighted mean square, and columns' scale times the weight."""
    if not len(block.weights):
        return [np.zeros(3), np.zeros(block.X.shape[1])]
    rows = block.rows
    sums = np.array([rows.shape[0], rows.n_entries, rows.mean_square(block.weights)])
    return [sums, block.weights.sum() * rows.column_scale()]


def column_moments(block: RowBlock) -> list[Array]:
    """The columns' weighted sums, and those of their squares."""
    rows = block.rows
    return [rows.gradient(block.weights), rows.column_squares(block.weights)]


def digest(block: RowBlock) -> str:
    """A digest that is equal for equal rows, targets and weights."""
    X = block.X
    arrays = (X.shape, X.data, X.indices, X.indptr) if sp.issparse(X) else X
    return joblib.hash((arrays, block.y, block.weights))


def look(
    block: RowBlock,
    of: Formulation,
    ends: list[tuple[Array, float]],
    steps: Array | tuple[()],
    widths: list[float],
    moves: Array | tuple[()] | None,
    every: int,
    free: bool,
) -> list[Array]:
    """Derivatives of the smoothed risk along a line, and all that is needed at its end.

    ``ends`` are the points (w, b) of the line, or only its end. First come the slopes at the steps,
    for the first width, and derivatives in b at the end after ``moves`` of b. Then there are for
    each width risk, offset, balance and number of curved rows, the gradient, and the lower triangle
    of the Hessian from one of ``every`` such rows; no Hessian if that is 0. If ``moves`` is None
    there are only the slopes.
    """
    loss, weights, rows = of.curved, block.weights, block.rows
    w, b = ends[-1]
    y, scores, along = block.targets(of), rows.scores(w), []
    derivatives, coefs = np.empty(len(y)), None
    with np.errstate(over="ignore", invalid="ignore"):
        if len(ends) > 1:
            w_start, b_start = ends[0]
            direction = rows.scores(w - w_start)
            start = np.subtract(scores, direction, out=derivatives)
            args = start, direction, y, weights, widths[0], b_start, b - b_start
            along = [loss.smoothed_slope(*args, float(step))[0] for step in steps]
            coefs = direction  # a new page of memory takes longer than a sum over it
        if moves is None:
            return [np.array(along)]
        args = scores, np.zeros(len(y)), y, weights, widths[0], b, 1.0
        along += [loss.smoothed_slope(*args, float(move))[0] for move in moves]
        answers = [np.array(along)]
        coefs = np.empty(len(y)) if coefs is None else coefs
        curved, before = np.empty(len(y), dtype=np.int64), None
        with blas_threads(1) if every else nullcontext():  # more would change the last bits
            for width in widths:
                args = scores, y, weights, width, b
                value, offset = loss.smoothed_cut(*args, False, derivatives)
                if before is None:
                    gradient = rows.gradient(derivatives)
                else:  # few have changed, and rows without a change cost little
                    gradient = gradient + rows.gradient(np.subtract(derivatives, before, before))
                before = derivatives.copy() if width != widths[-1] else None
                size = loss.curved(*args, curved, coefs) if every else 0
                answers += [np.array([value, offset, derivatives.sum(), size]), gradient]
                if every:
                    chosen = curved[:size:every].copy()
                    answers.append(rows.hessian(chosen, every * coefs[:size:every], free))
    return answers


def sample(
    block: RowBlock, of: Formulation, share: int, seed: int
) -> tuple[Matrix | None, Any, Array]:
    """One row out of every ``share`` neighbors, with its target and weight."""
    n = len(block.weights) // share
    drawn = np.random.default_rng(seed).integers(0, share, n)
    rows = np.arange(n) * share + drawn
    return block.X[rows], block.targets(of)[rows], block.weights[rows]


def some_targets(
    block: RowBlock, of: Formulation, share: int, seed: int
) -> tuple[None, Any, Array]:
    """Like :func:`sample`, for targets only; at least one if there are rows."""
    return None, block.targets(of)[::share], block.weights[::share]


def stacked(parts: Sequence[Matrix]) -> Matrix:
    """The parts stacked vertically, in the precision of the first."""
    if sp.issparse(parts[0]):
        return sp.vstack(parts, format="csr")
    return np.concatenate(parts)


def _scores(block: RowBlock, of: Formulation, w: Array, b: Array) -> tuple[RowOperator, Array]:
    rows = block.rows
    if of.n_outputs is None:
        return rows, rows.scores(w) + (b[0] if len(b) else 0.0)
    scores = rows.scores(w, of.n_outputs)
    return rows, scores + b if len(b) else scores
