"""Tables of Saha, Zhang and Vishwanathan's figures 1 to 4, and what the paper says about them."""

from collections.abc import Sequence

import numpy as np
from _common import Study
from _pragam_data import Task
from _pragam_solvers import Trace

ERRORS = (1e-2, 1e-3, 1e-4, 1e-5)
_LOW, _HIGH = ERRORS[1], ERRORS[-1]  # "low accuracies like 1e-3"
_SIMILAR = 0.5  # points of test accuracy
_NEAR = 0.2  # points below the final accuracy
_SLOW = ("ls-bmrm", "pegasos-n")  # those with 1/eps rates
Traces = dict[str, dict[str, Trace]]


def show(study: Study, tasks: Sequence[Task], traces: Traces, best: dict[str, float]) -> None:
    """Figures 1 and 2 as tables, figures 3 and 4 as one, and the statements about them."""
    for unit, title in (
        ("iteration", "Figure 1: iterations to an error J - J*"),
        ("seconds", "Figure 2: CPU seconds to an error J - J*"),
    ):
        rows = []
        for task in tasks:
            for name, trace in traces[task.name].items():
                if name == "pragam-b":  # has an optimum of its own
                    continue
                cells = [_cell(trace, eps, best[task.name], unit) for eps in ERRORS]
                last = f"{trace.error(best[task.name])[-1]:.1e}"
                rows.append([f"{task.name} {_power(task)}", name, *cells, last])
        columns = ["data", "solver", *(f"to {eps:g}" for eps in ERRORS), "at the end"]
        study.show(title, columns, rows)
    rows = []
    for task in tasks:
        for name, trace in traces[task.name].items():
            level = trace.accuracy[-1] - _NEAR
            rows.append(
                [
                    f"{task.name} {_power(task)}",
                    name,
                    f"{trace.accuracy[-1]:.2f}",
                    f"{trace.reaches(level, 'iteration'):.0f}",
                    f"{trace.reaches(level, 'seconds'):.2g}",
                ]
            )
    study.show(
        f"Figures 3 and 4: test accuracy, and first within {_NEAR:g} points of its last",
        ["data", "solver", "last (%)", "iterations", "CPU s"],
        rows,
    )
    _compare_iterations(study, tasks, traces, best)
    _compare_seconds(study, tasks, traces, best)
    _compare_accuracies(study, tasks, traces, best)


def _compare_iterations(
    study: Study, tasks: Sequence[Task], traces: Traces, best: dict[str, float]
) -> None:
    def iterations(task: Task, name: str, eps: float) -> float:
        return traces[task.name][name].first(eps, best[task.name], "iteration")

    for other in _SLOW:
        pairs = [
            (iterations(task, "pragam", eps), iterations(task, other, eps))
            for task in tasks
            for eps in ERRORS
        ]
        pairs = [pair for pair in pairs if np.isfinite(min(pair))]
        fewer = sum(a < b for a, b in pairs)
        study.compare(
            "figure 1",
            f"Pragam converges faster than {other}, in iterations.",
            f"Fewer iterations in {fewer} of the {len(pairs)} cases (data set, error) that one of "
            "the two reached.",
            fewer == len(pairs),
        )
    others = ("pragam", "ls-bmrm", "pegasos-n", "qp-bmrm")
    first = [
        iterations(task, "liblinear", eps) < min(iterations(task, name, eps) for name in others)
        for task in tasks
        for eps in ERRORS
    ]
    study.compare(
        "figure 1",
        "liblinear converges much faster than the rest, in iterations.",
        f"The fewest iterations in {sum(first)} of {len(first)} cases.",
        all(first),
    )
    ahead = [
        iterations(task, "qp-bmrm", _LOW) < iterations(task, "ls-bmrm", _LOW) for task in tasks
    ]
    study.compare(
        "figure 1",
        "qp-bmrm is also fast, in iterations.",
        f"To an error of {_LOW:g} fewer than ls-bmrm on {sum(ahead)} of {len(ahead)} sets.",
        all(ahead),
    )


