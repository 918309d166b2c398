"""The experiments of Allende, Frandi, Nanculef and Sartori (2013): SWAP and its peers.

Section 6 compares Frank-Wolfe (fw), with away steps (mfw), SWAP, SWAP-2o and CVM on the kernel
L2-SVM: running time, test accuracy and support vectors (figures 2 to 9), tests over all data sets
(table 2), and a polynomial kernel (figures 10 and 11). All are solvers of SwapSVC here and minimize
one objective, one-versus-one. gamma is half of one over
the mean squared distance, as there. C is what --search finds on the paper's grid.

A fit ends at a certified relative gap of 1e-3, or after 400,000 steps (40,000 for each pair of
more than two classes): where this limit ends it, the seconds have a star and are a lower bound, and
the tests take it for slower than any fit that got there.
Sets are cut so that it all takes minutes; the first table says to what. The paper ends where the
gap of the simplex problem is at most 1e-6, whatever the size of the objective.

Seconds are CPU time, one thread; a fit of less than one second is the median of three.
"""

import argparse
from functools import partial
from typing import Any

import numpy as np
from _common import Study, line, run
from _measure import MissingError
from _svm import Data
from _swap_data import SHIPPED, distance_gamma, read, size_rows, sources
from _swap_findings import compare_all
from _swap_fits import SOLVERS, compared, measure, search_C, values
from _swap_tests import LEVEL, TABLE_2, friedman, signed_rank

