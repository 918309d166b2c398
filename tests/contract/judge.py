"""The one judge of every fit: its certificate against the data and an independent optimum.

:func:`judge` takes a fitted estimator and the data of the fit. Objectives are recomputed from the
fitted attributes and the data in extended precision (``np.longdouble``), and so is the value at the
reference's point: it is attained, so no lower bound may lie above it, however accurate the
reference is. If a model exposes its dual point, the bound is recomputed too.

Only two sizes of error are allowed. ``rounding`` bounds the rounding of the objective's sums in
float64: n terms, each with scores that are sums of d products, computed from the data; ``slack`` is
the part of it that a bound may keep. ``Optimum.error`` is how far the true optimum may lie below
the reference's value.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tests.contract.optimum_bounds import bound_faults
from tests.contract.subproblems import subproblems
from tests.reference_programme import EPS

STATUSES = {"converged", "max_iter", "max_time", "callback", "interrupted", "stalled"}
UPPER = 1e-9  # of the size of the terms: what rounding of an objective may hide
ASKED_FOR = {"callback", "interrupted"}  # these may come at any gap


class Fault(NamedTuple):
    """What is not true: in the objective, bound, gap, dual point, status, history or bounds."""

    kind: str
    text: str


def judge(model, X, y=None, sample_weight=None, *, group=None, optimum=None):
    """Assert that all that a fitted model says of its optimum is true; returns the optima.

    ``optimum`` is what an earlier call on the same problem returned, which saves its computation.
    """
    problems = subproblems(model, X, y, sample_weight, group)
    optima = [problem.optimum() for problem in problems] if optimum is None else optimum
    for k, (problem, best) in enumerate(zip(problems, optima, strict=True)):
        judge_subproblem(model, problem, best, k if len(problems) > 1 else None)
    judge_whole(model)
    assert not (found := bound_faults(model, X, y, problems, optima)), found
    return optima


def judge_whole(model):
    """Assert that the two scalars sum up the certificates of all subproblems."""
    gaps, sizes = np.atleast_1d(model.dual_gap_), np.abs(np.atleast_1d(model.objective_))
    with np.errstate(divide="ignore", invalid="ignore"):
        worst = np.where(gaps > 0.0, gaps / sizes, 0.0).max()
    assert isinstance(model.relative_gap_, float) and isinstance(model.converged_, bool)
    assert model.relative_gap_ == worst
    assert model.converged_ == (set(np.atleast_1d(model.status_)) == {"converged"})
    assert not model.converged_ or model.relative_gap_ <= model.tol


def judge_subproblem(model, problem, best, k=None):
    """Assert that what the model says of subproblem k, or of the only one, is true."""
    found = faults(model, problem, best, k)
    assert not found, f"subproblem {k or 0}: " + "; ".join(fault.text for fault in found)


def faults(model, problem, best, k=None):
    """All that is not true of subproblem k, or of the only one."""
    values = (getattr(model, name) for name in SAID)
    said = Said(*(value if k is None else value[k] for value in values))
    problem.exact = getattr(getattr(model, "model_", None), "exact", True)
    checks = [
        *_certificate(said, problem, best),
        *_status(said, model),
        *_history(said, problem, best),
    ]
    found = [Fault(kind, text) for holds, kind, text in checks if not holds]
    return found


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


def _certificate(said, problem, best):
    """Triples: whether it holds, the kind of fault if not, and its text."""
    value, slack, rounding = problem.objective(problem.point), problem.slack, problem.rounding
    lowest, least = min(best.value, value), best.least - rounding
    objective, bound, gap = said.objective, said.bound, said.gap
    far = value - best.value
    # Where rounding of large terms may hide the objective, it is an upper bound, within the gap,
    # a difference that was rounded itself.
    hidden = min(UPPER * size_of_terms(problem, value), gap * (1 + EPS))
    # An inference that may miss outputs has an upper bound of the objective, no more.
    most = max(rounding, hidden) if problem.exact else np.inf
    above = -rounding <= objective - value <= most
    yield above, "objective", f"objective_ {objective} is {value}"
    yield objective >= least, "objective", f"objective_ {objective} is below {least}"
    yield bound <= lowest + slack, "bound", f"lower_bound_ {bound} is above {lowest}, attained"
    yield gap == objective - bound, "gap", f"dual_gap_ {gap} is not {objective} - {bound}"
    # An objective of exactly 0 is the optimum as far as its precision can tell: what is certified.
    untold = rounding if objective == bound == 0.0 else slack
    yield far <= gap + untold, "gap", f"{value} is {far} above the optimum, dual_gap_ is {gap}"
    holds, text = problem.dual(bound)
    yield holds, "dual", text


def size_of_terms(problem, value):
    """Of the terms of the objective; those at a point of zeros for machines with L2."""
    if hasattr(problem, "size"):
        return problem.size
    return value + abs(problem.objective(np.zeros_like(problem.point)))


def _status(said, model):
    status = said.status
    within = said.gap <= 0.0 or said.gap / (abs(said.objective) or np.nan) <= model.tol
    yield status in STATUSES, "status", f"status_ {status!r}"
    yield within or status != "converged", "status", f"converged at a gap of {said.gap}"
    missed = status == "converged" or status in ASKED_FOR or not within
    yield missed, "status", f"{status!r} within tol"
    yield said.n_iter <= model.max_iter, "status", f"{said.n_iter} iterations"
    short = status == "max_iter" and said.n_iter < model.max_iter
    yield not short, "status", f"max_iter after {said.n_iter}"


def _history(said, problem, best):
    h = said.history
    bounds, objectives = h["lower_bound"], h["objective"]
    rows = (np.diff(h["iteration"]) >= 0).all() and h["iteration"][-1] == said.n_iter
    clocks = (np.diff(h["seconds"]) >= 0.0).all() and (np.diff(h["passes"]) >= 0).all()
    yield rows and clocks, "history", "iterations, seconds or passes out of order"
    end = bounds[-1] == said.bound and objectives[-1] == said.objective
    yield end, "history", "the last row is not the certificate"
    slack = np.full(len(h), problem.rounding + problem.working)
    slack[-1] = problem.rounding
    lowest = min(best.value, problem.objective(problem.point))
    yield (bounds <= lowest + slack).all(), "history", f"a bound above {lowest}, attained"
    yield (objectives >= best.least - slack).all(), "history", f"an objective below {best.least}"
    yield (np.diff(bounds) >= -slack[:-1]).all(), "history", "a bound that falls"
    yield (np.diff(objectives) <= slack[:-1]).all(), "history", "an objective that rises"
