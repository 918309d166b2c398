"""A user's own model: its methods against enumeration, and errors that name them."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sklearn_bundle.models import StructuredModel
from sklearn_bundle.structured.problems.structured import StructuredProblem
from tests.contract.user_models import BoundedGrid, Grid, HastyGrid, Orders, Ranking


def rankings(seed=0, n=6, d=3):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(1, 5), d)) for _ in range(n)]
    return X, [rng.permutation(len(x)) for x in X]


def grids(seed=0, n=5, d=2):
    rng = np.random.default_rng(seed)
    return list(rng.normal(size=(n, 2, 3, d))), list(rng.integers(0, 2, (n, 2, 3)))


def point(examples, seed=1, size=2.0):
    """Parameters of which some enter each score, in the cone."""
    w = size * np.random.default_rng(seed).normal(size=examples.n_parameters)
    w[examples.nonnegative] = np.abs(w[examples.nonnegative])
    return w


def enumerated(model, x, y, w, scaling):
    """Of every output the dense psi, the loss and the score, straight from their definitions."""
    for output in model.outputs(x):
        psi = np.subtract(model.joint_feature(x, y), model.joint_feature(x, output), dtype=float)
        loss = float(model.loss(y, output))
        psi = loss * psi if scaling == "slack" else psi
        yield psi, loss, loss - w @ psi


def dense(found, n_parameters):
    rows = sp.csr_array(
        (found.values, found.indices, found.starts), (len(found.losses), n_parameters)
    )
    return rows.toarray()


def broken(base, **methods):
    """A model that differs in these methods."""
    return type("Broken", (base,), methods)()


MODELS = {"ranking": (Ranking(), rankings), "grid": (Grid(), grids)}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("scaling", ["margin", "slack"])
def test_worst_outputs_by_enumeration(name, scaling):
    model, draw = MODELS[name]
    X, y = draw()
    examples = model.examples(X, y, scaling)
    w = point(examples)
    found = examples.find(w, 1, len(y))
    psi = dense(found, examples.n_parameters)
    for i in range(1, len(y)):
        outputs = list(enumerated(model, X[i], y[i], w, scaling))
        assert found.scores[i - 1] == pytest.approx(max(s for _, _, s in outputs), abs=1e-12)
        distances = [
            np.abs(psi[i - 1] - p).max() + abs(found.losses[i - 1] - loss) for p, loss, _ in outputs
        ]
        assert min(distances) < 1e-12  # it is one of them
    np.testing.assert_allclose(found.scores, found.losses - psi @ w, atol=1e-12)
    np.testing.assert_array_equal(found.bounds, found.scores)
    assert found.values.all()


FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


SPARSE = [*(f"{f}_matrix" for f in FORMATS), *(f"{f}_array" for f in FORMATS)]


@pytest.mark.parametrize("kind", [*SPARSE, "a vector"])
def test_sparse_joint_features(kind):
    class Sparse(Ranking):
        def joint_feature(self, x, y):
            phi = super().joint_feature(x, y)
            return sp.coo_array(phi) if kind == "a vector" else getattr(sp, kind)([phi])

    X, y = rankings()
    expected, found = (
        model.examples(X, y, "margin").find(np.ones(3), 0, 6) for model in (Ranking(), Sparse())
    )
    for part, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(part, other)


def test_entries_of_one_index_are_summed():
    class Repeated(Ranking):
        def joint_feature(self, x, y):
            phi = 0.5 * super().joint_feature(x, y)
            twice = np.r_[phi, phi, -7.0, 7.0], (np.zeros(8, int), [0, 1, 2, 0, 1, 2, 1, 1])
            return sp.coo_array(twice, shape=(1, 3))

    X, y = rankings()
    expected, found = (
        model.examples(X, y, "margin").find(np.ones(3), 0, 6) for model in (Ranking(), Repeated())
    )
    np.testing.assert_allclose(dense(found, 3), dense(expected, 3), atol=1e-14)
    assert (np.diff(found.starts) <= 3).all()


def test_the_true_joint_feature_is_computed_once():
    class Counted(Ranking):
        calls = 0

        def joint_feature(self, x, y):
            Counted.calls += 1
            return super().joint_feature(x, y)

    X, y = rankings()
    examples = Counted().examples(X, y, "margin")
    for _ in range(3):
        examples.find(np.ones(3), 0, 6)
    assert Counted.calls == 6 + 3 * 6


def test_threads_change_no_bit():
    X, y = rankings(n=40)
    examples = Ranking().examples(X, y, "margin")
    risks = []
    for threads in (1, 3):
        with StructuredProblem(examples, np.full(40, 1 / 40), 0.1, n_threads=threads) as problem:
            risks.append(problem.evaluate(np.ones(3)))
    assert risks[0][0] == risks[1][0]
    np.testing.assert_array_equal(risks[0][1], risks[1][1])


def test_outputs_without_loss_do_not_count_with_slack_rescaling():
    class Indifferent(Ranking):
        def loss(self, y, y_hat):
            return 0.0

    X, y = rankings()
    found = Indifferent().examples(X, y, "slack").find(np.ones(3), 0, 6)
    assert not found.starts.any() and not found.scores.any() and not len(found.values)


def test_the_constructor_s_parameters_can_be_cloned_and_set():
    model = clone(Ranking(decay=0.25)).set_params(decay=0.75)
    assert repr(model) == "Ranking(decay=0.75)"


# ---- inexact inference ---------------------------------------------------------------------


@pytest.mark.parametrize("size", [0.0, 0.3, 2.0, 8.0])
def test_an_inexact_oracle_is_between_the_truth_and_its_bound(size):
    X, y = grids(n=12)
    examples = BoundedGrid().examples(X, y, "margin")
    w = point(examples, size=size)
    found, best = examples.find(w, 0, 12), Grid().examples(X, y, "margin").find(w, 0, 12)
    assert not examples.exact
    assert (found.scores >= 0.0).all()
    assert (found.scores <= best.scores + 1e-12).all()
    assert (found.bounds >= best.scores - 1e-12).all()
    assert np.isfinite(found.bounds).all()


@pytest.mark.parametrize("scaling", ["margin", "slack"])
def test_a_tight_bound_is_the_score(scaling):
    def upper_bound(self, x, y, w):
        best = max(score for _, _, score in enumerated(self, x, y, w, scaling))
        return best + (0.0 if scaling == "slack" else w @ self.joint_feature(x, y))

    X, y = grids()
    examples = broken(Grid, exact=False, upper_bound=upper_bound).examples(X, y, scaling)
    found = examples.find(point(examples), 0, 5)
    np.testing.assert_allclose(found.bounds, found.scores, atol=1e-12)


def test_without_a_bound_nothing_is_known():
    X, y = grids()
    found = HastyGrid().examples(X, y, "margin").find(np.zeros(4), 0, 5)
    assert (found.bounds == np.inf).all()


class Lazy(Grid):
    """It labels all cells 1, whatever they look like."""

    exact = False

    def loss_augmented_inference(self, x, y, w):
        return np.ones((2, 3))

    slack_rescaled_inference = loss_augmented_inference

    def upper_bound(self, x, y, w):
        return np.inf


@pytest.mark.parametrize("scaling", ["margin", "slack"])
def test_an_inexact_oracle_that_is_worse_than_the_truth_is_left_out(scaling):
    X, y = grids()
    examples = Lazy().examples(X, y, scaling)
    w = np.array([-4.0, -4.0, 1.0, 1.0])
    found = examples.find(w, 0, 5)
    last = [[*enumerated(Grid(), *pair, w, scaling)][-1] for pair in zip(X, y, strict=True)]
    scores = np.array([score for _, _, score in last])  # of all cells 1
    np.testing.assert_allclose(found.scores, np.maximum(scores, 0.0), atol=1e-12)
    truths = np.flatnonzero(scores < 0.0)
    assert 0 < len(truths) < 5
    assert not np.diff(found.starts)[truths].any() and not found.losses[truths].any()


def test_rounding_is_no_fault():
    """A score that is below the truth's by the last bits of its terms."""

    class Close(StructuredModel):
        def n_parameters(self, X, y):
            return 1

        def joint_feature(self, x, y):
            return [1e6 + 1e-9 * (y == x)]

        def loss(self, y, y_hat):
            return 0.0

        def inference(self, x, w):
            return x + 1

        def loss_augmented_inference(self, x, y, w):
            return x + 1

    found = Close().examples([3], [3], "margin").find(np.ones(1), 0, 1)
    assert found.scores == found.losses == 0.0 and not len(found.values)


