"""Examples bound to a model, the interface for solvers: compiled, or in plain Python."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_scalar

from sklearn_bundle.core.certificate import ScoreRounding
from sklearn_bundle.core.limits import DOUBLE
from sklearn_bundle.core.values import as_float, as_numbers, shown
from sklearn_bundle.jit.decorators import frozen
from sklearn_bundle.structured._compiled import structures


def finite_array(name: str, values: Any, *shape: int | str) -> NDArray[np.float64]:
    """A C-ordered array of finite numbers; a word in its shape stands for any size.

    Raises
    ------
    ValueError
        For anything else; the message has the name, as those of the other checks have.
    """
    array = np.asarray(as_numbers(name, values), order="C")
    right = tuple(k if isinstance(n, str) else n for n, k in zip(shape, array.shape, strict=False))
    if array.shape != right or array.ndim != len(shape):
        sizes = f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
        raise ValueError(f"{name} must have the shape {sizes}, but has {array.shape}.")
    refuse(name, "be finite", array, ~np.isfinite(array))
    return array


def whole_numbers(name: str, values: Any, n: int, *shape: int | str) -> NDArray[np.int64]:
    """An array of whole numbers from 0 to n - 1."""
    numbers = finite_array(name, values, *shape)
    wrong = (numbers < 0) | (numbers >= n) | (numbers != np.floor(numbers))
    refuse(name, f"hold whole numbers from 0 to {n - 1}", numbers, wrong)
    return numbers.astype(np.int64)


def refuse(name: str, right: str, values: np.ndarray, wrong: NDArray[np.bool_]) -> None:
    """ValueError for the first entry that is wrong, if there is one."""
    if wrong.any():
        at = tuple(map(int, np.argwhere(wrong)[0]))
        raise ValueError(f"{name} must {right}, but the entry at {at} is {values[at]:g}.")


Array = NDArray[np.float64]

_ENTRIES_A_CALL = 1 << 17  # entries that compiled code handles while Python handles one example
# Relative to the sum of absolute values of the terms of a score: more than the error of a float64
# sum of a million terms, less than that of a float32 sum.
_ROUNDING = 1e-9


def ends_of(sizes: ArrayLike) -> NDArray[np.int64]:
    """Where parts of these sizes begin and end, one after the other."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


class Found(NamedTuple):
    """One output for each of a range of examples, as it enters the risk and the dual.

    ``psi`` is ``phi(x_i, y_i) - phi(x_i, y)``, and ``loss`` is l_i(y); with slack rescaling psi is
    multiplied by l_i(y). Row k of psi has the entries ``values[starts[k]:starts[k + 1]]`` in the
    columns ``indices[starts[k]:starts[k + 1]]``, each column once.
    """

    starts: NDArray[np.int64]
    indices: NDArray[np.uint32]
    values: Array
    losses: Array
    scores: Array  # loss - <w, psi>, at least 0, the score of the true output
    bounds: Array  # upper bounds of the scores of all outputs: infinity if unknown


class Expected(NamedTuple):
    """Losses of the conditional likelihood for a range of examples, with bounds on rounding."""

    losses: Array  # log sum_y exp <w, phi(x_i, y) - phi(x_i, y_i)>, not negative
    shifts: Array  # bounds on the rounding of the log-weight of any output, beside its score's
    sizes: Array  # bounds on the 2-norms of the added absolute terms of the gradient


class Sums(NamedTuple):
    """What bounds the rounding of sums over all outputs, for each example."""

    steps: Array  # roundings of the logarithm of the sum, beside those of scores
    terms: NDArray[np.int64]  # that ``expect`` adds to an entry of the gradient
    sizes: Array  # the 2-norm of the sum of their absolute values is at most this


class Examples(ABC):
    """Examples with their true outputs, and inference over all others.

    Attributes
    ----------
    n_examples, n_parameters : int
    n_entries : int
        Size of a pass in stored entries, for blocks of threads.
    nonnegative : ndarray of int64
        Indices of the parameters that must not be negative: the cone.
    exact : bool
        Whether ``find`` finds the highest scores, which then equal the ``bounds``.
    oracle_cost : float
        Cost of one call of the oracle: the number of entries of outputs read in the same time.
    structure : NamedTuple or None
        Argument of :func:`~.structures.worst` in compiled steps; None if
        inference is not compiled.
    longest : ndarray of int64 of shape (n_examples,)
        Maximum number of entries of psi for each example, if there is a structure.
    likelihood : bool
        Whether ``expect`` is available.
    has_edges : bool
        Whether the structure is one of chains, so that marginals of neighboring labels are all that
        the dual needs of a distribution of outputs.
    terms : ndarray of int64 of shape (n_examples,)
        Maximum number of times that ``expect`` adds to an entry of the gradient for each example,
        if there is a likelihood.
    roundings : tuple of ScoreRounding
        Their sum bounds the rounding of scores; none if inference is a user's.
    """

    n_examples: int
    n_parameters: int
    n_entries: int
    nonnegative: NDArray[np.int64] = np.empty(0, np.int64)
    exact: bool = True
    oracle_cost: float = 1e6  # 2 ms, an estimate for an oracle that is not compiled
    structure: Any = None
    longest: NDArray[np.int64]
    likelihood: bool = False
    has_edges: bool = False
    terms: NDArray[np.int64]
    roundings: tuple[ScoreRounding, ...] = ()

    @abstractmethod
    def find(self, w: Array, first: int, last: int) -> Found:
        """The output of the highest loss-augmented score, for each example from first to last.

        w lies in the cone. Called from several threads at a time, for different examples.
        """

    def errors(self, w: Array) -> Array:
        """How far rounding may move the score of any output at w, for each example."""
        return sum((each.of(w) for each in self.roundings), np.zeros(self.n_examples))

    def expect(self, w: Array, first: int, last: int, weights: Array, gradient: Array) -> Expected:
        """Losses of the conditional likelihood of the examples from first to last.

        Adds ``sum_i weights_i (E phi(x_i, y) - phi(x_i, y_i))`` to ``gradient``, with y drawn in
        proportion to ``exp <w, phi(x_i, y)>``; ``weights`` begin with the example ``first``. Called
        from several threads at a time, for different examples and gradients.
        """
        raise NotImplementedError  # optional: ``likelihood`` says whether it is there


