"""sklearn_bundle.projection.project against numpy code that sorts.

Part A  min 1/2 sum d_i^2 (a_i - m_i)^2 subject to 0 <= a_i <= u_i and sum sigma_i a_i = 0, with
        random m, d, u and sigma of both signs; the peer sorts the 2n kinks (argsort)
Part B  the unit simplex; the peer sorts n values (sort), for which numpy has vector code

Microseconds of CPU time a call, medians. Where n is below 10^5, 10^5/n calls are timed together,
each with data of its own: over the same data again the processor learns where the branches go.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import fsum
from statistics import median
from typing import Any

import numpy as np
from _measure import Table, header, quiet_single_thread, take_turns, write_json
from benchmarks.common import Array
from benchmarks.projection import Problem, general, simplex

from sklearn_bundle.projection import project

HELP = "projection onto a box cut by a hyperplane: numpy code that sorts"

_ITEMS = 10**5  # in all calls that are timed together
_COLUMNS = (
    *(("n", 9), ("numpy us", 12), ("ours us", 12), ("ratio", 7), ("asked", 5)),
    *(("difference", 10), ("numpy off", 10), ("ours off", 10)),
)


def sorting_kinks(m: Array, d: Array, sigma: Array, lower: Any, upper: Any, z: float) -> Array:
    """The general problem: where the sum crosses z, by the slopes between its sorted kinks.

    It is for random data: ties at the crossing would need more care.
    """
    ratio = sigma / d**2
    weight = sigma * ratio
    at_lower, at_upper = (lower - m) / ratio, (upper - m) / ratio
    kinks = np.concatenate([np.minimum(at_lower, at_upper), np.maximum(at_lower, at_upper)])
    order = np.argsort(kinks)
    kinks = kinks[order]
    slopes = np.cumsum(np.concatenate([weight, -weight])[order])
    least = np.sum(np.where(sigma > 0.0, sigma * lower, sigma * upper))
    sums = least + np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(kinks))])
    i = np.clip(np.searchsorted(sums, z) - 1, 0, len(kinks) - 2)
    t = kinks[i] + (z - sums[i]) / slopes[i]
    return np.clip(m + t * ratio, lower, upper)


def sorting_values(m: Array, sigma: float, z: float) -> Array:
    """The simplex ``sum a = z``; sigma is 1."""
    values = np.sort(m)[::-1]
    excess = np.cumsum(values) - z
    count = np.arange(1, len(m) + 1)
    last = np.flatnonzero(values * count > excess)[-1]
    return np.maximum(m - excess[last] / (last + 1), 0.0)


@dataclass(frozen=True)
class Part:
    """A problem, the peer that solves it, and the ratios asked for by n."""

    title: str
    problem: Callable[[int, int], Problem]  # of n and a seed
    peer: Callable[..., Array]
    asked: dict[int, float | None]


_SIZES = (10**3, 10**4, 10**5, 10**6, 10**7)
PARTS = {
    "A": Part(
        title="Part A: box cut by a hyperplane, peer argsort of the 2n kinks",
        problem=general,
        peer=sorting_kinks,
        asked=dict(zip(_SIZES, (3.0, 1.5, 1.5, 5.0, 5.0), strict=True)),
    ),
    "B": Part(
        title="Part B: unit simplex, peer sort of the n values",
        problem=simplex,
        peer=sorting_values,
        asked=dict.fromkeys(_SIZES),
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", choices=sorted(PARTS), help="one part alone")
    parser.add_argument("--same", action="store_true", help="the same data in every call")


def run(arguments: argparse.Namespace) -> None:
    """Print the tables."""
    print(header(__doc__.strip()))
    results: list[dict[str, Any]] = []
    for name in [arguments.part] if arguments.part else sorted(PARTS):
        part = PARTS[name]
        print(f"\n{part.title}")
        table = Table(_COLUMNS)
        for n in part.asked:
            with quiet_single_thread():
                result = {"part": name, **compare(part, n, arguments.repeat, arguments.same)}
            results.append(result)
            _print_row(table, result)
            write_json(arguments.json, results)


def compare(part: Part, n: int, repeat: int, same: bool = False) -> dict[str, Any]:
    """All numbers of a row; the first calls compile and give the solutions."""
    calls = max(1, _ITEMS // n)
    problems = [part.problem(n, 0 if same else seed) for seed in range(calls)]
    solvers = {"numpy": part.peer, "ours": project}

    def solve_all(solve: Callable[..., Array]) -> list[Array]:
        return [solve(m, **constraints) for m, constraints in problems]

    solutions = {name: solve_all(solve) for name, solve in solvers.items()}
    runs = {name: (partial(solve_all, solve), 0.0) for name, solve in solvers.items()}
    seconds = take_turns(runs, repeat)
    pairs = zip(*solutions.values(), strict=True)
    return {
        "n": n,
        "asked": part.asked[n],
        "seconds": {name: median(taken) / calls for name, taken in seconds.items()},
        "difference": max(float(np.abs(a - b).max()) for a, b in pairs),
        "off": {name: _largest_residual(problems, found) for name, found in solutions.items()},
    }


def _largest_residual(problems: list[Problem], solutions: list[Array]) -> float:
    """``|sum sigma a - z|``, the sum without rounding."""
    pairs = zip(problems, solutions, strict=True)
    return max(abs(fsum(data["sigma"] * a) - data["z"]) for (_, data), a in pairs)


def _print_row(table: Table, result: dict[str, Any]) -> None:
    numpy_seconds, our_seconds = (result["seconds"][name] for name in ("numpy", "ours"))
    table.row(
        f"{result['n']}",
        f"{1e6 * numpy_seconds:.1f}",
        f"{1e6 * our_seconds:.1f}",
        f"{numpy_seconds / our_seconds:.2f}",
        "-" if result["asked"] is None else f"{result['asked']:g}",
        f"{result['difference']:.1e}",
        f"{result['off']['numpy']:.1e}",
        f"{result['off']['ours']:.1e}",
    )
