"""The projection onto a box cut by a hyperplane: its laws, and exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_bundle.linear._compiled.projection import crossing
from sklearn_bundle.projection import project

SIZES = (1, 2, 3, 7, 23, 24, 25, 100, 1023, 1024, 1025, 3000)


def problem(n, seed, kind="general"):
    """m and the keyword arguments; every kind has a solution."""
    rng = np.random.default_rng(seed)
    m = rng.normal(size=n)
    d, sigma = rng.uniform(0.2, 3.0, n), rng.choice([-1.0, 1.0], n) * rng.uniform(0.2, 3.0, n)
    lower = -rng.uniform(0.0, 1.0, n)
    upper = lower + rng.uniform(0.0, 2.0, n)
    if kind == "ties":
        m, d, sigma = np.round(m), np.ones(n), np.sign(sigma)
        lower, upper = np.zeros(n), np.ones(n)
    elif kind == "all equal":
        m, d, sigma = np.full(n, 0.3), np.ones(n), np.ones(n)
        lower, upper = np.zeros(n), np.ones(n)
    elif kind == "fixed items":
        upper = np.where(rng.uniform(size=n) < 0.5, lower, upper)
    elif kind == "infinite bounds":
        lower = np.where(rng.uniform(size=n) < 0.5, -np.inf, lower)
        upper = np.where(rng.uniform(size=n) < 0.5, np.inf, upper)
    elif kind == "no bounds":
        lower, upper = np.full(n, -np.inf), np.full(n, np.inf)
    elif kind == "far away":
        m *= 1e6
    inside = np.clip(rng.normal(size=n), lower, upper)
    return m, {"d": d, "sigma": sigma, "lower": lower, "upper": upper, "z": float(sigma @ inside)}


KINDS = "general", "ties", "all equal", "fixed items", "infinite bounds", "no bounds", "far away"


def check_optimality(m, a, d, sigma, lower, upper, z):
    """In the box, on the hyperplane, and with one multiplier for all items."""
    assert (lower <= a).all() and (a <= upper).all()
    assert sigma @ a == pytest.approx(z, rel=1e-13, abs=1e-14 * (1.0 + np.abs(sigma) @ np.abs(a)))
    t = d**2 * (a - m) / sigma  # the same for all free items
    scale = 1e-12 * (1.0 + np.abs(d**2 * m / sigma).max())
    pushes_up = np.where(sigma > 0.0, a > lower, a < upper)  # t may not be smaller than this one
    pushes_down = np.where(sigma > 0.0, a < upper, a > lower)
    if pushes_up.any() and pushes_down.any():
        assert t[pushes_up].max() <= t[pushes_down].min() + scale


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", SIZES)
def test_kkt_conditions(kind, n):
    for seed in range(5):
        m, items = problem(n, seed, kind)
        check_optimality(m, project(m, **items), **items)


@given(
    n=st.integers(1, 3000),
    seed=st.integers(0, 10_000),
    kind=st.sampled_from([k for k in KINDS if k != "far away"]),
)
@settings(deadline=None, max_examples=100)
def test_laws_of_a_projection(n, seed, kind):
    m, items = problem(n, seed, kind)
    other = np.random.default_rng(seed + 1).normal(size=n)
    a, b = project(m, **items), project(other, **items)
    check_optimality(m, a, **items)
    np.testing.assert_allclose(project(a, **items), a, atol=1e-12 * (1 + abs(a).max()))
    d = items["d"]
    assert np.linalg.norm(d * (a - b)) <= np.linalg.norm(d * (m - other)) * (1 + 1e-12) + 1e-12
    order = np.random.default_rng(seed).permutation(n)
    moved = {k: v[order] if k != "z" else v for k, v in items.items()}
    np.testing.assert_allclose(project(m[order], **moved), a[order], atol=1e-11)


def test_box_alone(data):
    m = data[0].ravel()
    assert np.array_equal(project(m, lower=-1.0, upper=0.5, z=None), np.clip(m, -1.0, 0.5))
    upper = np.abs(m) / 2
    assert np.array_equal(project(m, upper=upper, z=None), np.clip(m, 0.0, upper))


@pytest.mark.parametrize("scale", [1e-250, 1e-100, 1e-8, 1e8, 1e100, 1e250])
@pytest.mark.parametrize("what", ["d", "sigma", "a"])
def test_scales(scale, what):
    """Scaling d, or sigma with z, changes nothing; scaling m and the bounds with z scales a."""
    m, items = problem(300, 0)
    expected = project(m, **items)
    if what == "a":
        scaled = items | {k: items[k] * scale for k in ("lower", "upper", "z")}
        a = project(m * scale, **scaled) / scale
    else:
        scaled = items | {what: items[what] * scale}
        scaled["z"] *= scale if what == "sigma" else 1.0
        a = project(m, **scaled)
    np.testing.assert_allclose(a, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("end", ["lower", "upper"])
def test_z_at_the_end_of_what_is_attainable(end):
    m, items = problem(200, 0)
    sigma, lower, upper = items["sigma"], items["lower"], items["upper"]
    at_end = np.where((sigma > 0) == (end == "upper"), upper, lower)
    items["z"] = float(sigma @ at_end)
    np.testing.assert_allclose(project(m, **items), at_end, atol=1e-12)


def test_arguments_are_not_written_to_and_may_be_lists_and_read_only():
    m, items = problem(50, 0)
    expected = project(m, **items)
    for array in (m, *(v for k, v in items.items() if k != "z")):
        array.flags.writeable = False
    assert np.array_equal(project(m, **items), expected)
    lists = {k: v.tolist() if k != "z" else v for k, v in items.items()}
    assert np.array_equal(project(m.tolist(), **lists), expected)
    assert np.array_equal(project(m.astype(np.float32)), project(m.astype(np.float32).tolist()))


def in_fractions(m, d, sigma, lower, upper, z):
    """The solution in exact arithmetic, by a sort of the kinks."""
    m, d, sigma, lower, upper = (
        [Fraction(float(v)) for v in np.broadcast_to(x, len(m))]
        for x in (m, d, sigma, lower, upper)
    )
    z = Fraction(z)
    ratio = [s / (k * k) for s, k in zip(sigma, d, strict=True)]
    constant, slope, events = Fraction(0), Fraction(0), []
    for i, r in enumerate(ratio):
        first, last = (lower[i], upper[i]) if r > 0 else (upper[i], lower[i])
        constant += sigma[i] * first
        for bound, sign in ((first, 1), (last, -1)):
            kink = (bound - m[i]) / r
            events.append((kink, sign * sigma[i] * r, -sign * sigma[i] * r * kink))
    for kink, bend, jump in sorted(events):
        if constant + slope * kink >= z:
            t = (z - constant) / slope if slope else kink
            break
        slope, constant = slope + bend, constant + jump
    else:
        t = max(events)[0]
    points = zip(m, ratio, lower, upper, strict=True)
    return np.array([float(min(max(a + t * r, low), high)) for a, r, low, high in points])


@pytest.mark.parametrize("seed", range(40))
def test_against_exact_arithmetic_where_digits_are_few(seed):
    """Points 1e12 times the box and scales over 1e8: the sum is kept, a as exact as m allows."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    m = rng.normal(size=n) * 10.0 ** rng.uniform(-3, 12, n)
    d, sigma = 10.0 ** rng.uniform(-4, 4, n), rng.choice([-1.0, 1.0], n)
    upper = rng.uniform(0.1, 1.0, n)
    z = float(sigma @ (upper * rng.uniform(size=n)))
    items = {"d": d, "sigma": sigma, "lower": 0.0, "upper": upper, "z": z}
    a = project(m, **items)
    assert (a >= 0.0).all() and (a <= upper).all()
    assert sigma @ a == pytest.approx(z, abs=1e-14 * n)
    expected = in_fractions(m, **items)
    # t has 53 bits, and a moves by r times its last one.
    atol = 1e-12 + 4e-16 * np.abs(m).max() * (d.max() / d.min()) ** 2
    np.testing.assert_allclose(a, expected, atol=atol)


