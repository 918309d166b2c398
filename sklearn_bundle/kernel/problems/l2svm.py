"""The kernel L2-SVM of two classes, as a problem on the unit simplex."""

from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sklearn_bundle.core.limits import ADDED, SINGLE, SIX_DIGITS
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.kernel._compiled import decomposition, lazy, swap, tiles
from sklearn_bundle.kernel.problems.row_gaps import largest_sum, squared_gaps
from sklearn_bundle.kernel.values._exact_sums import dense_rows, roundings_of_rbf
from sklearn_bundle.kernel.values._points import SUMMED
from sklearn_bundle.kernel.values.kernel import KernelRows, function_of, suits_tiles
from sklearn_bundle.kernel.values.kernel import tiled as tiled_points
from sklearn_bundle.kernel.values.kernel_data import KernelData
from sklearn_bundle.kernel.values.kernel_function import KernelName

Array = NDArray[np.float64]

# Kernels whose rows compiled code computes.
_COMPILED: dict[KernelName, int] = {"linear": lazy.LINEAR, "rbf": lazy.RBF}
_NEARLY_ALL = 0.9  # share of the points above which sums are taken for all, and no point is copied


class Certified(NamedTuple):
    """The certificate of a point, recomputed in float64.

    The model alpha has the objective ``primal``, which rounding may have made too small by
    ``excess``; no minimum is below ``bound``, from which its rounding is taken off.
    """

    primal: float
    excess: float
    bound: float


class Accumulated(NamedTuple):
    """What rounding of scores depends on if :meth:`L2SVM.add_scores` has accumulated them.

    ``sizes`` are the sums of both classes' scores; the changes of a that made them have the sum of
    sizes ``path_length`` and the root of the sum of squares ``spread``.
    """

    sizes: Array
    path_length: float
    spread: float


class Candidate(NamedTuple):
    """A point a of the simplex with ``q = K a``, and its model alpha, a multiple of a.

    q comes from rows in the working precision, unless ``accumulated`` says how it was made.
    """

    a: Array
    q: Array
    alpha: Array
    accumulated: Accumulated | None = None


