"""The judge of regions and of hard problems: what was reported falsely is not, and lies are seen.

Long double was not enough for these: exponentials with columns of 1e9, best intercepts that are
many, rows without weight whose loss is infinite, classes of no weight.
"""

import copy

import numpy as np
import pytest

from tests.fits import quiet
from tests.random_problems import draw, draw_plain, judged

FIRST = 40_000_000_000
SMOOTH = [136, 1159, 1127]  # of seed 40,000
OTHERS = [611, 549, 1998]


@pytest.fixture(scope="module")
def fit():
    """Each problem is fitted once."""
    kept = {}

    def fitted(seed):
        if seed not in kept:
            problem = draw_plain(22, "BMRMClassifier") if seed == 22 else draw(FIRST + seed)
            kept[seed] = problem, quiet(problem.model, problem.X, problem.y, problem.weights)
        return kept[seed]

    return fitted


def kinds(problem, model):
    return {fault.kind for fault in judged(problem, model).faults}


@pytest.mark.parametrize("seed", [*SMOOTH, *OTHERS, 22])
def test_true_certificates(seed, fit):
    found = judged(*fit(seed))
    assert found.faults == []
    assert seed in OTHERS or not found.unknown


def with_region(model, change):
    """A copy of which the last region is another; fields as of ScoreRegion."""
    lie = copy.copy(model)
    kind, *_, fields = model._region_kind, *model._regions
    lie._regions = [*model._regions[:-1], tuple(change(kind(*fields)))]
    return lie


def moved(region):
    """So far that even the other end of the ball is outside."""
    away = np.zeros_like(region.weights)
    away[0, np.argmax(np.abs(region.weights[0]))] = 2.1 * region.radius
    return region._replace(weights=region.weights + away)


def shifted(region):
    """The intercept's interval next to itself."""
    width = region.high - region.low + 1e-9 * (1.0 + np.abs(region.high))
    return region._replace(low=region.low + 2.0 * width, high=region.high + 2.0 * width)


def bent(region):
    """The ellipsoid, moved along the intercept by more than its largest score allows."""
    weights, b, inverse, radius = region.curved
    away = 2.1 * radius * float(np.linalg.norm(inverse)) + 1e-9 * abs(b)
    return region._replace(curved=(weights, b + away, inverse, radius))


@pytest.mark.parametrize("seed", SMOOTH)
def test_lies_about_the_ball_are_seen(seed, fit):
    problem, model = fit(seed)
    assert kinds(problem, with_region(model, moved)) == {"region"}


@pytest.mark.parametrize("seed", [1127, 22])
def test_lies_about_scores_are_seen(seed, fit):
    problem, model = fit(seed)
    assert kinds(problem, with_region(model, shifted)) == {"region"}
    if model._stored_regions()[-1].curved is not None:
        assert kinds(problem, with_region(model, bent)) == {"region"}


def test_lies_about_the_ball_of_chains_are_seen():
    problem = draw(53_000_000_001, "SDCACRF")
    model = quiet(problem.model, problem.X, problem.y, problem.weights)
    assert judged(problem, model).faults == []
    assert kinds(problem, with_region(model, lambda region: (0.1 * region.radius,))) == {"region"}


def test_lies_about_one_of_many_intercepts_are_seen(fit):
    """Any b that leaves all targets in the tube is a best one; one outside is none."""
    problem, model = fit(611)
    size = 3.0 * float(np.ptp(problem.y) + model.epsilon_)

    def far(region):
        return region._replace(low=region.low + size, high=region.high + size)

    assert kinds(problem, with_region(model, far)) == {"region"}


@pytest.mark.parametrize("seed", OTHERS)
def test_lies_about_objectives_and_bounds_are_seen(seed, fit):
    problem, model = fit(seed)
    k = int(np.argmax(np.atleast_1d(model.objective_)))
    several = isinstance(model.status_, list)
    for name, kind in (("objective_", "objective"), ("lower_bound_", "bound")):
        lie, values = copy.copy(model), np.array(np.atleast_1d(getattr(model, name)))
        values[k] = 1.001 * np.atleast_1d(model.objective_)[k] + 1e-9
        setattr(lie, name, values if several else float(values[0]))
        assert kind in kinds(problem, lie)