@pytest.mark.parametrize(
    "m, items, expected",
    [
        ([1e17], {}, [1.0]),
        ([1e20, 1e20, 0.0], {}, [0.5, 0.5, 0.0]),
        ([1.1e16, 0.0], {"upper": 1.0, "z": 0.9}, [0.9, 0.0]),
        ([0.3, -1e17], {"lower": -1.0, "upper": 1.0, "z": -0.5}, [0.5, -1.0]),
        ([1e308, 1e308], {"lower": -np.inf, "z": 1e308}, [5e307, 5e307]),
    ],
)
def test_multiplier_without_digits(m, items, expected):
    np.testing.assert_allclose(project(m, **items), expected, rtol=1e-14)


@pytest.mark.parametrize("n", [3000, 200_000])
@pytest.mark.parametrize("kind", ["even", "pareto", "few heavy", "wide m", "all equal"])
def test_heavy_tails(n, kind):
    """Samples that hold none of the items that count; the items read are a few times n."""
    rng = np.random.default_rng(0)
    m, sigma = rng.normal(size=n), rng.choice([-1.0, 1.0], n)
    if kind == "pareto":
        sigma *= np.sqrt(rng.pareto(0.3, n) + 1.0)
    elif kind == "few heavy":
        sigma *= np.where(rng.uniform(size=n) < 1e-3, 1e3, 1.0)
    elif kind == "wide m":
        m = 10.0 ** rng.uniform(-20, 20, n)
    elif kind == "all equal":
        m[:] = 0.3
    a = project(m, sigma=sigma, upper=1.0, z=0.0)
    assert (a >= 0.0).all() and (a <= 1.0).all()
    assert abs(sigma @ a) <= 1e-12 * np.abs(sigma * a).sum()
    if kind != "wide m":
        check_optimality(m, a, 1.0, sigma, 0.0, 1.0, 0.0)
        _, read = crossing(m, sigma, sigma, np.zeros(n), np.ones(n), 0.0)
        assert read <= 5 * n or n < 200_000


