"""The best point and the best bound of a solver."""

import numpy as np
import pytest

from sklearn_bundle.core.certificate import Best, Rounding, attained
from sklearn_bundle.linear.certificate import Proof
from sklearn_bundle.linear.solvers.base import At


def numbers(best):
    state = best.state(np.zeros(1), None, 0)
    return state.primal, state.lower_bound


def test_only_what_is_better_is_kept():
    best = Best(least=0.0)
    assert (best.point, best.dual_certificate, best.gap) == (None, None, np.inf)
    assert numbers(best) == (np.inf, 0.0)
    assert best.offer(3.0, "first")
    assert best.offer(2.0, "second")
    assert not best.offer(2.0, "third")
    assert not best.offer(np.nan, "fourth")
    assert best.raise_bound(0.5, "low")
    assert best.raise_bound(1.0, "high")
    assert not best.raise_bound(1.0, "equal")
    assert not best.raise_bound(np.nan, "none")
    assert (best.point, best.dual_certificate, best.gap) == ("second", "high", 1.0)
    assert numbers(best) == (2.0, 1.0)
    best.recompute(2.25, "fresh point", 0.25, "fresh plane")  # though they are worse
    assert (best.primal, best.point) == (2.25, "fresh point")
    assert (best.bound, best.dual_certificate) == (0.25, "fresh plane")
    best.recompute(1.0, "point", -2.0, "plane")
    assert best.bound == 0.0  # the least
    best.drop_bound()
    assert (best.bound, best.dual_certificate) == (-np.inf, None)


def test_kept_arrays_are_copies():
    """Solvers offer views of arrays that their steps change."""
    w, b, a = np.ones(3), np.ones(2), np.ones(3)
    best = Best()
    best.offer(2.0, At(w, b))
    best.raise_bound(1.0, Proof(derivatives=a))
    w[:] = b[:] = a[:] = 0.0
    assert best.point.w.all() and best.point.b.all() and best.dual_certificate.derivatives.all()
    best.recompute(2.0, At(w, b), 1.0, best.dual_certificate)
    w[:] = b[:] = 1.0
    assert not best.point.w.any() and not best.point.b.any()


def test_bound_that_rounding_has_lifted_is_taken_to_be_as_far_below():
    best = Best()
    best.offer(1.0, "point")
    assert best.raise_bound(1.0 + 2.0**-30, "plane")
    assert best.bound == 1.0 - 2.0**-30
    best.recompute(1.0, "point", 1.0 + 2.0**-29, "plane")
    assert best.bound == 1.0 - 2.0**-29


def test_working_precision_claims_no_gap_below_zero():
    best = Best(provisional=True)
    best.offer(1.0, "point")
    assert best.raise_bound(1.0 + 2.0**-30, "row")
    assert best.gap < 0.0
    assert numbers(best) == (1.0, 1.0)


@pytest.mark.parametrize("primal", [1.0, -1.0, 0.0])
def test_crossing_beyond_rounding_is_an_error_once_it_is_confirmed(primal):
    best = Best(advice="take a convex loss")
    best.offer(primal, "point")
    assert best.raise_bound(primal + 0.5, "plane")
    assert numbers(best) == (primal, primal)  # so that it is confirmed
    with pytest.raises(ValueError, match=rf"{primal + 0.5:.8g} lies above .* {primal:.8g}.*convex"):
        best.recompute(primal, "point", primal + 0.5, "plane")


def test_rounding_is_taken_off_every_bound_and_explains_a_crossing():
    best = Best(advice="take a convex loss")
    best.offer(1.0, "point")
    best.recompute(1.0, "point", 0.5, "plane", rounding=Rounding(0.0625, 0.0625))
    assert best.bound == 0.375
    assert not best.raise_bound(0.5, "the same")
    assert best.raise_bound(0.75, "better") and best.bound == 0.625
    best.recompute(1.0, "point", 1.0625, "plane", rounding=Rounding(0.0, 0.125))
    assert best.bound == 1.0 - 0.0625 - 0.125
    with pytest.raises(ValueError, match="take a convex loss"):
        best.recompute(1.0, "point", 1.25, "plane", rounding=Rounding(0.0, 0.125))


def test_rounding_that_no_bound_can_give_up_is_added_to_the_objective():
    best = Best(least=0.0)
    best.recompute(1.0, "point", 0.0625, rounding=Rounding(0.25, 0.5))
    assert (best.primal, best.bound) == (1.25, 0.0)  # a point at 1.25, and an optimum at 0
    best.recompute(1.0, "point", 0.6875, rounding=Rounding(0.25, 0.5))
    assert (best.primal, best.bound) == (1.0625, 0.0)
    best.recompute(0.0, "point", 0.0, rounding=Rounding(0.25, 0.5))
    assert (best.primal, best.bound) == (0.0, 0.0)
    assert attained(1.0, 2.0**-20, 2.0**-21) == (1.0 + 2.0**-21, 0.0)
    assert attained(1.0, 2.0**-20, 0.5) == (1.0, 0.5 - 2.0**-20)
    assert attained(1.0, 2.0**-20, -np.inf) == (1.0, -np.inf)
    assert attained(1.0, 0.5, 0.25) == (1.5, 0.25)  # no six digits are left


def test_what_rounding_may_hide_is_no_progress():
    """A fresh objective of 0 beside a recomputed one above it: a solver would never end."""
    best = Best(least=0.0)
    best.recompute(2.0**-100, "point", 0.0, rounding=Rounding(2.0**-48, 2.0**-48))
    assert best.primal == 2.0**-100 + 2.0**-48
    gap = best.gap
    best.offer(0.0, "fresh point")
    assert best.gap >= gap * (1.0 - 2.0**-50)
    assert best.offer(-1.0, "far better") and best.primal == 2.0**-48 - 1.0