class CompiledExamples(Examples):
    """Examples of a compiled structure.

    Parameters
    ----------
    structure : NamedTuple
    n_parameters : int
    longest : ndarray of int64 of shape (n_examples,)
    roundings : tuple of ScoreRounding
        As in :class:`Examples`.
    sums : Sums, optional
        If the structure's type has registered :func:`~.structures.expect`.
    """

    oracle_cost = 3e3  # 5 microseconds, for the OCR chains of eight letters

    def __init__(
        self,
        structure: Any,
        n_parameters: int,
        longest: NDArray[np.int64],
        roundings: tuple[ScoreRounding, ...] = (),
        sums: Sums | None = None,
    ):
        self.roundings, self._sums = roundings, sums
        self.structure, self.likelihood = structure, sums is not None
        if sums is not None:
            self.terms = sums.terms
        self.n_examples, self.n_parameters = len(longest), n_parameters
        self.n_entries = int(longest.sum())
        self.longest = longest

    def find(self, w: Array, first: int, last: int) -> Found:
        """The worst outputs, by the compiled sweep over the examples."""
        n, work = last - first, int(self.longest[first:last].sum())
        indices, values = np.empty(work, np.uint32), np.empty(work)
        found = Found(np.empty(n + 1, np.int64), indices, values, *np.empty((3, n)))
        structures.sweep(self.structure, w, first, last, *found)
        used = found.starts[-1]
        return found._replace(indices=indices[:used], values=values[:used])

    def expect(self, w: Array, first: int, last: int, weights: Array, gradient: Array) -> Expected:
        """Losses and their gradient, by the compiled sweep over the examples."""
        losses, sums = np.empty(last - first), self._sums
        assert sums is not None
        structures.expect_sweep(self.structure, w, first, last, weights, losses, gradient)
        return Expected(losses, DOUBLE * sums.steps[first:last], sums.sizes[first:last])


# ---- in plain Python -----------------------------------------------------------------------------


class _Vector(NamedTuple):
    """A sparse vector: ascending unique indices and nonzero values."""

    indices: NDArray[np.int64]
    values: Array


_NOTHING = _Vector(np.empty(0, np.int64), np.empty(0))


def check_scaling(model: Any, scaling: str) -> None:
    """Refuse slack rescaling for a model without an inference for it."""
    if scaling == "slack" and model.slack_rescaled_inference is None:
        raise ValueError(
            "scaling='slack' needs a method slack_rescaled_inference, which "
            f"{type(model).__name__} does not have; use scaling='margin'."
        )