@pytest.mark.parametrize("name, value", [("d", 1e-170), ("d", 1e200), ("sigma", 1e-320)])
def test_what_double_precision_cannot_do_is_an_error(name, value):
    with pytest.raises(ValueError, match="span too many orders of magnitude"):
        project([0.3, 0.1], **{name: [value, 1.0]})


def test_no_items():
    assert project([], z=0.0).shape == (0,)
    assert project([], z=None).shape == (0,)


LAST = "the last item"  # alone is wrong


@pytest.mark.parametrize("n", [3, 2000])
@pytest.mark.parametrize(
    "change, message",
    [
        ({"z": -1.0}, "No point of the box has sum sigma a = z: z is -1.0, but must be between"),
        ({"z": np.nan}, "z must be a finite number, or None for no hyperplane; got nan"),
        ({"lower": 2.0}, r"lower must not be above upper, but for item 0 they are 2.0 and 1.0"),
        ({"lower": np.inf, "upper": np.inf}, "lower=inf and upper=inf, leave no finite number"),
        ({"d": LAST}, "d must be finite and not zero, but is 0.0 for item"),
        ({"d": None}, r"d must be an array of shape \(n,\)"),
        ({"sigma": [1.0]}, r"sigma must be a number or an array of the shape of m"),
        ({"m": LAST}, r"m must be finite, but m\[\d+\] is nan"),
        ({"m": [[1.0]]}, r"m must be an array of shape \(n,\), got shape \(1, 1\)"),
    ],
)
def test_what_is_wrong_is_named(n, change, message):
    for name, value in change.items():
        if isinstance(value, str) and value == LAST:
            change = {name: np.r_[np.ones(n - 1), 0.0 if name == "d" else np.nan]}
    arguments = {"m": np.zeros(n), "upper": 1.0, "d": np.ones(n)}
    with pytest.raises(ValueError, match=message):
        project(**(arguments | change))
