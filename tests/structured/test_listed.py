"""A user's own model, beyond the contracts of test_models: sparse features, bounds, errors."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle.models import StructuredModel
from tests.contract.user_models import Grid, HastyGrid, Ranking
from tests.structured.test_models import exact, made


def broken(base, **methods):
    """A model that differs in these methods."""
    return type("Broken", (base,), methods)()


def bound(model, name="own: orders", scaling="margin"):
    case = made(name)
    return model.examples(case.X, case.y, scaling)


def repeated(phi):
    """Entries of one index are summed."""
    twice = np.r_[0.5 * phi, 0.5 * phi, -7.0, 7.0]
    return sp.coo_array((twice, (np.zeros(8, int), [0, 1, 2, 0, 1, 2, 1, 1])), shape=(1, 3))


ROWS = sp.csr_matrix, sp.csc_array, sp.lil_array, sp.dok_matrix  # of shape (1, n_parameters)
KINDS = [*ROWS, sp.coo_array, list, repeated]


@pytest.mark.parametrize("kind", KINDS)
def test_joint_features_of_any_kind(kind):
    def joint_feature(self, x, y):
        phi = Ranking().joint_feature(x, y)
        return kind([phi] if kind in ROWS else phi)

    found = bound(broken(Ranking, joint_feature=joint_feature)).find(np.ones(3), 0, 4)
    for part, other in zip(found, made("own: orders").find(np.ones(3)), strict=True):
        np.testing.assert_allclose(part, other, atol=1e-14)


def test_outputs_without_loss_do_not_count_with_slack_rescaling():
    indifferent = broken(Ranking, loss=lambda *_: 0.0)
    found = bound(indifferent, scaling="slack").find(np.ones(3), 0, 4)
    assert not found.starts.any() and not found.scores.any() and not len(found.values)


# ---- inexact inference ---------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", ["margin", "slack"])
def test_a_tight_bound_is_the_score(scaling):
    case = made("own: pictures" + (", slack" if scaling == "slack" else ""))
    w = case.weights(2.0)

    def upper_bound(self, x, y, w):
        i = next(i for i, other in enumerate(case.X) if other is x)
        highest = float(exact(case.outputs[i], scaling, w).max())
        return highest + (0.0 if scaling == "slack" else w @ self.joint_feature(x, y))

    model = broken(Grid, exact=False, upper_bound=upper_bound)
    found = model.examples(case.X, case.y, scaling).find(w, 0, 4)
    np.testing.assert_allclose(found.bounds, case.find(w).scores, atol=1e-12)


class Lazy(Grid):
    """It labels all cells 1, whatever they look like."""

    exact = False

    def loss_augmented_inference(self, x, y, w):
        return np.ones((2, 3))

    slack_rescaled_inference = loss_augmented_inference

    def upper_bound(self, x, y, w):
        return np.inf


@pytest.mark.parametrize("scaling", ["margin", "slack"])
def test_outputs_that_are_worse_than_the_truth(scaling):
    """They are left out, and are an error of a model that is said to be exact."""
    case = made("own: pictures" + (", slack" if scaling == "slack" else ""))
    w = np.array([4.0, 4.0, 1.0, 1.0])
    found = Lazy().examples(case.X, case.y, scaling).find(w, 0, 4)
    scores = np.array([exact(outputs, scaling, w)[-1] for outputs in case.outputs])  # of all ones
    np.testing.assert_allclose(found.scores, np.maximum(scores, 0.0).astype(float), atol=1e-12)
    left_out = np.flatnonzero(scores < 0.0)
    assert 0 < len(left_out) < 4 and not found.losses[left_out].any()
    assert not np.diff(found.starts)[left_out].any()
    method = "slack_rescaled" if scaling == "slack" else "loss_augmented"
    message = rf"Broken\.{method}_inference must find .* for example \d it found .* exact = False"
    with pytest.raises(ValueError, match=message):
        broken(Lazy, exact=True).examples(case.X, case.y, scaling).find(w, 0, 4)


def test_rounding_is_no_fault():
    """A score that is below the truth's by the last bits of its terms."""
    other = {"inference": lambda self, x, w: x + 1, "loss": lambda *_: 0.0}
    other["loss_augmented_inference"] = lambda self, x, y, w: x + 1
    other["joint_feature"] = lambda self, x, y: [1e6 + 1e-9 * (y == x)]
    model = broken(StructuredModel, n_parameters=lambda *_: 1, **other)
    found = model.examples([3], [3], "margin").find(np.ones(1), 0, 1)
    assert found.scores == found.losses == 0.0 and not len(found.values)


# ---- errors --------------------------------------------------------------------------------------


def use(base, name, **methods):
    """All that a fit does with a model that differs in these methods."""
    examples = bound(broken(base, **methods), name)
    examples.find(np.zeros(examples.n_parameters), 0, 4)


def later(right, wrong):
    """What is returned for the true outputs, which come first, and for others."""
    calls = []
    return lambda *_: calls.append(None) or (right if len(calls) <= 4 else wrong)


RETURNED = [
    ("joint_feature", np.ones(3), r"of example 0 must have the shape \(4,\), but has \(3,\)"),
    ("joint_feature", sp.eye(4), "must return a vector of length 4, but returned <DIAgonal"),
    ("joint_feature", [0, 1, np.nan, 2], r"of example 0 must be finite, .* at \(2,\) is nan"),
    ("joint_feature", later(np.ones(4), np.ones(5)), r".* must have the shape \(4,\).* \(5,\)"),
    ("loss", 1, "must return 0 where y_hat is y, but returned 1 for example 0"),
    ("loss", None, "must return a number, but returned None for example 0"),
    ("loss", np.inf, "must return a finite number that is at least 0, but returned inf"),
    ("loss", later(0, -1), "must return a finite number that is at least 0, but returned -1"),
    ("n_parameters", 0, "== 0, must be >= 1"),
    ("nonnegative", [0, 4], r"must hold whole numbers from 0 to 3, but the entry at \(1,\) is 4"),
    ("upper_bound", np.nan, "must return a number, but returned nan for example 0"),
    ("upper_bound", -100.0, "must return at least what loss_augmented_inference finds, .* more"),
]


@pytest.mark.parametrize("method, value, message", RETURNED)
def test_wrong_values_of_methods(method, value, message):
    base = HastyGrid if method == "upper_bound" else Grid
    with pytest.raises((ValueError, TypeError), match=rf"Broken\.{method} {message}"):
        use(base, "own: pictures", **{method: value if callable(value) else lambda *_: value})


def test_missing_methods_are_all_named():
    half = broken(StructuredModel, loss=lambda *_: 0.0, n_parameters=lambda *_: 1 / 0)
    message = "Broken must define joint_feature, inference, loss_augmented_inference"
    with pytest.raises(TypeError, match=message):
        half.examples([1], [1], "margin")
