"""Many values of reg_lambda: which ones, fits along them, and what functions of paths return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self, TypeVarTuple, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sklearn_bundle.core.base import certificate, features_of
from sklearn_bundle.core.contract import SolverResult, Status, TimeLimit
from sklearn_bundle.core.fit import CertifiedEstimator, regions_of
from sklearn_bundle.core.parallel import blas_threads, split_threads
from sklearn_bundle.core.search import MOST_VALUES, number_or_values
from sklearn_bundle.core.values import plain, shown
from sklearn_bundle.core.warm import WarmStart

Unpacked = TypeVarTuple("Unpacked")
Numbers = NDArray[np.float64]


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


class Grid(NamedTuple):
    """The values themselves in descending order, or their number and range."""

    values: NDArray[np.float64] | None
    number: int | None = None
    eps: float | None = None


def check_grid(reg_lambdas: Any, number: Any, eps: Any) -> Grid:
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
        return Grid(None, number, eps)
    if number is not None:
        raise ValueError(
            f"n_reg_lambdas={number} is for reg_lambdas=None, got reg_lambdas={shown(reg_lambdas)}."
        )
    values = number_or_values("reg_lambdas", reg_lambdas)
    if isinstance(values, int):
        return Grid(None, values, eps)
    if eps is not None:
        raise ValueError(
            f"eps={eps} is for a number of values, got reg_lambdas={shown(reg_lambdas)}."
        )
    return Grid(np.sort(values)[::-1])


class PathEnd(NamedTuple):
    """What the fit of a subproblem at one value of a path left: its state and its result.

    ``name`` is that of the solver, if it has one.
    """

    start: Any
    result: SolverResult
    name: str = ""

    def is_final(self, tol: float) -> bool:
        """Whether another fit would not come closer to ``tol``."""
        return self.result.relative_gap <= tol or self.result.status is Status.STALLED


#: By reg_lambda and subproblem.
Ends = dict[tuple[float, int], PathEnd]


def fit_path(
    estimator: CertifiedEstimator,
    data: Any,
    reg_lambdas: Sequence[float] | Numbers,
    seed: int | None = None,
    limit: TimeLimit | None = None,
    ends: Ends | None = None,
) -> Iterator[tuple[CertifiedEstimator, list[SolverResult]]]:
    """Yield a fitted copy for each value in turn, with the results of its subproblems.

    ``estimator`` is a checked copy, and ``data`` are the data that it has checked. All fits use
    ``seed``. A ``limit`` on all of them replaces the estimator's on each: there are no copies from
    the fit on that it ends.

    With ``ends``, what earlier fits to the same data left by their value, a fit goes on from there
    and not from the value before, and one that cannot come closer is kept. They become those of
    these fits.
    """
    unfitted = clone(estimator)
    bounded = estimator._bounds_paths
    estimator._limit(data)
    _, n_threads = split_threads(estimator.n_jobs, 1)
    with estimator._problems(data, n_threads) as problems:
        if limit is not None:
            estimator.max_time = limit.part(len(reg_lambdas), 0.0).left
        with blas_threads(1):
            ahead = [estimator._along(problem, reg_lambdas) for problem in problems]
        warm = WarmStart(None, [None if known is None else known.start for known in ahead])
        results: list[SolverResult] = []
        for i, reg_lambda in enumerate(reg_lambdas):
            estimator.reg_lambda = float(reg_lambda)
            before, results = results, []
            warm.match((i,))
            for k, problem in enumerate(problems):
                known = None if ahead[k] is None else ahead[k].results[i]
                if known is not None:
                    results.append(known)
                    continue
                if i > 0 and ahead[k] is not None:
                    point = before[k].point, before[k].intercept
                    warm.kept[k] = replace(warm.kept[k], point=point)
                last = None if ends is None else ends.get((estimator.reg_lambda, k))
                if last is not None:
                    warm.kept[k] = last.start
                name = "" if last is None else last.name
                if last is not None and last.is_final(estimator.tol):
                    result, ended = last.result, cast(Any, last)  # all that is asked of it: a name
                    warm.leave(k, result, estimator.tol, last.start, ended)
                else:
                    if limit is not None:
                        estimator.max_time = limit.left
                    with blas_threads(1):
                        solver, result = estimator._run_next_value(problem, warm.kept[k], seed)
                    if limit is not None and result.status is Status.MAX_TIME:
                        return
                    name = getattr(solver, "name", "")
                    kept = estimator._next_start(solver, result, warm.kept[k])
                    warm.leave(k, result, estimator.tol, kept, estimator._released(solver))
                if bounded:
                    result = replace(result, region=estimator._region(problem, result))
                if ends is not None:
                    ends[estimator.reg_lambda, k] = PathEnd(warm.kept[k], result, name)
                results.append(result)
            fitted = estimator._model(data, [(r.point, r.intercept) for r in results])
            fitted |= certificate(results) | estimator._further_attributes(data, warm)
            if bounded:
                fitted["_regions"] = regions_of(results)
            model = object.__new__(type(estimator))  # a clone would take as long as a small fit
            model.__dict__.update(vars(unfitted), reg_lambda=estimator.reg_lambda)
            model._set_fitted(features_of(estimator) | fitted)
            yield model, results
