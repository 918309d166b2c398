"""Time at equal objective, standardized X and y, at most 20,000 rows.

Quantile: J = reg_lambda Omega(w) + the mean pinball loss, free intercept; QuantileRegressor
(solver="highs") has Omega = ||w||_1 and alpha = reg_lambda, the same problem as ours with "l1", and
ours with "l2" is another one of the same size. HiGHS solves it to its end: it has no tol of use.

Robust: J = reg_lambda/2 ||w||^2 + the mean loss, a peer at its cheapest max_iter of a ladder
1, 2, 4, ... that reaches J* (1 + 1e-3), and our J. LinearSVR has C = 1/(n reg_lambda) and penalizes
its intercept, so it gets the best one for its weights if that is better. HuberRegressor estimates a
scale s as well: at its optimum, with its default epsilon 1.35, its w is that of our "huber" with
delta = epsilon s and reg_lambda = alpha s / n, and J is that; its alpha is n times the reg_lambda
of the other rows. It has one unknown more to find than we have.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from _measure import Rung, Table, candidates, cheapest, climb, cpu_seconds, time_rungs
from _measures_common import SLOW, TOL, Study, race
from benchmarks.common import Array
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_regression
from sklearn.linear_model import HuberRegressor, QuantileRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVR

from sklearn_bundle import BMRMRegressor

TASKS = ("cadata", "casp_protein_regression")
SHIPPED = ("diabetes", "made_regression")
ASKED = 5.0  # least ratio to QuantileRegressor

_MOST_ROWS = 20_000
_QUANTILES = ((0.5, 1e-2), (0.9, 1e-3))  # with reg_lambda
_REG_LAMBDAS = (1e-2, 1e-4)
_EPSILON = 0.1
_LADDER = tuple(2**k for k in range(13))
_QUANTILE_COLUMNS = (
    *(("task", 24), ("quantile", 8), ("lambda", 7), ("n", 6), ("J*", 11)),
    *(("l1 s", 8), ("gap", 8), ("subopt", 8), ("iters", 5), ("l2 s", 8), ("gap", 8), ("iters", 5)),
    *(("peer s", 8), ("excess", 8), ("ratio l1", 8), ("ratio l2", 8), ("asked", 5)),
)
_ROBUST_COLUMNS = (
    *(("task", 24), ("loss", 19), ("peer", 14), ("lambda", 7), ("J*", 11)),
    *(("ours s", 8), ("gap", 8), ("subopt", 8), ("iters", 5)),
    *(("peer at", 8), ("1e-3 s", 8), ("ratio", 7), ("peer at", 8), ("our J s", 8), ("ratio", 7)),
)


def compare(study: Study, task: str) -> None:
    """Two tables."""
    X, y = _load(study, task)
    print()
    table = Table(_QUANTILE_COLUMNS)
    for quantile, reg_lambda in _QUANTILES:
        _compare_quantile(study, task, table, X, y, quantile, reg_lambda)
    print()
    contest = Contest(study, task, X, y, Table(_ROBUST_COLUMNS))
    for reg_lambda in _REG_LAMBDAS:
        _compare_svr(contest, "absolute_error", 0.0, reg_lambda)
        _compare_svr(contest, "epsilon_insensitive", _EPSILON, reg_lambda)
        _compare_huber(contest, reg_lambda)


def _load(study: Study, task: str) -> tuple[Array, Array]:
    if study.tasks is not None:
        X, y = study.load(task)
    elif task == "diabetes":
        X, y = load_diabetes(return_X_y=True)
    else:
        X, y = make_regression(500, 10, noise=50.0, random_state=0)
    X, y = X[:_MOST_ROWS], y[:_MOST_ROWS]
    return StandardScaler().fit_transform(X), (y - y.mean()) / y.std()


# ---- quantiles -----------------------------------------------------------------------------


def _compare_quantile(
    study: Study,
    task: str,
    table: Table,
    X: Array,
    y: Array,
    quantile: float,
    reg_lambda: float,
) -> None:
    make = partial(BMRMRegressor, "quantile", quantile=quantile, reg_lambda=reg_lambda, tol=TOL)
    peer = QuantileRegressor(quantile=quantile, alpha=reg_lambda, solver="highs")
    fits = {"l1": make(regularizer="l1"), "l2": make(), "peer": peer}
    timed = race({name: partial(model.fit, X, y) for name, model in fits.items()}, study.repeat)

    def objective(model: Any) -> float:
        residuals = y - model.predict(X)
        pinball = np.maximum(quantile * residuals, (quantile - 1.0) * residuals)
        return float(reg_lambda * np.abs(model.coef_).sum() + pinball.mean())

    l1, l2, peer = (timed[name].model for name in ("l1", "l2", "peer"))
    values = {"l1": objective(l1), "peer": objective(peer)}
    best = min(values.values())
    seconds = {name: timed[name].seconds for name in fits}
    table.row(
        *(task, f"{quantile:g}", f"{reg_lambda:.0e}", f"{len(y)}", f"{best:.8f}"),
        *(f"{seconds['l1']:.4f}", _gap(l1), f"{values['l1'] / best - 1.0:.1e}", f"{l1.n_iter_}"),
        *(f"{seconds['l2']:.4f}", _gap(l2), f"{l2.n_iter_}"),
        *(f"{seconds['peer']:.3f}", f"{values['peer'] / best - 1.0:.1e}"),
        *(f"{seconds['peer'] / seconds[name]:.1f}" for name in ("l1", "l2")),
        f"{ASKED:g}",
    )
    figures = {"quantile": quantile, "reg_lambda": reg_lambda, "n": len(y), "seconds": seconds}
    study.record(
        "regression", task, **figures, objectives=values, statuses=[l1.status_, l2.status_]
    )


def _gap(model: Any) -> str:
    mark = "" if model.status_ == "converged" else "*"
    return f"{model.dual_gap_ / model.objective_:.1e}{mark}"


# ---- robust losses -------------------------------------------------------------------------


def _compare_svr(contest: "Contest", loss: str, epsilon: float, reg_lambda: float) -> None:
    C = 1.0 / (len(contest.y) * reg_lambda)
    tube = {"epsilon": epsilon} if epsilon else {}
    contest.race(
        *(loss, reg_lambda),
        lambda residuals: float(np.maximum(0.0, np.abs(residuals) - epsilon).mean()),
        BMRMRegressor(loss, **tube, reg_lambda=reg_lambda, tol=TOL),
        LinearSVR(epsilon=epsilon, C=C, tol=1e-12, random_state=0),
    )


def _compare_huber(contest: "Contest", reg_lambda: float) -> None:
    peer = HuberRegressor(alpha=len(contest.y) * reg_lambda, tol=1e-10)
    fitted = clone(peer).set_params(max_iter=10_000).fit(contest.X, contest.y)
    delta, reg_lambda = peer.epsilon * fitted.scale_, reg_lambda * fitted.scale_

    def risk(residuals: Array) -> float:
        size = np.abs(residuals)
        inside = np.minimum(size, delta)
        return float(np.mean(0.5 * inside**2 + delta * (size - inside)))

    ours = BMRMRegressor("huber", delta=delta, reg_lambda=reg_lambda, tol=TOL)
    contest.race(f"huber, delta={delta:.3f}", reg_lambda, risk, ours, peer)


@dataclass
class Contest:
    """Ours against a peer over its max_iter, on one task."""

    study: Study
    task: str
    X: Array
    y: Array
    table: Table

    def race(
        self,
        loss: str,
        reg_lambda: float,
        risk: Callable[[Array], float],
        ours: BMRMRegressor,
        peer: Any,
    ) -> None:
        """A row: time to a suboptimality of 1e-3, and to our objective."""

        def objective(model: Any) -> float:
            w = np.ravel(model.coef_)
            residuals = self.y - self.X @ w
            own = risk(residuals - model.intercept_)
            return 0.5 * reg_lambda * float(w @ w) + min(own, _least(risk, residuals))

        def fit(setting: int) -> Any:
            return clone(peer).set_params(max_iter=setting).fit(self.X, self.y)

        def rung(setting: int) -> Rung:
            seconds, model = cpu_seconds(partial(fit, setting))
            return Rung(setting, objective(model), seconds)

        ours.fit(self.X, self.y)
        reference = clone(ours).set_params(tol=1e-6).fit(self.X, self.y)
        own = Rung("ours", objective(ours), 0.0, ours.dual_gap_ / ours.objective_)
        target = min(own.objective, objective(reference) * (1.0 + TOL))
        ladder = climb(_LADDER, rung, lambda rungs: _settled(rungs, target))
        best = min(objective(reference), own.objective, *(r.objective for r in ladder))
        aims = best * (1.0 + TOL), own.objective
        timed = {r.setting: r for aim in aims for r in candidates(ladder, aim)}
        fits = [(own, partial(clone(ours).fit, self.X, self.y))]
        fits += [(r, partial(fit, setting)) for setting, r in timed.items()]
        time_rungs(fits, self.study.repeat)
        chosen = [cheapest(ladder, aim) for aim in aims]
        self.table.row(
            *(self.task, loss, type(peer).__name__, f"{reg_lambda:.1e}", f"{best:.8f}"),
            *(f"{own.seconds:.4f}", _gap(ours), f"{own.objective / best - 1.0:.1e}"),
            f"{ours.n_iter_}",
            *(cell for c in chosen for cell in _peer_cells(c, ladder, own.seconds)),
        )
        self.study.record(
            *("regression", self.task),
            loss=loss,
            reg_lambda=reg_lambda,
            best=best,
            bound=reference.lower_bound_,
            ours=asdict(own),
            peer=type(peer).__name__,
            chosen=[c and asdict(c) for c in chosen],
            ladder=[asdict(r) for r in ladder],
        )


def _least(risk: Callable[[Array], float], residuals: Array) -> float:
    """The risk at the best intercept; it is convex in it."""
    bounds = residuals.min(), residuals.max()
    options = {"xatol": 1e-10}
    return minimize_scalar(lambda b: risk(residuals - b), bounds=bounds, options=options).fun


def _settled(rungs: list[Rung], target: float) -> bool:
    """Not at the first rung that gets there: LinearSVR's objective is not monotone."""
    costly = sum(r.first_seconds for r in rungs) > 4.0 * SLOW
    return costly or (len(rungs) > 1 and max(r.objective for r in rungs[-2:]) <= target)


def _peer_cells(rung: Rung | None, ladder: list[Rung], ours: float) -> tuple[str, str, str]:
    if rung is None:
        slowest = ladder[-1].first_seconds
        return "none", f">{slowest:.3g}", f">{slowest / ours:.1f}"
    return f"{rung.setting}", f"{rung.seconds:.4f}", f"{rung.seconds / ours:.1f}"
