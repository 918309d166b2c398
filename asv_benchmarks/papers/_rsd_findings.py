"""What Yu and Rousu (2007) say of the ways to apply RSD, beside the fits here."""

from typing import Any

import numpy as np
from _common import Study
from _rsd_data import Task
from _rsd_fits import (
    BY_LIMIT,
    LIMITS,
    METHODS,
    ONE,
    PLANES,
    PRODUCT,
    TARGETS,
    VARIANTS,
    WORKING,
    Fit,
    Kind,
)

_MIDDLE = TARGETS[1]  # a gap at which zigzagging shows, and that most fits reach
_SIGNIFICANT = 2.0  # times fewer oracle calls
_MODERATE = 10  # points of a simplex: the paper names no number
_CLOSE = 0.1  # share of the oracle calls: masters are solved to a share of the gap


def compare_all(study: Study, found: list[tuple[Task, dict[Kind, Fit]]]) -> None:
    """Keep a finding for every statement that the fits can decide."""
    for task, fits in found:
        _limits(study, task.title, fits)
        _methods(study, task.title, fits)
        _masters(study, task.title, fits)
        _variants(study, task.title, fits)
    study.compare(
        "2.1, from Hearn et al.",
        "convergence is finite if the limit is at least the dimension of the optimal face",
        "all fits end at a gap, where nothing tells whether they would end at 0",
        None,
    )
    study.compare(
        "3.2",
        "at later stages one may pick key examples into the working set",
        "the working sets here are chosen so at all stages: there is nothing to compare with",
        None,
    )


def _limits(study: Study, title: str, fits: dict[Kind, Fit]) -> None:
    least = LIMITS[0]
    for name, kinds in BY_LIMIT.items():
        by_limit = dict(zip(LIMITS, (fits[kind] for kind in kinds), strict=True))
        told = ", ".join(f"r = {r}: {_calls(fit, _MIDDLE)}" for r, fit in by_limit.items())
        at = by_limit[_MODERATE].calls(_MIDDLE)
        agrees = None
        if at is not None:
            agrees = _SIGNIFICANT * at <= (by_limit[least].calls(_MIDDLE) or np.inf)
        study.compare(
            f"2.1, {title}, {name}",
            "a moderate increase of the limit alleviates the zigzagging significantly",
            f"oracle calls over n to a gap of {_MIDDLE:g}: {told}",
            agrees,
        )
    product = [fits[kind] for kind in BY_LIMIT["product of simplexes"]]
    told = ", ".join(
        f"r = {r}: {_calls(fit, _MIDDLE)} calls, {_seconds(fit, _MIDDLE)} s"
        for r, fit in zip(LIMITS, product, strict=True)
    )
    first, last = (fit.calls(_MIDDLE) for fit in (product[0], product[-1]))
    study.compare(
        f"3.2, {title}",
        "where inference is costly one may want to keep more points, and solve larger masters",
        f"product, to a gap of {_MIDDLE:g}: {told}",
        None if last is None else last <= (first or np.inf),
    )


def _methods(study: Study, title: str, fits: dict[Kind, Fit]) -> None:
    told = ", ".join(f"{kind.label} {_calls(fits[kind], _MIDDLE)}" for kind in METHODS)
    told = f"oracle calls over n to a gap of {_MIDDLE:g}: {told}"
    one, product, working = (fits[kind].calls(_MIDDLE) for kind in (ONE, PRODUCT, WORKING))
    study.compare(
        f"3.2, {title}",
        "a product of simplexes makes more progress an iteration than one simplex",
        told,
        None if product is None else product < (one or np.inf),
    )
    seconds = ", ".join(f"{kind.label} {_seconds(fits[kind], _MIDDLE)}" for kind in METHODS)
    study.compare(
        f"3.2, {title}",
        "coordinate ascent can be inefficient: a large working set, or none, is better",
        f"{told}; CPU seconds: {seconds}",
        None if product is None else product < (working or np.inf),
    )
    planes = fits[PLANES].calls(_MIDDLE)
    study.compare(
        f"3.4, {title}",
        "column generation is simplicial decomposition; so, of one simplex, cutting planes for "
        "the risk of all examples together",
        f"oracle calls over n to a gap of {_MIDDLE:g}: cutting planes "
        f"{_calls(fits[PLANES], _MIDDLE)}, one simplex without limit {_calls(fits[ONE], _MIDDLE)}",
        None if planes is None or one is None else abs(one - planes) <= _CLOSE * planes,
    )


def _masters(study: Study, title: str, fits: dict[Kind, Fit]) -> None:
    one, product = fits[ONE], fits[PRODUCT]
    study.compare(
        f"3.2, {title}",
        "the product pays for its progress by the size of its masters",
        f"time beside the oracle, in passes of it and a pass: one simplex {one.other_per_pass:.1f}"
        f", product {product.other_per_pass:.1f}",
        product.other_per_pass > one.other_per_pass,
    )
    shares = {kind: fits[kind].oracle_share for kind in METHODS[1:]}
    told = ", ".join(f"{kind.label} {100.0 * share:.0f} %" for kind, share in shares.items())
    study.compare(
        f"3.2, {title}",
        "finding the extreme points forms the main computation overhead",
        f"share of the oracle in the CPU time: {told}",
        min(shares.values()) > 0.5,
    )


def _variants(study: Study, title: str, fits: dict[Kind, Fit]) -> None:
    rescaled: list[Any] = [fits[kind] for kind in VARIANTS if kind in fits]
    rescaled = [fit for fit in rescaled if fit.kind.scaling == "slack"]
    if not rescaled:
        return
    told = ", ".join(
        f"{fit.kind.loss}, {fit.kind.label}: {_calls(fit, TARGETS[-1])}" for fit in rescaled
    )
    study.compare(
        f"4.2, {title}",
        "RSD applies to rescaled slacks too, and to the cone of their squares",
        f"oracle calls over n to a gap of {TARGETS[-1]:g}: {told}",
        all(fit.calls(TARGETS[-1]) is not None for fit in rescaled),
    )


def _calls(fit: Fit, eps: float) -> str:
    calls = fit.calls(eps)
    return f"more than {fit.curve.calls[-1]:.0f}" if calls is None else f"{calls:.0f}"


def _seconds(fit: Fit, eps: float) -> str:
    seconds = fit.seconds(eps)
    return f"more than {fit.curve.seconds[-1]:.2f}" if seconds is None else f"{seconds:.2f}"
