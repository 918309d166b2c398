"""What the text of section 6 of Allende et al. (2013) says, beside the fits here."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from _common import Study
from _swap_fits import compared, values

Results = list[dict[str, Any]]
METHODS = ("fw", "mfw", "swap", "swap-2o")
NAMES = {"fw": "FW", "mfw": "MFW", "swap": "SWAP", "swap-2o": "SWAP-2o", "cvm": "CVM"}
_MEDIANS = {  # speed-ups over CVM
    "Adult": {"fw": 1.45, "swap": 15.5, "swap-2o": 20.5},
    "large": {"fw": 27.3, "mfw": 15.0, "swap": 30.7, "swap-2o": 29.5},
}


def compare_all(study: Study, results: Results, polynomial: Results, p: dict[str, float]) -> None:
    """Keep a finding for every statement that the fits can decide."""
    groups = {name: [r for r in results if r["group"] == name] for name in _groups(results)}
    _speedups(study, groups)
    if "Web" in groups:
        _web(study, groups["Web"])
    if "Adult" in groups:
        _adult(study, groups["Adult"])
    _others(study, groups)
    _everywhere(study, results, p)
    _polynomial(study, results, polynomial)


def _groups(results: Results) -> list[str]:
    return [*dict.fromkeys(result["group"] for result in results)]


def _wins(results: Results, a: str, b: str, quantity: str = "seconds") -> int:
    """On how many sets a has less than b."""
    return int(np.sum(compared(results, a, quantity) < compared(results, b, quantity)))


def _ratio(results: Results, a: str, b: str, quantity: str = "seconds") -> float:
    """Median of a's over b's."""
    return float(np.median(values(results, a, quantity) / values(results, b, quantity)))


def _limited(results: Results, solver: str) -> str:
    """How many fits of a solver a limit ended."""
    count = sum(result["fits"][solver]["limited"] for result in results)
    return f"; a limit ended {NAMES[solver]} on {count}" if count else ""


def _faster(
    study: Study, where: str, results: Results, a: str, b: str, said: str, least: int | None = None
) -> None:
    """The paper: a is faster than b on at least so many sets, by default on all."""
    n, wins = len(results), _wins(results, a, b)
    undecided = sum(r["fits"][a]["limited"] and r["fits"][b]["limited"] for r in results)
    ratio = _ratio(results, b, a)
    ours = f"on {wins} of {n}; {NAMES[b]} takes {ratio:.2g} times as long in the median"
    ours += "".join(_limited(results, solver) for solver in (a, b))
    least = n if least is None else least
    open_ = wins < least <= wins + undecided  # where a limit ended both
    study.compare(where, said, ours, None if open_ else wins >= least)


def _speedups(study: Study, groups: dict[str, Results]) -> None:
    rows = []
    for name, results in groups.items():
        for solver in METHODS:
            own = values(results, "cvm", "seconds") / values(results, solver, "seconds")
            told = _MEDIANS.get(name, {}).get(solver)
            cells = ["-" if told is None else f"{told:g}", f"{np.median(own):.2g}"]
            rows.append([name, solver, *cells, f"{own.min():.2g}", f"{own.max():.2g}"])
    columns = ["group", "solver", "median, paper", "median, here", "least", "most"]
    study.show("Speed-up over CVM (figures 3 and 9)", columns, rows)


def _web(study: Study, web: Results) -> None:
    where, n = "6.1, Web", len(web)
    for solver in METHODS:
        _faster(study, where, web, solver, "cvm", f"{NAMES[solver]} is faster than CVM on all sets")
    _faster(study, where, web, "fw", "mfw", "MFW is slower than FW on all sets")
    _faster(study, where, web, "swap", "mfw", "SWAP is faster than MFW on all sets")
    _faster(
        study, where, web, "swap-2o", "mfw", "SWAP-2o is faster than MFW on 6 of 8", round(0.75 * n)
    )
    _faster(study, where, web, "swap", "swap-2o", "SWAP-2o is not faster than SWAP", _half(web))
    far = _accuracy_difference(web)
    study.compare(
        where,
        "accuracies differ from CVM's by less than 0.5 % most of the time",
        f"by at most {far.max():.2g} %",
        np.mean(far < 0.5) > 0.5,
    )
    ratios = [_ratio(web, "cvm", solver, "n_support") for solver in METHODS]
    study.compare(
        where,
        "CVM's models are significantly larger than those of the others",
        f"{min(ratios):.2f} to {max(ratios):.2f} times as many support vectors in the median",
        min(ratios) > 1.1,
    )


def _adult(study: Study, adult: Results) -> None:
    where = "6.2, Adult"
    for solver in ("mfw", "swap", "swap-2o"):
        _faster(study, where, adult, solver, "cvm", f"{NAMES[solver]} is always faster than CVM")
    _faster(study, where, adult, "mfw", "fw", "MFW is always faster than FW")
    for solver in ("swap", "swap-2o"):
        _faster(study, where, adult, solver, "fw", f"{NAMES[solver]} is always faster than FW")
        _faster(study, where, adult, solver, "mfw", f"{NAMES[solver]} is always faster than MFW")
        ratio = _ratio(adult, "fw", solver)
        told = _MEDIANS["Adult"][solver] / _MEDIANS["Adult"]["fw"]
        study.compare(
            where,
            f"{NAMES[solver]} is one order of magnitude faster than FW (medians: {told:.0f} times)",
            f"{ratio:.2g} times{_limited(adult, 'fw')}",
            round(np.log10(ratio)) >= 1,
        )
    sizes = np.array([values(adult, solver, "n_support") for solver in (*METHODS, "cvm")])
    spread = float(np.max(sizes.max(axis=0) / sizes.min(axis=0)))
    study.compare(
        where,
        "the model sizes of the methods are quite similar",
        f"the largest is at most {spread:.2f} times the smallest",
        spread < 1.25,
    )


def _others(study: Study, groups: dict[str, Results]) -> None:
    large, medium = groups.get("large", []), groups.get("medium", [])
    if large:
        _faster(
            *(study, "6.3, large", large, "swap", "mfw"),
            "SWAP is faster than MFW on 4 of 5 sets",
            round(0.8 * len(large)),
        )
        _faster(
            *(study, "6.3, large", large, "swap-2o", "mfw"),
            "SWAP-2o is faster than MFW on 4 of 5 sets",
            round(0.8 * len(large)),
        )
    if medium:
        ratio = _ratio(medium, "swap", "mfw")
        study.compare(
            "6.3, medium",
            "SWAP is slightly slower than MFW",
            f"{ratio:.2f} times its seconds in the median",
            1.0 <= ratio < 2.0,
        )
        times = np.array([values(medium, solver, "seconds") for solver in METHODS])
        spread = float(np.max(times.max(axis=0) / times.min(axis=0)))
        study.compare(
            "6.3, medium",
            "all four methods are of the same order of magnitude",
            f"up to {spread:.2g} times apart{_limited(medium, 'fw')}",
            spread < 10.0,
        )
    if large or medium:
        far = _accuracy_difference(large + medium)
        study.compare(
            "6.3",
            "accuracies differ from CVM's by less than 2 %",
            f"by at most {far.max():.2g} %",
            far.max() < 2.0,
        )


def _everywhere(study: Study, results: Results, p: dict[str, float]) -> None:
    for quantity, value in p.items():
        study.compare(
            "6.4",
            f"Friedman's test: not all have the same {quantity} (p < 0.001)",
            f"p = {value:.2g}",
            value < 0.001,
        )
    away = [r for r in results if compared([r], "mfw", "seconds") < compared([r], "fw", "seconds")]
    if away:
        _faster(
            *(study, "7, where MFW is faster than FW", away, "swap", "fw"),
            "SWAP is significantly faster than FW there",
        )


def _polynomial(study: Study, results: Results, polynomial: Results) -> None:
    names = [result["set"] for result in polynomial]
    same = [result for result in results if result["set"] in names]
    if not same:
        return
    for quantity, most in (("seconds", 3.0), ("accuracy", 1.02)):
        ratios = np.array(
            [values(polynomial, s, quantity) / values(same, s, quantity) for s in METHODS]
        )
        far = np.maximum(ratios, 1.0 / ratios).max(axis=0)  # of every set, the worst method
        kept = [name for name, ratio in zip(names, far, strict=True) if ratio < most]
        low, high = ratios.min(), ratios.max()
        worst = names[int(far.argmax())]
        study.compare(
            "6.5",
            f"{quantity} with the polynomial kernel: comparable to that with the RBF kernel",
            f"within a factor {most:g} on {len(kept)} of {len(names)} sets; {low:.2f} to "
            f"{high:.2f} times it, the farthest on {worst}",
            len(kept) == len(names),
        )


def _accuracy_difference(results: Results) -> np.ndarray:
    """The paper's |d|, in percent of CVM's accuracy; a row per method."""
    cvm = values(results, "cvm", "accuracy")
    return np.array([100.0 * np.abs(cvm - values(results, s, "accuracy")) / cvm for s in METHODS])


def _half(results: Sequence[Any]) -> int:
    return -(-len(results) // 2)
