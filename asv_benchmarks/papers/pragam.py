"""Saha, Zhang and Vishwanathan, Lower Bounds for BMRM and Faster Rates for Training SVMs.

The problem of section 3 on which BMRM needs 1/(2 lambda eps) iterations, the rate (26) of Pragam,
and figures 1 to 4: error in the objective and test accuracy by iterations and by CPU time of
pragam, pragam-b, ls-bmrm (BMRM with two planes), qp-bmrm (BMRM with all), liblinear (LinearSVC) and
pegasos, at the paper's values of lambda, on those of its data sets that are in the folder and on
stand-ins that the first table names. No solver but pragam-b has an intercept.

What differs from the paper: pragam adapts its L, as there, and starts again from its best dual
point where the gap has fallen to a tenth, which the paper does not; "algorithm 1" has a fixed L and
no such start, but its L is the largest there is; pegasos-1 is SGDClassifier, with the step
1/(lambda (t + t_0)); liblinear shrinks.

python asv_benchmarks/papers/pragam.py --data FOLDER --figure pragam.png
"""

import _pragam_figure as figure
import _pragam_findings as findings
import _pragam_lower_bound as lower_bound
import _pragam_rate as rate
import _pragam_solvers as solvers
from _common import Study, run
from _pragam_data import tasks_of

_SECONDS = 8.0  # CPU time of a solver on a data set
_REFERENCE_SECONDS = 12.0
_LEAST_SECONDS = 90.0  # that have to be left for another data set


def reproduce(study: Study) -> None:
    tasks = tasks_of(study.tasks)
    print("\nData")
    for task in tasks:
        print(f"{task.name:<14} {task.size:>18}  {task.note}")
    unit, papers = lower_bound.run(study)
    rates = rate.run(study, tasks[0])

    traces: findings.Traces = {}
    best: dict[str, float] = {}
    for k, task in enumerate(tasks):
        if study.seconds_left < _LEAST_SECONDS:
            print(f"\nno time for {', '.join(late.name for late in tasks[k:])}")
            tasks = tasks[:k]
            break
        best[task.name], bound = solvers.optimum(task, False, _REFERENCE_SECONDS)
        with_intercept, _ = solvers.optimum(task, True, _REFERENCE_SECONDS)
        print(f"\n{task.name}: J* = {best[task.name]:.8f}, known to {best[task.name] - bound:.0e}")
        traces[task.name] = {
            name: solve(task, best[task.name], _SECONDS) for name, solve in solvers.SOLVERS.items()
        }
        traces[task.name]["pragam-b"] = solvers.pragam(task, with_intercept, _SECONDS, True)
        for name, trace in traces[task.name].items():
            study.keep(data=task.name, reg_lambda=task.reg_lambda, solver=name, **vars(trace))
    findings.show(study, tasks, traces, best)
    study.draw(lambda plt: figure.make(plt, tasks, traces, best))
    study.draw(
        lambda plt: figure.make_rates(plt, unit, papers, rates, tasks[0].name), suffix="_rates"
    )


if __name__ == "__main__":
    run(__doc__, reproduce)