class L2SVM:
    """``min 1/2 ||w||^2 + 1/2 b^2 + 1/2 sum_i C_i max(0, 1 - y_i (<w, phi(x_i)> + b))^2``.

    As ``min a'Ka`` over the unit simplex, ``K_ij = y_i y_j (k(x_i, x_j) + 1) + delta_ij / C_i``:
    with Q the minimum, the solution has ``alpha = a/Q``, scores ``sum_i alpha_i y_i (k(x_i, x) +
    1)`` and the objective ``1/(2Q)``, the lower bound that any a yields.

    Parameters
    ----------
    data : KernelData
    points : ndarray of shape (n,)
        Those of its points that take part.
    y : ndarray of shape (n,), in {-1.0, 1.0}
    C : ndarray of shape (n,), positive
    n_threads : int, default=1
        For sums over kernel values.
    """

    def __init__(
        self, data: KernelData, points: np.ndarray, y: Array, C: Array, n_threads: int = 1
    ):
        self.data, self.points, self.y, self.n_threads = data, points, y, n_threads
        self.n, self.ridge = len(y), 1.0 / C
        self._whole = True  # all points of its classes: only then values within them are shared
        self._summed = 0  # products that were added in single precision
        self._set_dtype(data.dtype)

    def _set_dtype(self, dtype: np.dtype) -> None:
        self.dtype, self._signs = dtype, self.y.astype(dtype)
        values = self.data.rows(dtype)
        self.diagonal = values.diagonal[self.points] + 1.0 + self.ridge
        vars(self).pop("rows", None)

    @property
    def computed(self) -> bool:
        """Whether kernel values are computed here from features, not given nor by a callable."""
        return not (self.data.precomputed or callable(self.data.kernel.name))

    @property
    def sparse(self) -> bool:
        return sp.issparse(self.data.X)

    @cached_property
    def rows(self) -> KernelRows:
        """Kernel values between the points."""
        values = self.data.rows(self.dtype)
        everything = np.array_equal(self.points, np.arange(values.n))
        return values if everything else values.take(self.points)

    def promote(self) -> None:
        """From here on rows are in double precision."""
        self._set_dtype(np.dtype(np.float64))

    def part(self, indices: np.ndarray) -> "L2SVM":
        """The problem of some of the points."""
        C = 1.0 / self.ridge[indices]
        part = L2SVM(self.data, self.points[indices], self.y[indices], C)
        part._whole = False
        if self.dtype != part.dtype:
            part.promote()
        return part

    def space(self, n_rows: int, width: int | None = None) -> np.ndarray:
        """Memory for rows of this problem, which the next problem of this thread may reuse."""
        width = self.n if width is None else width
        return self.data.space(n_rows * width, self.dtype).reshape(n_rows, width)

    def compiled(self) -> lazy.Source | None:
        """For dense points in single precision and kernels of :data:`_COMPILED`."""
        values = self.data.rows(self.dtype)
        points, kernel = values.dense, values.kernel
        if points is None or self.dtype != np.float32 or kernel.name not in _COMPILED:
            return None
        columns = np.empty((points.X.shape[1], self.n), np.float32)
        lazy.gather(points.transposed, self.points, columns)
        return lazy.Source(
            _COMPILED[kernel.name],
            np.float32(kernel.gamma),
            frozen(points.X),
            self.points,
            columns,
            points.norms[self.points],
            self._signs,
            (values.diagonal[self.points] + 1.0).astype(np.float32),
            *self._shared(),
        )

    def _shared(self) -> tuple:
        """The size of the first class, and what is kept of values within classes."""
        split = int(np.count_nonzero(self.y > 0.0))
        store, known = self.data.store
        if self._whole and len(store) and split and (self.y[:split] > 0.0).all():
            return split, store, known
        return self.n, store[:0], known[:0]

    def fill(self, indices: np.ndarray, out: np.ndarray) -> None:
        """Rows of ``K - diag(ridge)``."""
        self.rows.block(indices, None, out)
        self._sign(indices, out)

    def gram(self, out: np.ndarray, first: int = 0) -> None:
        """All rows into ``out``, which may be larger and holds the first ones already."""

        def finish(start: int, stop: int, rows: np.ndarray) -> None:
            for i in range(start, stop):
                swap.sign(rows[i - start, :stop], self._signs[:stop], self._signs[i])

        self.rows.gram(out=out, first=first, finish=finish)

    @property
    def by_tiles(self) -> bool:
        """Whether compiled code computes rows: those of dense float32 points."""
        return self.dtype == np.float32 and suits_tiles(self.data.rows(self.dtype).dense)

    def scaled_rows(self, tiled: tiles.Tiled | None = None) -> decomposition.Source:
        """What compiled steps compute rows of M from, scaled so that K has a diagonal of ones.

        Only if rows are computed ``by_tiles``; ``tiled`` are the points, where they are known.
        """
        points = self.data.rows(self.dtype).dense
        assert points is not None
        tiled = tiled or tiled_points(frozen(points.X), points.norms, self.points)
        factors, roots = np.zeros(len(tiled.norms), np.float32), np.sqrt(self.diagonal)
        factors[: self.n] = self.y / roots
        function = function_of(points.kernel)
        return decomposition.Source(function, tiled, factors, self.ridge, 1.0 / self.ridge, roots)

    @property
    def rounding_of_value(self) -> float:
        """Bound on the error of an entry of M in single precision, scaled and scaled back."""
        return self.data.largest_rounding + 4.0 * self.rounding_of_product

    @property
    def rounding_of_product(self) -> float:
        """The part of one more product in it."""
        return SINGLE * (self.data.largest + 1.0)

    def square(self, indices: np.ndarray, scale: Array, out: np.ndarray) -> None:
        """``scale_i scale_j (K_ij - delta_ij ridge_i)`` of some points, in the working precision.

        Into the first rows and columns of ``out``, which has a multiple of 64 of both; the others
        become 0.
        """
        size = len(indices)
        self.rows.square(indices, out)
        out[size:], out[:size, size:] = 0.0, 0.0
        part, factors = out[:size, :size], (scale * self.y[indices]).astype(self.dtype)
        part += self.dtype.type(1.0)
        part *= factors
        part *= factors[:, np.newaxis]

    def add_scores(self, coef: Array, indices: np.ndarray, scores: Array) -> None:
        """``scores[s, i] += sum_c coef_c (k(x_i, x_c) + 1)``, c over ``indices`` in class s.

        Values are in the working precision, sums in float64 but for a few products at a time.
        """
        for of_class, sign in zip(scores, (1.0, -1.0), strict=True):
            chosen = self.y[indices] == sign
            if chosen.any():
                self.rows.add_sums(coef[chosen], indices[chosen], of_class, self.n_threads)
                of_class += coef[chosen].sum()

    def _sign(self, indices, out) -> None:
        for row, i in zip(out, indices, strict=True):
            swap.sign(row, self._signs, self._signs[i])

    def products(self, a: Array) -> Array:
        """``K a``, recomputed in float64."""
        return self._margins(a[np.newaxis], np.arange(self.n))[0][0] + a * self.ridge

    def _margins(self, points: Array, rows: np.ndarray) -> tuple[Array, Array]:
        """Some entries of ``(K - diag(ridge)) a`` in float64, and bounds on the errors.

        A row for each of the points a; the entries ascend, and where a is not 0 is among them.
        """
        active = np.flatnonzero(points.any(axis=0))
        signed = points[:, active] * self.y[active]
        chosen = np.searchsorted(rows, active)
        sums, errors = self.data.exact_sums(signed, chosen, self.points[rows], self.n_threads)
        return self.y[rows] * sums, errors

    def gap_by_rows(self, alpha: Array) -> float:
        """An upper bound of the sum of the gaps of the rows at alpha.

        ``|w - w*|^2 + (b - b*)^2`` is no larger. The objective grows by half of that from the
        optimum to alpha's model, and the lower model of alpha, which is least there, by another
        half from it to the optimum.
        """
        (margins,), (errors,) = self._margins(alpha[np.newaxis], np.arange(self.n))
        errors = errors + ADDED * (1.0 + np.abs(margins))
        C = 1.0 / self.ridge
        gaps = partial(squared_gaps, beta=alpha, C=C, above=0.0, below=np.inf)
        return largest_sum(gaps, 1.0 - margins, errors)

    def working_products(self, a: Array, rows: np.ndarray) -> Array:
        """Some entries of ``K a`` from values in the working precision, where a is 0."""
        active = np.flatnonzero(a)
        signed = a[active] * self.y[active]
        self._summed = SUMMED + 2
        if len(rows) > _NEARLY_ALL * self.n:  # all of them, so that no points are copied
            sums = self.rows.sums(signed, active)[rows]
        else:
            sums = self.rows.sums(signed, active, rows)
        return self.y[rows] * (sums + signed.sum())

    def certify(self, *candidates: Candidate) -> list[Certified]:
        """The certificates of models in float64, with their rounding errors.

        Scores are those of alpha as it is: where they cancel, its rounding counts.
        """
        near = np.zeros(self.n, dtype=bool)
        for candidate in candidates:
            near |= self._near(candidate)
        rows = np.flatnonzero(near)
        alphas = np.array([candidate.alpha for candidate in candidates])
        margins, errors = self._margins(alphas, rows)
        parts = zip(alphas[:, rows], margins, errors, strict=True)
        ridge = self.ridge[rows]
        return [self._refined(self._certified(*part, ridge), part[0], rows) for part in parts]

    def _refined(self, certified: Certified, alpha: Array, rows: np.ndarray) -> Certified:
        """The certificate from extended precision where float64 leaves less than six digits.

        alpha belongs to ``rows``, outside of which it is 0.
        """
        if not certified.excess > SIX_DIGITS * abs(certified.primal):
            return certified
        active = np.flatnonzero(alpha)
        signed = alpha[active] * self.y[rows[active]]
        found = self.data.extended_sums(signed, active, self.points[rows])
        if found is None:
            return certified
        return self._certified(alpha, self.y[rows] * found[0], found[1], self.ridge[rows])

    @staticmethod
    def _certified(alpha: Array, margins: Array, errors: Array, ridge: Array) -> Certified:
        value = float(np.sum(alpha * (margins + alpha * ridge)))  # 1/Q
        sizes = float(np.sum(alpha * (np.abs(margins) + alpha * ridge)))
        error = float(np.sum(alpha * errors)) + ADDED * sizes
        slack = 1.0 - margins
        longest = slack + errors + ADDED * (1.0 + np.abs(margins))
        losses = 0.5 * float(np.sum(np.maximum(0.0, slack) ** 2 / ridge))
        highest_losses = 0.5 * float(np.sum(np.maximum(0.0, longest) ** 2 / ridge))
        primal = 0.5 * float(np.sum(alpha * margins)) + losses
        excess = 0.5 * error + highest_losses - losses + ADDED * abs(primal)
        highest = value + error
        total = float(alpha.sum())
        bound = (0.5 - ADDED) * total**2 / highest if highest > 0.0 else -np.inf
        return Certified(primal, excess, bound)

    def _near(self, candidate: Candidate) -> np.ndarray:
        """Whether points may have a loss or have a weight.

        The others have a score above 1 by more than rounding.
        """
        a, q, alpha, accumulated = candidate
        active = a > 0.0
        if accumulated is None:
            dtype = self.data.dtype  # q may be from before ``promote``
            unit, largest = 0.5 * np.finfo(dtype).eps, np.max(self.diagonal - self.ridge)
            rounding = self.data.rounding(dtype, self.points, self.points[active])
            rounding = rounding + (3.0 + self._summed) * unit * largest  # stored, 1 added, summed
        else:
            rounding = self.rows.rounding_of_sums(a, *accumulated)
        no_loss = np.sum(a) / np.sum(alpha)  # from which value on of ``K a - ridge a``
        return (q - a * self.ridge <= no_loss + rounding) | active

    def certified(self, alpha: Array, near: np.ndarray) -> Certified:
        """The certificate of alpha in float64; points that are not ``near`` have no loss.

        Those with a weight are near.
        """
        if not (self.data.kernel.name == "rbf" and self.data.exact_by_tiles):
            rows = np.flatnonzero(near)
            margins, errors = self._margins(alpha[np.newaxis], rows)
            certified = self._certified(alpha[rows], margins[0], errors[0], self.ridge[rows])
            return self._refined(certified, alpha[rows], rows)
        active = np.flatnonzero(alpha)
        order = np.concatenate([active, np.flatnonzero(near & (alpha == 0.0))])
        points, kernel = dense_rows(self.data.X, self.points[order]), self.data.kernel
        of_alpha = alpha[order], self.y[order], self.ridge[order]
        of_value = roundings_of_rbf(points.shape[1])
        found = decomposition.certify(points, kernel.gamma, *of_alpha, len(active), of_value)
        return self._refined(Certified(*found), alpha[order], order)

    def primal_value(self, a: Array, q: Array, value: float) -> float:
        """The objective at ``alpha = a / Q``, with ``q = K a`` and ``value = a'q``."""
        return swap.primal_value(a, q, self.ridge, value)