QUANTITIES = {
    "seconds": ("CPU seconds; * a limit ended the fit (figures 3, 8 and 9)", ".3g"),
    "steps": ("Steps; * a limit ended the fit", ",d"),
    "n_support": ("Support vectors (figures 4, 6 and 7)", ",d"),
    "accuracy": ("Accuracy on the test part, % (figures 2, 5 and 6)", ".2f"),
}
POLYNOMIAL = ("w1a", "w2a", "w3a", "w4a", "w5a", "shuttle")
_POLYNOMIAL = {"kernel": "poly", "degree": 2, "coef0": 0.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sets", nargs="+", metavar="SET", help="some sets alone")
    parser.add_argument("--search", action="store_true", help="search for C, and end")


def reproduce(study: Study) -> None:
    problems = _read(study)
    if study.arguments.search:
        rows = [[n, f"{search_C(d, 0.5 * distance_gamma(d.X)):g}"] for n, d in problems.items()]
        study.show("C", ["data", "C"], rows)
        return
    columns = ["data", "group", "m", "t", "K", "n"]
    columns += ["m here", "t here", "K here", "n here", "C", "here"]
    study.show("Table 1", columns, list(size_rows(problems, study.tasks)))
    results = _fit_all(study, problems)
    for quantity, (title, form) in QUANTITIES.items():
        show(study, title, results, quantity, form)
    polynomial = _polynomial(study, problems)
    p = _tests(study, results)
    if study.tasks is not None:
        compare_all(study, results, polynomial, p)
    study.draw(partial(draw, results))


def _read(study: Study) -> dict[str, Data]:
    problems = {}
    for name in study.arguments.sets or sources(study.tasks):
        try:
            problems[name] = read(name, study.tasks)
        except (MissingError, OSError, KeyError) as error:
            print(f"{name} skipped: {error}")
    return problems


def _fit_all(study: Study, problems: dict[str, Data]) -> list[dict[str, Any]]:
    """A result for each set, with its fits by solver."""
    results = []
    for name, data in problems.items():
        if study.seconds_left < 0.0:
            print(f"{name} skipped: no time left")
            continue
        source, gamma = sources(study.tasks)[name], 0.5 * distance_gamma(data.X)
        fits = {s: measure(s, data, source.C, gamma) for s in SOLVERS}
        results.append({"set": name, "group": source.group, "C": source.C, "fits": fits})
        study.keep(kernel="rbf", **results[-1])
    return results


def show(study: Study, title: str, results: list[dict[str, Any]], quantity: str, form: str) -> None:
    """A row for each set and a column for each solver."""
    solvers = [*results[0]["fits"]] if results else []
    rows = []
    for result in results:
        cells = []
        for fit in result["fits"].values():
            star = "*" if fit["limited"] and quantity in ("seconds", "steps") else ""
            cells.append(f"{fit[quantity]:{form}}{star}")
        rows.append([result["set"], *cells])
    study.show(title, ["data", *solvers], rows)


def _polynomial(study: Study, problems: dict[str, Data]) -> list[dict[str, Any]]:
    """Section 6.5: (gamma x'z)^2, without CVM."""
    results = []
    for name in POLYNOMIAL if study.tasks is not None else SHIPPED:
        if name not in problems or study.seconds_left < 0.0:
            continue
        data, source = problems[name], sources(study.tasks)[name]
        gamma = distance_gamma(data.X)
        fits = {s: measure(s, data, source.C, gamma, **_POLYNOMIAL) for s in SOLVERS[:4]}
        results.append({"set": name, "group": source.group, "C": source.C, "fits": fits})
        study.keep(kernel="poly", **results[-1])
    for quantity, (title, form) in QUANTITIES.items():
        title = title.partition(" (")[0] + " (figures 10 and 11)"
        show(study, f"Polynomial kernel: {title}", results, quantity, form)
    return results


def _tests(study: Study, results: list[dict[str, Any]]) -> dict[str, float]:
    """Table 2; returns the p-values of Friedman's test."""
    if len(results) < 3:
        return {}
    rows = []
    for test in TABLE_2:
        a, b = (compared(results, solver, test.quantity) for solver in (test.a, test.b))
        p = signed_rank(a, b, test.alternative)
        said = test.alternative.replace("two-sided", "differs")
        same = (p < LEVEL) == (test.p < LEVEL)
        cells = [test.quantity, test.a, test.b, said, f"{(a < b).sum()}", f"{(a > b).sum()}"]
        rows.append([*cells, f"{test.p:.2g}", f"{p:.2g}", "agrees" if same else "DISAGREES"])
        if study.tasks is not None:
            does = ("differs not", "differs")
            words = f"{test.quantity}, {test.a} against {test.b}: "
            study.compare(
                "Table 2",
                f"{words}{does[test.p < LEVEL]} at 5 % (p = {test.p:.2g}, {said})",
                f"{does[p < LEVEL]} (p = {p:.2g})",
                same,
            )
    columns = ["quantity", "a", "b", "a is", "a < b", "a > b", "p, paper", "p, here", "at 5 %"]
    study.show(f"Table 2: Wilcoxon's signed-rank test over {len(results)} sets", columns, rows)
    found = {
        quantity: friedman(np.array([compared(results, s, quantity) for s in SOLVERS]))
        for quantity in ("seconds", "accuracy")
    }
    values = ", ".join(f"{p:.2g} for the {quantity}" for quantity, p in found.items())
    print(f"\nFriedman's test that all are equal: p = {values}")
    return found


def draw(results: list[dict[str, Any]], plt: Any) -> Any:
    """Rows are quantities, columns are groups of sets."""
    groups = {"Web": ("Web",), "Adult": ("Adult",), "others": ("medium", "large")}
    if results and results[0]["group"] == "shipped":
        groups = {"shipped": ("shipped",)}
    labels = {
        "seconds": "running time, CPU s",
        "n_support": "support vectors",
        "accuracy": "test accuracy, %",
    }
    figure, axes = plt.subplots(3, len(groups), figsize=(4.0 * len(groups), 8.4), squeeze=False)
    for column, (title, members) in zip(axes.T, groups.items(), strict=True):
        chosen = [result for result in results if result["group"] in members]
        names = [result["set"] for result in chosen]
        for ax, (quantity, label) in zip(column, labels.items(), strict=True):
            # Only Web and Adult are series, of growing size.
            style = {} if title in ("Web", "Adult") else {"linestyle": "none"}
            for k, solver in enumerate(SOLVERS):
                own = values(chosen, solver, quantity)
                line(ax, names, own, k, solver, markevery=1, **style)
                if quantity == "seconds":  # a white dot in those that did not get to their gap
                    ended = np.isfinite(compared(chosen, solver, quantity))
                    ax.plot(names, np.where(ended, np.nan, own), "w.", markersize=3.0, zorder=3)
            if quantity != "accuracy":
                ax.set_yscale("log")
            ax.set_ylabel(label)
            ax.tick_params(axis="x", rotation=45)
        column[0].set_title(title)
    axes[0, 0].legend()
    return figure


if __name__ == "__main__":
    run(__doc__, reproduce, add_arguments)
