"""The one judge of every fit: its certificate against the data and an independent optimum.

:func:`judge` takes a fitted estimator and what it was fitted on. Objectives are computed again from
the fitted attributes and the data in extended precision (``np.longdouble``), and so is the value at
the reference's point: it is attained, and therefore no lower bound may lie above it, whatever the
accuracy of the reference. Where a model exposes its dual point, so is the bound.

Two sizes of error are allowed, and no more. ``rounding`` is what float64 does to the sums of the
objective: n terms added up, each of scores whose d products are, computed from the data at hand;
``slack`` is what of it a bound may keep. ``Optimum.error`` is how far the true optimum may lie
below the reference's value.
"""

from dataclasses import dataclass

import numpy as np

from tests.subproblems import subproblems

STATUSES = {"converged", "max_iter", "max_time", "callback", "interrupted", "stalled"}
ASKED_FOR = {"callback", "interrupted"}  # these may come at any gap


def judge(model, X, y=None, sample_weight=None, *, group=None, optimum=None):
    """Assert that all that a fitted model says of its optimum is true; returns the optima.

    ``optimum`` is what an earlier call on the same problem returned, which saves its computation.
    """
    problems = subproblems(model, X, y, sample_weight, group)
    optima = [problem.optimum() for problem in problems] if optimum is None else optimum
    for k, (problem, best) in enumerate(zip(problems, optima, strict=True)):
        judge_subproblem(model, problem, best, k if len(problems) > 1 else None)
    return optima


def judge_subproblem(model, problem, best, k=None):
    """What the model says of subproblem k, or of the only one."""
    values = (getattr(model, name) for name in SAID)
    said = Said(*(value if k is None else value[k] for value in values))
    of = f"subproblem {k or 0}"
    _judge_certificate(said, problem, best, of)
    _judge_status(said, model, of)
    _judge_history(said, problem, best, of)


SAID = "objective_", "lower_bound_", "dual_gap_", "status_", "n_iter_", "history_"


@dataclass
class Said:
    """The certificate of a subproblem, as the model has it."""

    objective: float
    bound: float
    gap: float
    status: str
    n_iter: int
    history: np.ndarray


def _judge_certificate(said, problem, best, of):
    value, slack = problem.objective(problem.point), problem.slack
    attained, off = min(best.value, value), abs(said.objective - value)
    assert off <= problem.rounding, f"{of}: objective_ {said.objective} is {value}"
    over = said.bound - attained
    assert over <= slack, f"{of}: lower_bound_ {said.bound} is above {attained} by {over}"
    least = best.least - problem.rounding
    assert said.objective >= least, f"{of}: objective_ {said.objective} is below {best}"
    assert said.gap == said.objective - said.bound, f"{of}: dual_gap_ {said.gap} is no difference"
    far = value - best.value
    assert far <= said.gap + slack, f"{of}: {far} above the optimum, but dual_gap_ {said.gap}"
    problem.judge_dual(said.bound)


def _judge_status(said, model, of):
    assert said.status in STATUSES, f"{of}: {said.status!r}"
    within = said.gap <= model.tol * abs(said.objective)
    if said.status == "converged":
        assert within, f"{of}: converged at {said.gap} of {said.objective}"
    elif said.status not in ASKED_FOR:
        assert not within, f"{of}: {said.status!r} within tol"
    limit = model.max_iter
    assert said.n_iter == limit if said.status == "max_iter" else 0 <= said.n_iter <= limit, of


def _judge_history(said, problem, best, of):
    h = said.history
    bounds, objectives = h["lower_bound"], h["objective"]
    assert h["iteration"][-1] == said.n_iter and (np.diff(h["iteration"]) > 0).all(), of
    assert (np.diff(h["seconds"]) >= 0.0).all() and (np.diff(h["passes"]) >= 0).all(), of
    assert bounds[-1] == said.bound and objectives[-1] == said.objective, of
    slack = np.full(len(h), problem.rounding + problem.working)
    slack[-1] = problem.rounding
    attained = min(best.value, problem.objective(problem.point))
    assert (bounds <= attained + slack).all(), f"{of}: a bound of the history above {attained}"
    assert (objectives >= best.least - slack).all(), f"{of}: an objective below {best}"
    assert (np.diff(bounds) >= -slack[:-1]).all(), f"{of}: a bound of the history falls"
    assert (np.diff(objectives) <= slack[:-1]).all(), f"{of}: an objective of the history rises"
