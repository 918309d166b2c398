"""Compile ahead of the first fit: ``python -m sklearn_bundle.compile [estimator ...]``.

numba compiles on first use and keeps the machine code on disk. To compile when an image is built,
or before a first fit is timed, this module fits each estimator to data of a few rows, dense and
CSR, in single and double precision, with the solvers that its defaults may choose.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import sklearn_bundle
from sklearn_bundle.jit.announce import logged
from sklearn_bundle.jit.cache import named_folder
from sklearn_bundle.linear.solvers.linear_auto import supports
from sklearn_bundle.losses import BINARY_LOSSES, MEASURES, MULTICLASS_LOSSES, REGRESSION_LOSSES
from sklearn_bundle.regularizers import L2

__all__ = ["compile_estimators"]

_ROWS, _FEATURES = 60, 12  # few, but more features than a vector has lanes
_SOLVERS = "newton", "lbfgs", "dual-coordinate", "line-search"  # candidates of "auto"

Fit = Callable[[], Any]


class Done(NamedTuple):
    """What was compiled for an estimator.

    Attributes
    ----------
    estimator : str
    n_compiled : int
        Number of compiled functions, without those loaded from a cache folder.
    seconds : float
        Wall clock time, including the fits.
    """

    estimator: str
    n_compiled: int
    seconds: float


def _fit(model: Any, X: Any, *y: Any) -> None:
    model.fit(X, *y).predict(X)


def _matrices(rng: np.random.Generator) -> Iterator[Any]:
    for dtype in (np.float64, np.float32):
        X = rng.normal(size=(_ROWS, _FEATURES)).astype(dtype)
        yield X
        yield sp.csr_matrix(X)


def _labels(rng: np.random.Generator, n_classes: int) -> np.ndarray:
    return rng.permutation(np.arange(_ROWS) % n_classes)


def _linear(
    name: str, loss: str, kind: type, targets: Callable[[np.random.Generator], np.ndarray]
) -> Iterator[Fit]:
    """Fits with "auto" and by every solver that it may choose for the loss."""
    rng = np.random.default_rng(0)
    known = [solver for solver in _SOLVERS if supports(solver, kind(), L2())]
    for X in _matrices(rng):
        for solver in ("auto", *known):
            estimator = getattr(sklearn_bundle, name)(loss, reg_lambda=1e-2, solver=solver)
            yield partial(_fit, estimator, X, targets(rng))


def _classifiers() -> Iterator[Fit]:
    for loss, kind in BINARY_LOSSES.items():
        yield from _linear("BMRMClassifier", loss, kind, lambda rng: _labels(rng, 2))
    for loss in ("multiclass_hinge", "softmax"):
        kind = MULTICLASS_LOSSES[loss]
        yield from _linear("BMRMClassifier", loss, kind, lambda rng: _labels(rng, 3))
    for loss, kind in MEASURES.items():
        yield from _linear("BMRMClassifier", loss, kind, lambda rng: _labels(rng, 2))


def _regressors() -> Iterator[Fit]:
    for loss, kind in REGRESSION_LOSSES.items():
        yield from _linear("BMRMRegressor", loss, kind, lambda rng: rng.random(_ROWS))


def _rankers() -> Iterator[Fit]:
    rng = np.random.default_rng(0)
    groups = np.arange(_ROWS) // 6
    for X in _matrices(rng):
        grades = rng.integers(1, 4, _ROWS)
        pairs = rng.permutation(_ROWS).reshape(-1, 2)
        for loss, y, further in (
            ("ordinal", grades, {}),
            ("preference", pairs, {}),
            ("ndcg", grades, {"group": groups}),
        ):
            yield partial(sklearn_bundle.BMRMRanker(loss, reg_lambda=1e-2).fit, X, y, **further)


def _fits(name: str, *, labels: int | None, **parameters: Any) -> Iterator[Fit]:
    """Fits and predictions of an estimator; ``labels`` is the number of classes, 0 for numbers."""
    rng = np.random.default_rng(0)
    for X in _matrices(rng):
        y = () if labels is None else (_labels(rng, labels) if labels else rng.random(_ROWS),)
        model = getattr(sklearn_bundle, name)(**parameters)
        yield partial(_fit, model, X, *y)


def _swap() -> Iterator[Fit]:
    for kernel in ("rbf", "linear"):
        for solver in ("auto", "decomposition"):
            yield from _fits("SwapSVC", labels=2, kernel=kernel, solver=solver)
        yield from _fits("SwapSVC", labels=2, kernel=kernel, loss="hinge")


def _swap_svr() -> Iterator[Fit]:
    for loss in ("squared_epsilon_insensitive", "epsilon_insensitive"):
        yield from _fits("SwapSVR", labels=0, loss=loss)


def _swap_novelty() -> Iterator[Fit]:
    for nu in (None, 0.1):
        yield from _fits("SwapNoveltyDetector", labels=None, nu=nu)


def _sequences(rng: np.random.Generator) -> Iterator[tuple[list, list]]:
    """Chains as attribute dictionaries, and as rows of features."""
    tags = [["DT", "JJ", "NN", "VB"], ["PRP", "VB", "DT", "NN"], ["DT", "NN", "VB"]]
    yield [[{"word": f"{tag}{k % 2}"} for k, tag in enumerate(line)] for line in tags], tags
    for dtype in (np.float64, np.float32):
        yield [rng.normal(size=(len(line), _FEATURES)).astype(dtype) for line in tags], tags


def _chains() -> Iterator[Fit]:
    for X, y in _sequences(np.random.default_rng(0)):
        model = sklearn_bundle.SDCACRF(random_state=0)
        yield partial(_fit, model, X, y)


def _structured() -> Iterator[Fit]:
    rng = np.random.default_rng(0)
    for loss in ("hinge", "log"):
        for X, y in _sequences(rng):
            model = sklearn_bundle.StructuredSVM("chain", loss=loss, random_state=0)
            yield partial(_fit, model, X, y)
        for X in _matrices(rng):
            y = _labels(rng, 3)
            model = sklearn_bundle.StructuredSVM("multiclass", loss=loss, random_state=0)
            yield partial(_fit, model, X, y)


# By the name of the estimator. Searches, paths and one-versus-rest call the same functions.
ESTIMATORS: dict[str, Callable[[], Iterator[Fit]]] = {
    "BMRMClassifier": _classifiers,
    "BMRMRegressor": _regressors,
    "BMRMRanker": _rankers,
    "BMRMNoveltyDetector": lambda: _fits("BMRMNoveltyDetector", labels=None),
    "PragamSVC": lambda: _fits("PragamSVC", labels=2, reg_lambda=1e-2),
    "SwapSVC": _swap,
    "SwapSVR": _swap_svr,
    "SwapNoveltyDetector": _swap_novelty,
    "SDCACRF": _chains,
    "StructuredSVM": _structured,
}


def compile_estimators(
    names: Sequence[str] = (), *, report: Callable[[Done], Any] | None = None
) -> list[Done]:
    """Compile the functions that first fits of estimators need, so that later processes load them.

    Parameters
    ----------
    names : sequence of str, default=()
        Estimators, such as "BMRMClassifier" or "SDCACRF"; empty means all. A search, such as
        BMRMClassifierCV, calls the same functions as its estimator.
    report : callable, default=None
        Called with each entry of the result as soon as it is available.

    Returns
    -------
    done : list of Done
        For each estimator its name, the number of compiled functions (0 if all were cached) and the
        time in seconds.

    Raises
    ------
    ValueError
        For a name that is not in ``ESTIMATORS``, before anything is compiled.

    See Also
    --------
    sklearn_bundle.BMRMClassifier : Its fit compiles what it needs.

    Notes
    -----
    This covers the losses and solvers that default parameters may use and, for linear classifiers
    and regressors, all losses, with dense arrays and CSR matrices (32-bit indices) in single and
    double precision. Other regularizers, kernels and output structures compile their own functions
    on first use.

    Examples
    --------
    >>> from sklearn_bundle.compile import compile_estimators
    >>> [done.estimator for done in compile_estimators(["SwapNoveltyDetector"])]
    ['SwapNoveltyDetector']
    """
    wrong = [name for name in names if name not in ESTIMATORS]
    if wrong:
        near = get_close_matches(wrong[0], ESTIMATORS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"{wrong[0]!r} is not an estimator that can be compiled ahead; these are: "
            f"{', '.join(ESTIMATORS)}.{hint}"
        )
    result = []
    for name in names or ESTIMATORS:
        start = perf_counter()
        with logged() as log, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for fit in ESTIMATORS[name]():
                fit()
        result.append(Done(name, len(log), perf_counter() - start))
        if report is not None:
            report(result[-1])
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m sklearn_bundle.compile",
        description="Compile the functions of first fits ahead of time and keep them on disk.",
        epilog=f"Estimators: {', '.join(ESTIMATORS)}.",
    )
    parser.add_argument("estimator", nargs="*", help="estimators to compile; default: all")
    names = parser.parse_args(arguments).estimator

    def report(done: Done) -> None:
        print(
            f"{done.estimator:20} {done.n_compiled:4} compiled  {done.seconds:6.1f} s", flush=True
        )

    try:
        done = compile_estimators(names, report=report)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    seconds = sum(entry.seconds for entry in done)
    print(f"{'all':20} {sum(entry.n_compiled for entry in done):4} compiled  {seconds:6.1f} s")
    print(f"NUMBA_CACHE_DIR: {named_folder() or 'not set'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