class ListedExamples(Examples):
    """Lists of x and y, and a model whose methods handle one example each.

    ``phi(x_i, y_i)`` is computed once for each example and kept. What the methods return is checked
    each time; their exceptions pass through.

    Parameters
    ----------
    model : StructuredModel
    X, y : sequences of length n_examples
    scaling : {"margin", "slack"}

    Raises
    ------
    ValueError
        For an invalid value returned by a method, with the method's name and the example's number;
        for slack rescaling with a model without ``slack_rescaled_inference``.
    """

    def __init__(self, model: Any, X: Sequence, y: Sequence, scaling: str):
        check_scaling(model, scaling)
        self._model, self._X, self._y, self._slack = model, X, y, scaling == "slack"
        self._search = "slack_rescaled_inference" if self._slack else "loss_augmented_inference"
        self._name = type(model).__name__
        self.exact = bool(model.exact)
        self.n_examples = len(y)
        self.n_entries = self.n_examples * _ENTRIES_A_CALL
        n, most = model.n_parameters(X, y), (1 << 32) - 1
        check_scalar(n, f"{self._name}.n_parameters", Integral, min_val=1, max_val=most)
        self.n_parameters = int(n)
        cone = whole_numbers(f"{self._name}.nonnegative", model.nonnegative(), n, "k")
        self.nonnegative = np.unique(cone)
        self._truths = [self._joint_feature(i, y[i]) for i in range(self.n_examples)]
        for i in range(self.n_examples):
            if self._loss(i, y[i]) != 0.0:
                raise self._returned("loss", "0 where y_hat is y", model.loss(y[i], y[i]), i)

    def find(self, w: Array, first: int, last: int) -> Found:
        """The outputs that the model's inference finds, one example after the other."""
        w = frozen(w)
        found = zip(*(self._worst(i, w) for i in range(first, last)), strict=True)
        vectors, *numbers = map(list, found)
        indices, values = map(np.concatenate, zip(*vectors, strict=True))
        starts = ends_of([len(vector.indices) for vector in vectors])
        return Found(starts, indices.astype(np.uint32), values, *map(np.array, numbers))

    def _worst(self, i: int, w: Array) -> tuple[_Vector, float, float, float]:
        """Features, loss, score and bound of the output found for example i."""
        output = getattr(self._model, self._search)(self._X[i], self._y[i], w)
        truth, phi, loss = self._truths[i], self._joint_feature(i, output), self._loss(i, output)
        gamma = loss if self._slack else 1.0
        psi = _summed(
            np.concatenate([truth.indices, phi.indices]),
            gamma * np.concatenate([truth.values, -phi.values]),
        )
        score = loss - float(w[psi.indices] @ psi.values)
        rounding = _ROUNDING * (loss + gamma * (_size(w, truth) + _size(w, phi)))
        if score < -rounding and self.exact:
            formula = "loss (1 + <w, {}>)" if self._slack else "loss + <w, {}>"
            formula = formula.format("phi(x, y_hat) - phi(x, y)")
            raise ValueError(
                f"{self._name}.{self._search} must find an output with the highest {formula}, "
                f"which is 0 for the true output, but for example {i} it found {shown(output)} "
                f"with {score:.6g}, where the loss is {loss:.6g}. Set exact = False if it may miss "
                "the best."
            )
        if score <= 0.0:
            psi, loss, score = _NOTHING, 0.0, 0.0
        return psi, loss, score, self._bound(i, w, score, rounding)

    def _bound(self, i: int, w: Array, score: float, rounding: float) -> float:
        """Upper bound of the scores of all outputs of example i."""
        if self.exact or self._model.upper_bound is None:
            return score if self.exact else np.inf
        value = self._model.upper_bound(self._X[i], self._y[i], w)
        bound = self._number("upper_bound", value, i)
        if not self._slack:
            bound -= float(w[self._truths[i].indices] @ self._truths[i].values)
        if bound < score - rounding:
            right = f"at least what {self._search} finds, which is {score - bound:.6g} more,"
            raise self._returned("upper_bound", right, value, i)
        return max(bound, score)

    def _returned(self, method: str, right: str, value: Any, i: int) -> ValueError:
        returned = f"{self._name}.{method} must return {right}, but returned {shown(value)}"
        return ValueError(f"{returned} for example {i}.")

    def _loss(self, i: int, output: Any) -> float:
        value = self._model.loss(self._y[i], output)
        loss = self._number("loss", value, i)
        if not 0.0 <= loss < np.inf:
            raise self._returned("loss", "a finite number that is at least 0", value, i)
        return loss

    def _number(self, method: str, value: Any, i: int) -> float:
        """What a method returned for example i, which must be a number."""
        scalar = isinstance(value, np.ndarray) and value.ndim == 0
        number = as_float(value.item() if scalar else value)
        if not isinstance(number, bool | float) or number != number:
            raise self._returned(method, "a number", value, i)
        return float(number)

    def _joint_feature(self, i: int, output: Any) -> _Vector:
        return self._vector("joint_feature", self._model.joint_feature(self._X[i], output), i)

    def _vector(self, method: str, phi: Any, i: int) -> _Vector:
        """What a method returned for example i, which must be a vector of features."""
        name = f"{self._name}.{method} of example {i}"
        if not sp.issparse(phi):
            values = finite_array(name, phi, self.n_parameters)
            used = np.flatnonzero(values)
            return _Vector(used, values[used])
        if phi.shape not in ((self.n_parameters,), (1, self.n_parameters)):
            raise self._returned(method, f"a vector of length {self.n_parameters}", phi, i)
        stored = phi.tocoo()
        return _summed(stored.col, finite_array(name, stored.data, "n"))


def _summed(indices: NDArray[np.int64], values: Array) -> _Vector:
    """Sort entries and sum those with the same index."""
    order = np.argsort(indices, kind="stable")  # linear for ascending runs
    indices, values = indices[order], values[order]
    firsts = np.flatnonzero(np.diff(indices, prepend=-1))
    if len(firsts) < len(indices):
        indices, values = indices[firsts], np.add.reduceat(values, firsts)
    used = np.flatnonzero(values)
    return _Vector(indices[used].astype(np.int64), values[used])


def _size(w: Array, vector: _Vector) -> float:
    """The sum of the absolute values of the terms of ``<w, vector>``."""
    return float(np.abs(w[vector.indices]) @ np.abs(vector.values))
