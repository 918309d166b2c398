"""ROC area and F-beta: the risk by definition, planes below it, and what it bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.metrics import fbeta_score, roc_auc_score

from sklearn_bundle.linear.losses.measures import ROCAUC, FBeta
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.bundle import BundleSolver
from sklearn_bundle.linear.solvers.inner.planes import Bundle
from tests import reference_measures as reference

LOSSES = {"roc_auc": ROCAUC(), "f1": FBeta(), "f_half": FBeta(0.5), "f_2": FBeta(2.0)}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
seeds = st.integers(0, 2**32 - 1)
decimals_or_none = st.sampled_from([None, 0, 1])


def draw(seed, n=9, decimals=None, uniform=False):
    """Scores, labels of both classes and weights summing to one; rounded scores have ties."""
    rng = np.random.default_rng(seed)
    scores = rng.choice([0.3, 2.0]) * rng.normal(size=n)
    if decimals is not None:
        scores = np.round(scores, decimals)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    weights = np.ones(n) if uniform else rng.random(n) + 0.1
    return scores, y, weights / weights.sum(), rng


def blocks(loss, y, weights):
    return (
        reference.roc_auc(y, weights)
        if isinstance(loss, ROCAUC)
        else reference.f_beta(y, loss.beta)
    )


def evaluate(loss, scores, y, weights):
    out = np.full(len(y), np.nan)
    return loss.evaluate(scores, y, weights, out), out


@every_loss
@given(seed=seeds, decimals=decimals_or_none)
@settings(deadline=None, max_examples=40)
def test_risk_of_the_definition_and_planes_below_it(loss, seed, decimals):
    scores, y, weights, rng = draw(seed, decimals=decimals)
    planes = blocks(loss, y, weights)
    risk, g = evaluate(loss, scores, y, weights)
    assert risk == pytest.approx(reference.risk(planes, scores), rel=1e-13, abs=1e-14)
    for scale in (0.01, 1.0, 10.0):
        for _ in range(5):
            step = scale * rng.normal(size=len(y))
            assert risk + g @ step <= reference.risk(planes, scores + step) + 1e-13 * (1 + scale)


@given(seed=seeds, n=st.integers(2, 60), beta=st.floats(0.01, 50.0), decimals=decimals_or_none)
@settings(deadline=None, max_examples=300)
def test_worst_table_is_that_of_the_full_search(seed, n, beta, decimals):
    scores, y, weights, _ = draw(seed, n, decimals)
    risk, _ = evaluate(FBeta(beta), scores, y, weights)
    assert risk == pytest.approx(reference.f_beta_table(scores, y, beta), rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("n_positives", [1, 5])
def test_f_beta_without_negatives(n_positives):
    """Only missed positives: scores of -1 are all missed, and R = 1 + 2."""
    y = np.ones(n_positives)
    assert evaluate(FBeta(), -y, y, y / n_positives)[0] == pytest.approx(3.0, rel=1e-14)
    assert evaluate(FBeta(), 9.0 * y, y, y / n_positives)[0] == 0.0


@every_loss
def test_cut_has_the_offset_of_its_plane(loss):
    scores, y, weights, _ = draw(1, n=50)
    out = np.empty(50)
    for fit_intercept in (False, True):
        cut = loss.cut(scores, y, weights, fit_intercept, out, np.empty((4, 50)))
        assert cut.risk == pytest.approx(reference_risk(loss, scores, y, weights), rel=1e-13)
        assert cut.offset + out @ scores == pytest.approx(cut.risk, rel=1e-13)
        assert cut.intercept == 0.0


def reference_risk(loss, scores, y, weights):
    if isinstance(loss, FBeta):
        return reference.f_beta_table(scores, y, loss.beta)
    return reference.risk(reference.roc_auc(y, weights), scores)


@every_loss
@pytest.mark.parametrize("decimals", [None, 0])
def test_order_of_the_samples_is_no_matter(loss, decimals):
    scores, y, weights, rng = draw(2, n=60, decimals=decimals)
    order = rng.permutation(60)
    risk, g = evaluate(loss, scores, y, weights)
    again, h = evaluate(loss, scores[order], y[order], weights[order])
    assert again == pytest.approx(risk, rel=1e-13)
    if isinstance(loss, ROCAUC):  # F-beta's plane may take either of two tied samples
        np.testing.assert_allclose(h, g[order], atol=1e-15)


def test_roc_auc_integer_weights_repeat_rows():
    scores, y, _, rng = draw(3, n=40, decimals=1)
    counts = rng.integers(1, 4, size=40)
    total = counts.sum()
    risk, g = evaluate(ROCAUC(), scores, y, counts / total)
    repeated = scores.repeat(counts), y.repeat(counts), np.full(total, 1.0 / total)
    again, h = evaluate(ROCAUC(), *repeated)
    assert again == pytest.approx(risk, rel=1e-13)
    owner = np.arange(40).repeat(counts)
    np.testing.assert_allclose(np.bincount(owner, h), g, atol=1e-15)


def test_roc_auc_does_not_change_with_an_intercept():
    scores, y, weights, _ = draw(4, n=40)
    risk, g = evaluate(ROCAUC(), scores, y, weights)
    assert ROCAUC.free_intercept is None
    assert ROCAUC().risk(scores, y, weights, 1e3) == pytest.approx(risk, rel=1e-11)  # 1e3 * 1e-16
    assert abs(g.sum()) <= 1e-15


@given(seed=seeds, decimals=decimals_or_none)
@settings(deadline=None, max_examples=50)
def test_risk_bounds_the_measure(seed, decimals):
    scores, y, weights, _ = draw(seed, n=30, decimals=decimals)
    area = roc_auc_score(y, scores, sample_weight=weights)
    assert evaluate(ROCAUC(), scores, y, weights)[0] >= 1.0 - area - 1e-12
    labels = np.where(scores > 0.0, 1.0, -1.0)
    for beta in (0.5, 1.0, 3.0):
        score = fbeta_score(y, labels, beta=beta)
        assert evaluate(FBeta(beta), scores, y, weights)[0] >= 1.0 - score - 1e-12


@every_loss
@given(seed=seeds, decimals=decimals_or_none)
@settings(deadline=None, max_examples=40)
def test_line_search_takes_most_of_what_is_there(loss, seed, decimals):
    scores, y, weights, rng = draw(seed, n=30, decimals=decimals)
    direction = rng.normal(size=30) + 0.5 * y
    slope, curvature = -0.1 * rng.random(), rng.random() + 0.01

    def along(t):
        return (
            slope * t
            + 0.5 * curvature * t * t
            + evaluate(loss, scores + t * direction, y, weights)[0]
        )

    t = loss.line_search(scores, direction, y, weights, slope, curvature, np.empty((4, 30)))
    best = min(minimize_scalar(along, bounds=(0.0, 50.0)).fun, along(0.0))
    assert t >= 0.0
    assert along(t) <= best + 0.1 * (along(0.0) - best) + 1e-12  # it ends early


@every_loss
def test_uphill_gives_a_zero_step(loss):
    scores, y, weights, _ = draw(5, n=30)
    scratch = np.empty((4, 30))
    assert loss.line_search(-9.0 * y + scores, -y, y, weights, 0.0, 0.1, scratch) == 0.0


@every_loss
def test_inputs_are_not_written_to(loss):
    arrays = draw(6, n=30)[:3]
    for array in arrays:
        array.flags.writeable = False
    copies = [array.copy() for array in arrays]
    evaluate(loss, *arrays)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize(
    ("loss", "labels", "match"),
    [
        (ROCAUC(), [1.0, 1.0], "both classes"),
        (FBeta(), [-1.0, -1.0], "y has none"),
        (FBeta(0.0), [1.0, -1.0], "beta must be positive and finite, below 1e.150, but is 0.0"),
        (FBeta(np.nan), [1.0, -1.0], "beta must be positive and finite, below 1e.150, but is nan"),
    ],
)
def test_check_names_what_is_wrong(loss, labels, match):
    with pytest.raises(ValueError, match=match):
        loss.check(np.array(labels))


@pytest.mark.parametrize(
    ("name", "fit_intercept"), [("roc_auc", True), ("f1", False), ("f1", True)]
)
def test_bundle_method_reaches_the_optimum(name, fit_intercept):
    loss, n, reg_lambda = LOSSES[name], 10, 0.1
    _, y, weights, rng = draw(7, n=n)
    X = rng.normal(size=(n, 3)) + 0.5 * y[:, None]
    joint = fit_intercept and loss.free_intercept == "joint"
    best = reference.optimum(blocks(loss, y, weights), X, reg_lambda, joint)
    problem = LinearProblem(rows_in_memory(X), y, weights, loss, fit_intercept)
    bundle = Bundle(3, n_free=int(joint))
    for _, state in zip(
        range(200), BundleSolver(problem, reg_lambda, bundle=bundle).states(), strict=False
    ):
        assert state.lower_bound <= best + 1e-9 <= state.primal + 2e-9
        if state.gap <= 1e-7 * state.primal:
            break
    assert state.gap <= 1e-7 * state.primal


@pytest.mark.parametrize("beta", [0.0, -1.0, 1e150, 1e300, np.inf, np.nan])
def test_beta_whose_square_is_no_number_is_refused(beta):
    with pytest.raises(ValueError, match=r"^beta must be positive and finite, below 1e"):
        FBeta(beta).check(np.array([1.0, -1.0]))