# ---- errors --------------------------------------------------------------------------------


def differing(right, wrong):
    """phi for the true outputs, which come first, and for others."""
    calls = []

    def joint_feature(self, x, y):
        calls.append(y)
        return right if len(calls) <= 5 else wrong

    return joint_feature


LENGTH = "Broken.joint_feature must return a vector of length n_parameters = 4, but returned one of"
AT_ONCE = {
    "length": ({"joint_feature": lambda *_: np.ones(3)}, f"{LENGTH} shape (3,) for example 0"),
    "matrix": ({"joint_feature": lambda *_: np.ones((2, 2))}, f"{LENGTH} shape (2, 2) for ex"),
    "sparse": ({"joint_feature": lambda *_: sp.eye(4)}, f"{LENGTH} shape (4, 4) for example 0"),
    "words": (
        {"joint_feature": lambda *_: [1, 2, 3, "a"]},
        "Broken.joint_feature of example 0 must hold numbers, got 'a'",
    ),
    "nan": (
        {"joint_feature": lambda *_: [0, 1, np.nan, 2]},
        "Broken.joint_feature must return finite numbers, but returned nan at index 2 for",
    ),
    "inf": (
        {"joint_feature": lambda *_: sp.csr_array([[0, 0, 0, -np.inf]])},
        "Broken.joint_feature must return finite numbers, but returned -inf at index 3 for",
    ),
    "loss_true": (
        {"loss": lambda *_: 1},
        "Broken.loss must return 0 where y_hat is y, but returned 1.0 for example 0",
    ),
    "loss_nan": (
        {"loss": lambda *_: np.nan},
        "Broken.loss must return a finite number that is at least 0, but returned nan for",
    ),
    "loss_none": ({"loss": lambda *_: None}, "at least 0, but returned None for example 0"),
    "loss_array": ({"loss": lambda *_: np.zeros(2)}, "but returned [0.0, 0.0] for example 0"),
    "size_zero": (
        {"n_parameters": lambda *_: 0},
        "Broken.n_parameters must return a positive integer below 2^32, but returned 0.",
    ),
    "size_float": ({"n_parameters": lambda *_: 4.0}, "below 2^32, but returned 4.0."),
    "size_large": ({"n_parameters": lambda *_: 1 << 32}, "below 2^32, but returned 4294967296."),
    "cone_high": (
        {"nonnegative": lambda *_: [0, 4]},
        "Broken.nonnegative must return indices from 0 to n_parameters - 1 = 3, but returned [",
    ),
    "cone_low": ({"nonnegative": lambda *_: [-1]}, "n_parameters - 1 = 3, but returned [-1]"),
    "cone_mask": (
        {"nonnegative": lambda *_: [True, False, False, False]},
        "Broken.nonnegative must return indices",
    ),
    "cone_words": ({"nonnegative": lambda *_: ["a"]}, "Broken.nonnegative must hold numbers"),
}
LATER = {
    "length": (
        {"joint_feature": differing(np.ones(4), np.ones(5))},
        f"{LENGTH} shape (5,) for example 0",
    ),
    "loss_negative": (
        {"loss": lambda self, y, y_hat: -np.count_nonzero(y != y_hat)},
        "Broken.loss must return a finite number that is at least 0, but returned -",
    ),
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_errors_before_any_work(name):
    methods, message = AT_ONCE[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        broken(Grid, **methods).examples(*grids(), "margin")


@pytest.mark.parametrize("name", LATER)
def test_errors_of_the_outputs_found(name):
    methods, message = LATER[name]
    examples = broken(Grid, **methods).examples(*grids(), "margin")
    with pytest.raises(ValueError, match=re.escape(message)):
        examples.find(np.zeros(4), 0, 5)


@pytest.mark.parametrize("scaling", ["margin", "slack"])
def test_an_exact_oracle_that_is_worse_than_the_truth(scaling):
    X, y = grids()
    examples = broken(Lazy, exact=True).examples(X, y, scaling)
    method = "slack_rescaled" if scaling == "slack" else "loss_augmented"
    message = rf"Broken\.{method}_inference must find .* for example \d it found .* exact = False"
    with pytest.raises(ValueError, match=message):
        examples.find(np.array([-4.0, -4.0, 1.0, 1.0]), 0, 5)


@pytest.mark.parametrize("value", [np.nan, "1", None, -100.0])
def test_wrong_upper_bounds(value):
    examples = broken(HastyGrid, upper_bound=lambda *_: value).examples(*grids(), "margin")
    with pytest.raises(ValueError, match=r"Broken\.upper_bound must .* example 0"):
        examples.find(np.zeros(4), 0, 5)


def test_missing_methods_are_all_named():
    class Half(StructuredModel):
        def n_parameters(self, X, y):
            raise AssertionError("no work before this is clear")

        def loss(self, y, y_hat):
            return 0.0

    message = "Half must define joint_feature, inference, loss_augmented_inference"
    with pytest.raises(TypeError, match=message):
        Half().examples([1], [1], "margin")


def test_slack_rescaling_needs_its_inference():
    with pytest.raises(ValueError, match=r"scaling='slack' needs .* which HastyGrid does not have"):
        HastyGrid().examples(*grids(), "slack")


@pytest.mark.parametrize(
    "method", ["n_parameters", "joint_feature", "loss", "loss_augmented_inference", "nonnegative"]
)
def test_what_a_method_raises_passes_through(method):
    error = RuntimeError("mine")

    def fail(*_):
        raise error

    with pytest.raises(RuntimeError) as raised:
        broken(Grid, **{method: fail}).examples(*grids(), "margin").find(np.zeros(4), 0, 5)
    assert raised.value is error


def test_a_model_cannot_write_to_w():
    def inference(self, x, y, w):
        w += 1.0

    examples = broken(Grid, loss_augmented_inference=inference).examples(*grids(), "margin")
    with pytest.raises(ValueError, match="read-only"):
        examples.find(np.zeros(4), 0, 5)
    with pytest.raises(ValueError, match="read-only"):
        expected(Orders(), expected_features=lambda self, x, w: w.sort())


# ---- expected features -------------------------------------------------------------------------


def expected(model, **methods):
    """What is found at a point for the last four of six rankings, and the gradient."""
    examples = broken(type(model), **methods).examples(*rankings(), "margin")
    gradient = np.ones(examples.n_parameters)
    w, weights = point(examples), np.arange(1.0, 5.0)
    return examples.expect(w, 2, 6, weights, gradient), gradient - 1.0, w, weights


def test_expectations_by_enumeration():
    found, gradient, w, weights = expected(Orders())
    model, (X, y) = Orders(), rankings()
    slope = np.zeros(len(w))
    for k, i in enumerate(range(2, 6)):
        psi = np.array([psi for psi, *_ in enumerated(model, X[i], y[i], w, "margin")])
        shares = np.exp(-psi @ w)
        assert found.losses[k] == pytest.approx(np.log(shares.sum()), abs=1e-13)
        slope -= weights[k] * (shares @ psi) / shares.sum()
    np.testing.assert_allclose(gradient, slope, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("layout", [sp.csr_array, sp.coo_matrix, list])
def test_expectations_in_any_format(layout):
    def expected_features(self, x, w):
        log_z, phi = Orders.expected_features(self, x, w)
        return np.array(log_z), layout(phi if layout is list else phi[None])

    changed = expected(Orders(), expected_features=expected_features)
    np.testing.assert_array_equal(changed[1], expected(Orders())[1])


@pytest.mark.parametrize("returned, message", [
    (1.0, r"a pair \(log_partition, expectation\), but returned 1.0 for example 2"),
    (("a", np.zeros(3)), "a number as log_partition, but returned 'a' for example 2"),
    ((np.nan, np.zeros(3)), "a number as log_partition, but returned nan for example 2"),
    ((1e3, np.zeros(2)), r"length n_parameters = 3, but returned one of shape \(2,\)"),
    ((1e3, [0.0, np.inf, 0.0]), "finite numbers, but returned inf at index 1 for example 2"),
    ((-1e3, np.zeros(3)), "the true one among them, but for example 2 it returned -1000, which is "
     "below the score"),
])  # fmt: skip
def test_expectations_that_are_none(returned, message):
    with pytest.raises(ValueError, match=f"Broken.expected_features must return .*{message}"):
        expected(Orders(), expected_features=lambda self, x, w: returned)


def test_sums_that_overflow_are_infinite_losses():
    found, *_ = expected(Orders(), expected_features=lambda self, x, w: (np.inf, np.zeros(3)))
    assert (found.losses == np.inf).all()
