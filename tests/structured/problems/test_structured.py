"""Structured problems: risk, subgradients and passes against enumeration, whatever the blocks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_bundle.structured.solvers.one_simplex import Summed
from tests.structures import KINDS, MANY_ENTRIES, VARIANTS, bound, drawn

every_variant = pytest.mark.parametrize("scaling, squared", VARIANTS)
SHARP, LOOSE, UNKNOWN = 0.0, 0.25, np.inf  # bounds above the scores of oracles that are not exact


def made(kind="chain", n_threads=1, n_entries=None, n=8, oracle=None, **changes):
    """The reference's problem and the package's."""
    reference = drawn(kind, 3, n, weighted=True, **changes)
    return reference, bound(reference, n_threads, n_entries, **(oracle or {}))


def points(reference, n=5):
    """In the cone, of sizes 0 to 10."""
    rng = np.random.default_rng(4)
    return [reference.projected(size * rng.normal(size=reference.d)) for size in np.r_[0, 1:11:n]]


@every_variant
@pytest.mark.parametrize("kind", KINDS)
def test_risk_against_enumeration(kind, scaling, squared):
    reference, ours = made(kind, scaling=scaling, squared=squared, cone=True)
    for w in points(reference):
        assert ours.evaluate(w)[0] == pytest.approx(reference.risk(w), rel=1e-13)


@every_variant
def test_gradient_against_finite_differences(scaling, squared):
    """At random points, which have no ties."""
    reference, ours = made(scaling=scaling, squared=squared)
    h = 1e-6
    for w in points(reference)[1:]:
        steps = h * np.eye(reference.d)
        slope = [(reference.risk(w + e) - reference.risk(w - e)) / (2 * h) for e in steps]
        assert_allclose(ours.evaluate(w)[1], slope, atol=1e-7)


@every_variant
def test_a_plane_touches_the_risk_and_is_nowhere_above(scaling, squared):
    """Where outputs tie too: at 0 all that have the highest loss do."""
    reference, ours = made("grid", scaling=scaling, squared=squared, cone=True)
    for w in points(reference):
        gradient, offset = ours.plane(ours.find(w))
        assert gradient @ w + offset == pytest.approx(reference.risk(w), rel=1e-12)
        for other in points(reference):
            assert reference.risk(other) >= gradient @ other + offset - 1e-11


@every_variant
def test_a_plane_that_was_cut_far_away(scaling, squared):
    """Where R is 1e12 and more, its difference from <gradient, w> is all rounding."""
    reference, ours = made("chain", scaling=scaling, squared=squared)
    for w in points(reference)[1:]:
        gradient, offset = ours.plane(ours.find(1e12 * w))
        size = np.abs(gradient).max() + abs(offset)
        for other in points(reference):
            assert reference.risk(other) >= gradient @ other + offset - 1e-12 * size


def test_threads_do_not_change_a_bit():
    """Sixteen blocks, in one thread and in three."""
    _, alone = made("listed", 1, MANY_ENTRIES, 50)
    _, together = made("listed", 3, MANY_ENTRIES, 50)
    w = np.random.default_rng(5).normal(size=alone.dimension)
    with together:
        (value, gradient), (again, slope) = alone.evaluate(w), together.evaluate(w)
        found = together.find(w)
    assert len(found) == 16
    assert value == again
    assert_array_equal(gradient, slope)


@pytest.mark.parametrize("squared", [False, True])
def test_blocks_are_of_the_examples_that_they_name(squared):
    """Weights belong to examples: a block that starts elsewhere has those of others."""
    reference, ours = made("listed", 1, MANY_ENTRIES, 50, squared=squared)
    _, one = made("listed", 1, None, 50, squared=squared)
    w = np.random.default_rng(5).normal(size=ours.dimension)
    value, gradient = ours.evaluate(w)
    assert [first for first, _ in ours.find(w)] == np.linspace(0, 50, 17).astype(int)[:-1].tolist()
    assert value == pytest.approx(reference.risk(w), rel=1e-13)
    assert_allclose(gradient, one.evaluate(w)[1], rtol=1e-12, atol=1e-14)


def test_calls_of_the_oracle_are_counted():
    """An example each; a pass is one of each of them."""
    _, ours = made(n=8)
    w = np.zeros(ours.dimension)
    ours.find(w)
    assert (ours.oracle_calls, ours.passes) == (8, 1)
    ours.evaluate(w)
    ours.oracle_calls += 7
    assert (ours.oracle_calls, ours.passes) == (23, 2)


@pytest.mark.parametrize("excess", [SHARP, LOOSE])
@every_variant
def test_bounds_of_an_oracle_that_is_not_exact_bound_the_risk(scaling, squared, excess):
    """What an oracle that looks at every third output says of the rest."""
    oracle = {"sees": 3, "excess": excess}
    reference, ours = made("grid", scaling=scaling, squared=squared, oracle=oracle)
    for w in points(reference):
        slacks = reference.slacks(w) + excess
        expected = reference.weights @ (slacks**2 / 2 if squared else slacks)
        assert ours.risk(ours.find(w)) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("excess", [SHARP, LOOSE, UNKNOWN])
@every_variant
def test_a_plane_of_an_oracle_that_is_not_exact(scaling, squared, excess):
    """It is of the outputs that were found, not of what bounds the others."""
    oracle = {"sees": 3, "excess": excess}
    reference, ours = made("grid", scaling=scaling, squared=squared, oracle=oracle)
    for w in points(reference):
        gradient, offset = ours.plane(ours.find(w))
        for other in points(reference):
            assert reference.risk(other) >= gradient @ other + offset - 1e-11


@pytest.mark.parametrize("squared", [False, True])
def test_rounding_of_planes(squared):
    """Planes are lowered by the rounding of their sums of features of 2^40 that nearly cancel."""
    reference = drawn("listed", 3, 40, reg_lambda=1e-3, squared=squared)
    long, covered = np.longdouble, []
    for psi in reference.psi:
        psi *= 1.0 + 2.0**40 * np.sign(psi)
    ours = bound(reference)
    for seed in range(20):
        w = 2.0**-40 * np.random.default_rng(seed).normal(size=reference.d)
        found = ours.find(w)
        exact = np.zeros(reference.d, long)
        for first, part in found:
            for k, weight in enumerate(reference.weights[first : first + len(part.losses)]):
                entries = slice(part.starts[k], part.starts[k + 1])
                factor = long(weight) * long(part.scores[k]) if squared else long(weight)
                exact[part.indices[entries]] -= factor * part.values[entries].astype(long)
        gradient, offset = ours.plane(found)
        error = float(np.linalg.norm((gradient - exact).astype(float)))
        covered.append(error / ours.of_plane(found))
        lowered = Summed(ours).find(w)[0][1].losses[0]
        value = reference.objective(w)
        farthest = np.sqrt(2.0 * value / ours.reg_lambda)
        assert lowered <= offset - error * farthest * (1.0 - 1e-9)
    assert 1e-3 < max(covered) <= 1.0
