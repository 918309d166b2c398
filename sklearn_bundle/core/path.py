"""Many values of reg_lambda: which ones, fits along them, and what functions of paths return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, Self, TypeVarTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sklearn_bundle.core.contract import SolverResult, Status, TimeLimit
from sklearn_bundle.core.estimator import certificate, features_of, warn_if_missed
from sklearn_bundle.core.monitor import Lines, iterations
from sklearn_bundle.core.search import MOST_VALUES, Report, number_or_values
from sklearn_bundle.core.values import plain, shown

Unpacked = TypeVarTuple("Unpacked")
Numbers = NDArray[np.float64]
Models = Iterator[tuple[Any, list[SolverResult]]]  # fitted copies, with the results of each


class PathResult(tuple[*Unpacked]):
    """Fits for many values of reg_lambda: a tuple with named fields, and with further ones.

    Attributes
    ----------
    reg_lambdas : ndarray of shape (n_lambdas,)
        The values in descending order.
    objectives, lower_bounds, dual_gaps : ndarray of shape (n_lambdas,) or (n_outputs, n_lambdas)
        Objective, lower bound of its minimum, and their difference; one per output if each is a
        problem of its own.
    n_iters : ndarray of the same shape
        Iterations for each value.
    statuses : ndarray of the same shape
        "converged" or what ended the fit, as in `status_` of the estimators.
    """

    reg_lambdas: Numbers
    objectives: Numbers
    lower_bounds: Numbers
    dual_gaps: Numbers
    n_iters: NDArray[np.int64]
    statuses: NDArray[np.str_]

    #: The fields that the tuple holds, in order.
    _unpacked: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, **fields: Any) -> Self:
        result = super().__new__(cls, [fields[name] for name in cls._unpacked])
        vars(result).update(fields)
        return result

    @classmethod
    def of(cls, reg_lambdas: Numbers, models: Sequence[Any], /, **fields: Any) -> Self:
        """With the certificates of fitted models, one for each value."""

        def along(name: str) -> NDArray[Any]:
            return np.stack([np.asarray(getattr(model, name)) for model in models], axis=-1)

        return cls(
            reg_lambdas=reg_lambdas,
            objectives=along("objective_"),
            lower_bounds=along("lower_bound_"),
            dual_gaps=along("dual_gap_"),
            n_iters=along("n_iter_"),
            statuses=along("status_"),
            **fields,
        )

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:  # for copies and pickles
        return (), vars(self)

    def __repr__(self) -> str:
        first, last, n = self.reg_lambdas[0], self.reg_lambdas[-1], len(self.reg_lambdas)
        met = np.count_nonzero(np.all(np.atleast_2d(self.statuses == "converged"), axis=0))
        fields = ", ".join(dict.fromkeys((*self._unpacked, *vars(self))))
        return (
            f"<{type(self).__name__}: {n} values of reg_lambda from {first:g} to {last:g}, {met} "
            f"converged; fields {fields}>"
        )


class PathValues(NamedTuple):
    """The values themselves in descending order, or their number and range."""

    values: NDArray[np.float64] | None
    number: int | None = None
    eps: float | None = None


def check_values(reg_lambdas: Any, number: Any, eps: Any) -> PathValues:
    """The values requested by ``reg_lambdas`` or by the other parameters."""
    number, eps = plain(number), plain(eps)
    if number is not None and not (type(number) is int and 1 <= number <= MOST_VALUES):
        raise ValueError(
            f"n_reg_lambdas must be an integer from 1 to {MOST_VALUES}, or None, got "
            f"{shown(number)}."
        )
    if eps is not None and not (isinstance(eps, float) and 0.0 < eps < 1.0):
        raise ValueError(f"eps must be a number greater than 0 and less than 1, got {shown(eps)}.")
    if reg_lambdas is None:
        return PathValues(None, number, eps)
    if number is not None:
        raise ValueError(
            f"n_reg_lambdas={number} is for reg_lambdas=None, got reg_lambdas={shown(reg_lambdas)}."
        )
    values = number_or_values("reg_lambdas", reg_lambdas)
    if isinstance(values, int):
        return PathValues(None, values, eps)
    if eps is not None:
        raise ValueError(
            f"eps={eps} is for a number of values, got reg_lambdas={shown(reg_lambdas)}."
        )
    return PathValues(np.sort(values)[::-1])


def fit_path(
    estimator: Any,
    values: Sequence[float] | Numbers,
    solve: Callable[[int, int, Any, float | None], tuple[SolverResult, Any]],
    attributes: Callable[[int, list[SolverResult]], dict[str, Any]],
    *,
    n_subproblems: int = 1,
    limit: TimeLimit | None = None,
    name: str = "reg_lambda",
) -> Models:
    """Yield a fitted copy for each value in turn, with the results of its subproblems.

    Parameters
    ----------
    estimator : estimator
        A checked copy, on which the data were checked.
    values : sequence of float
        Of the parameter ``name``.
    solve : callable
        ``solve(i, k, start, seconds)`` solves subproblem k at ``values[i]``. It returns the result
        and the start at the next value; ``start`` is None at the first.
    attributes : callable
        ``attributes(i, results)``, fitted attributes apart from the certificate.
    limit : TimeLimit
        On all fits, in place of the estimator's on each: there are no copies from the fit on that
        it ends.
    """
    unfitted, features = vars(clone(estimator)), features_of(estimator)
    starts = [None] * n_subproblems
    for i, value in enumerate(values):
        results = []
        for k in range(n_subproblems):
            seconds = estimator.max_time if limit is None else limit.left
            result, starts[k] = solve(i, k, starts[k], seconds)
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            if limit is not None and result.status is Status.MAX_TIME:
                return
            results.append(result)
        model = object.__new__(type(estimator))  # a clone would take as long as a small fit
        vars(model).update(unfitted, **features, **certificate(results))
        vars(model).update({name: float(value)}, **attributes(i, results))
        yield model, results


def models_along(caller: str, estimator: Any, values: Numbers, path: Models) -> list[Any]:
    """All models of a path, with a line for each, one for all, and one warning of a missed tol."""
    lines, models, of_all = Lines(caller, estimator.verbose), [], []
    for i, (model, results) in enumerate(path):
        models.append(model)
        of_all += results
        worst = max(results, key=lambda r: r.relative_gap)
        lines.print(
            f"reg_lambda {values[i]:.4g} ({i + 1}/{len(values)}): objective {worst.primal:.8g}, "
            f"relative gap {worst.relative_gap:.2e}, {worst.status} after {iterations(worst)}"
        )
    n_converged, largest = sum(m.converged_ for m in models), max(m.relative_gap_ for m in models)
    lines.print(
        f"ended with {n_converged} of {len(values)} values converged, largest relative gap "
        f"{largest:.2e}"
    )
    warn_if_missed(caller, of_all, estimator.tol, estimator._advice)
    return models


def reported(models: Iterable[tuple[Any, list[SolverResult]]], report: Report) -> Iterator[Any]:
    """The models of a path as they come, each reported as the one of its value."""
    start = perf_counter()
    for place, (model, results) in enumerate(models):
        report(place, results, perf_counter() - start)
        yield model
        start = perf_counter()