def _compare_seconds(
    study: Study, tasks: Sequence[Task], traces: Traces, best: dict[str, float]
) -> None:
    def seconds(task: Task, name: str, eps: float) -> float:
        return traces[task.name][name].first(eps, best[task.name], "seconds")

    rivals = ("ls-bmrm", "pegasos-1")

    def against(eps: float) -> list[tuple[float, float]]:
        """Of Pragam and of the faster rival, on the sets where one of them got there."""
        pairs = [
            (seconds(task, "pragam", eps), min(seconds(task, name, eps) for name in rivals))
            for task in tasks
        ]
        return [pair for pair in pairs if np.isfinite(min(pair))]

    slow = [a > b for a, b in against(_LOW)]
    study.compare(
        "figure 2",
        "Pragam is not fast in reaching low accuracies like 1e-3.",
        f"Slower than ls-bmrm or pegasos-1 to {_LOW:g} on {sum(slow)} of the {len(slow)} sets "
        "where one of the three got there.",
        sum(slow) > len(slow) / 2,
    )
    fast = [a < b for a, b in against(_HIGH)]
    study.compare(
        "figure 2",
        "It is quite competitive where high accuracy is wanted, where ls-bmrm and pegasos-1 often "
        "take long.",
        f"Faster than both to {_HIGH:g} on {sum(fast)} of the {len(fast)} sets where one of the "
        "three got there.",
        sum(fast) > len(fast) / 2,
    )
    others = ("pragam", "ls-bmrm", "pegasos-n", "pegasos-1", "qp-bmrm")
    first = [
        seconds(task, "liblinear", eps) < min(seconds(task, name, eps) for name in others)
        for task in tasks
        for eps in ERRORS
    ]
    study.compare(
        "figure 2",
        "liblinear is much faster than the other algorithms.",
        f"The least CPU time in {sum(first)} of {len(first)} cases (data set, error).",
        all(first),
    )


def _compare_accuracies(
    study: Study, tasks: Sequence[Task], traces: Traces, best: dict[str, float]
) -> None:
    spread = {}
    for task in tasks:
        last = [
            trace.accuracy[-1]
            for name, trace in traces[task.name].items()
            if name != "pragam-b" and trace.error(best[task.name])[-1] <= _LOW
        ]
        spread[task.name] = max(last) - min(last)
    study.compare(
        "figures 3, 4",
        "Asymptotically all solvers achieve very similar test accuracy.",
        f"Solvers that ended within {_LOW:g} of J* differ by at most {max(spread.values()):.2f} "
        "points.",
        max(spread.values()) <= _SIMILAR,
    )
    later = []
    for task in tasks:
        both = [traces[task.name][name] for name in ("pragam", "liblinear")]
        level = min(trace.accuracy[-1] for trace in both) - _NEAR
        a, b = (trace.reaches(level, "seconds") for trace in both)
        later.append(a > b)
    study.compare(
        "figures 3, 4",
        "Pragam's test accuracy is not improved efficiently.",
        f"It comes within {_NEAR:g} points of the last accuracy later than liblinear, in CPU time, "
        f"on {sum(later)} of {len(later)} sets.",
        sum(later) > len(later) / 2,
    )
    gains = {}
    for task in tasks:
        last = {name: trace.accuracy[-1] for name, trace in traces[task.name].items()}
        gains[task.name] = last.pop("pragam-b") - max(last.values())
    listed = ", ".join(f"{name} {gain:+.2f}" for name, gain in gains.items())
    study.compare(
        "figures 3, 4",
        "The last accuracy of Pragam-b is always higher than or similar to that of the others.",
        f"Pragam-b minus the best of the others, in points: {listed}.",
        min(gains.values()) >= -_SIMILAR,
    )
    for unit, words in (("iteration", "iterations"), ("seconds", "CPU time")):
        sooner = []
        for task in tasks:
            both = [traces[task.name][name] for name in ("pragam-b", "pragam")]
            level = min(trace.accuracy[-1] for trace in both) - _NEAR
            a, b = (trace.reaches(level, unit) for trace in both)
            sooner.append(a < b)
        study.compare(
            "figures 3, 4",
            f"In most cases Pragam-b achieves the same test accuracy faster, in {words}.",
            f"On {sum(sooner)} of {len(sooner)} sets ({_NEAR:g} points below the lower of the two "
            "last accuracies).",
            sum(sooner) > len(sooner) / 2,
        )


def _power(task: Task) -> str:
    return f"2^{np.log2(task.reg_lambda):.0f}"


def _cell(trace: Trace, eps: float, best: float, unit: str) -> str:
    value = trace.first(eps, best, unit)
    if np.isfinite(value):
        return f"{value:.0f}" if unit == "iteration" else f"{value:.2g}"
    last = getattr(trace, unit)[-1]
    return f">{last}" if unit == "iteration" else f">{last:.2g}"
