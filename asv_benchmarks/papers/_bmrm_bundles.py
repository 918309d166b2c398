"""Figure 8 of Teo et al.: BMRM, LS-BMRM, BT, and the proximal bundle method beside them."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from _bmrm_convergence import LAMBDAS, MAX_ITER, SECONDS, WITHIN, Runs, counted, fit
from _bmrm_data import Set
from _bundle_peers import BundleTrust, ProximalBundle, follow
from _common import Study
from _watch import Curve

from sklearn_bundle import BMRMClassifier

BMRM, LS = "cutting-plane", "line-search"
BT, PROXIMAL = BundleTrust.name, ProximalBundle.name
NAMES = {BMRM: "BMRM", LS: "LS-BMRM", BT: "BT", PROXIMAL: "proximal"}
_REFERENCE_SECONDS = 60.0  # of the fit that makes w-bar where BMRM and LS-BMRM do not get there
_FITS = 4  # that have to fit into the time that is left
Key = tuple[str, float]  # data set and lambda


class Level(NamedTuple):
    """1.01 J(w-bar) of (17), and whose w-bar is."""

    value: float
    source: str


class Bundles(NamedTuple):
    """Figure 8 for some data sets: fits by data set, lambda and solver, and where they end."""

    sets: Sequence[Set]
    runs: Runs
    levels: dict[Key, Level]

    def iterations(self, key: Key, solver: str) -> int | None:
        """Until (17) holds, None if it never does."""
        curve = self.runs[(*key, solver)]
        return curve.first(np.array(curve.objective) <= self.levels[key].value)

    def less(self, key: Key, first: str, second: str) -> bool | None:
        """Whether the first solver needs fewer iterations, also where one of the two does not get
        there; None if unknown."""
        few, many = (self.iterations(key, solver) for solver in (first, second))
        if few is None:
            ended = self.runs[(*key, first)].iteration[-1]
            return False if many is not None and many <= ended else None
        if many is None:
            return True if few <= self.runs[(*key, second)].iteration[-1] else None
        return few < many


def multiclass_runs(study: Study, sets: Sequence[Set]) -> Runs:
    """Algorithms 2 and 3 for (16), only as far as (17) asks."""
    runs: Runs = {}
    for data, reg_lambda, solver in itertools.product(sets, LAMBDAS, (LS, BMRM)):
        if study.seconds_left < _FITS * SECONDS:
            break
        curve = fit(data, reg_lambda, solver, np.inf, loss="multiclass_hinge")
        runs[data.name, reg_lambda, solver] = curve
        _keep(study, "8, multiclass", data, reg_lambda, solver, curve)
    return runs


def with_peers(study: Study, sets: Sequence[Set], runs: Runs, **more: Any) -> Bundles:
    """The runs of BMRM and LS-BMRM, and BT and the proximal bundle method until (17) holds."""
    runs, levels = dict(runs), {}
    for data, reg_lambda in itertools.product(sets, LAMBDAS):
        key = data.name, reg_lambda
        if (*key, BMRM) not in runs or study.seconds_left < _FITS * SECONDS:
            continue
        level = _level(data, reg_lambda, runs[(*key, BMRM)], runs[(*key, LS)], more)
        for solver in (BT, PROXIMAL):
            given = solver, data.X, data.y, reg_lambda, _until(level)
            curve = follow(*given, max_iter=MAX_ITER, max_seconds=SECONDS, **more)
            runs[(*key, solver)] = curve
            _keep(study, "8", data, reg_lambda, solver, curve)
        levels[key] = level
    return Bundles(sets, runs, levels)


def _until(level: Level) -> Callable[[Curve], bool]:
    return lambda curve: curve.objective[-1] <= level.value


def _level(data: Set, reg_lambda: float, plain: Curve, search: Curve, more: dict) -> Level:
    """w-bar is BMRM's; where a limit ended that before, LS-BMRM's or another solver's."""
    for curve, name in ((plain, "BMRM"), (search, "LS-BMRM")):
        objective = np.array(curve.objective)
        where = np.flatnonzero(curve.gap <= WITHIN * objective)
        if len(where):
            return Level((1.0 + WITHIN) * float(objective[where[0]]), name)
    model = BMRMClassifier(
        reg_lambda=reg_lambda, fit_intercept=False, tol=WITHIN, max_time=_REFERENCE_SECONDS, **more
    )
    model.fit(data.X, data.y)
    if model.status_ != "converged":
        return Level(-np.inf, "none")
    return Level((1.0 + WITHIN) * float(model.objective_), "auto")


def show(study: Study, bundles: Bundles, classes: str) -> None:
    """The numbers of figure 8, and what section 5.2 says of them."""
    rows = []
    for key in itertools.product([data.name for data in bundles.sets], LAMBDAS):
        row = [key[0], f"{key[1]:g}"]
        if key not in bundles.levels:
            rows.append([*row, *(len(NAMES) * ["no time"]), "-"])
            continue
        for solver in NAMES:
            row.append(counted(bundles.iterations(key, solver), bundles.runs[(*key, solver)]))
        rows.append([*row, bundles.levels[key].source])
    columns = ["data", "lambda", *NAMES.values(), "w-bar by"]
    study.show(f"Figure 8, {classes}: iterations to criterion (17)", columns, rows)

    where = f"figure 8, {classes}"
    texts = [data for data in bundles.sets if data.text]
    others = [data for data in bundles.sets if not data.text]
    claims = [
        ("LS-BMRM needs fewer iterations than BMRM on all data sets.", LS, BMRM, bundles.sets),
        ("LS-BMRM needs fewer iterations than BT on all data sets.", LS, BT, bundles.sets),
        ("BT needs fewer than BMRM on the data sets of few features.", BT, BMRM, others),
    ]
    if classes == "two classes":
        of_texts = "BMRM needs fewer than BT on the high-dimensional data sets.", BMRM, BT, texts
    else:
        of_texts = "BT needs fewer than BMRM on news20-m.", BT, BMRM, texts
    for claim, first, second, sets in (*claims, of_texts):
        known = [key for key in bundles.levels if key[0] in {data.name for data in sets}]
        if not known:
            continue
        told = [bundles.less(key, first, second) for key in known]
        study.compare(
            where,
            claim,
            f"Fewer in {told.count(True)} and not in {told.count(False)} of {len(told)} pairs of "
            f"data set and lambda; a limit ended {told.count(None)} before that could be told.",
            None if told.count(None) == len(told) else False not in told,
        )


def _keep(
    study: Study, figure: str, data: Set, reg_lambda: float, solver: str, curve: Curve
) -> None:
    numbers = {"data": data.name, "reg_lambda": reg_lambda, "solver": solver}
    study.keep(figure=figure, **numbers, **curve.as_numbers())
