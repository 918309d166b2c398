"""Lists of losses and regularizers against the estimators, and against slopes at kinks."""

import inspect

import numpy as np
import pytest

import sklearn_bundle
from sklearn_bundle import BMRMRegressor, list_losses, list_regularizers, losses, regularizers
from sklearn_bundle.linear.estimators._bundle import BundleEstimator
from sklearn_bundle.losses import Target

RNG = np.random.default_rng(0)
N = 6
TARGETS = {
    "binary": Target(np.tile([1.0, -1.0], 3), N),
    "multiclass": Target(np.arange(N) % 3, N, classes=[0, 1, 2]),
    "regression": Target(RNG.integers(1, 4, N) + 0.5, N),
    "ranking": Target(np.arange(N) % 3 * 1.0, N, group=np.zeros(N)),
}
REQUIRED = {
    "edges": [("root", 0), ("root", 1), ("root", 2)],
    "B": np.eye(5),
    "weights": np.arange(1.0, 6.0),
}


def made(choice):
    """An instance with the parameters that are listed."""
    parameters = choice.parameters.items()
    empty = inspect.Parameter.empty
    return choice.kind(**{name: REQUIRED[name] if v is empty else v for name, v in parameters})


def is_smooth(derivative, start, end):
    """Whether the slope along a line jumps, of all that it changes, by no more than a twentieth.

    Kinks of these functions jump by a tenth at least, steps of an exponential by a hundredth.
    """
    way = end - start
    slopes = [derivative(start + t * way) @ way for t in np.linspace(0.0, 1.0, 801)]
    return np.abs(np.diff(slopes)).max() < 0.05 * np.ptp(slopes)


@pytest.mark.parametrize("choice", list_losses(), ids=lambda c: c.kind.__name__)
def test_a_loss_is_smooth_as_listed(choice):
    target = TARGETS[choice.task]
    if isinstance(made(choice), losses.Preference | losses.MultivariateSquaredError):
        pairs = isinstance(made(choice), losses.Preference)
        y = np.array([[0, 1], [2, 3]]) if pairs else np.c_[target.y, -target.y]
        target = target._replace(y=y)
    loss, y = made(choice).prepare_target(target)
    k = loss.n_outputs(y)
    shape = (N,) if k is None else (N, k)
    weights, out = np.full(N, 1.0 / N), np.empty(shape)

    def gradient(scores):
        loss.evaluate(scores.reshape(shape), y, weights, out)
        return out.ravel().copy()

    end = RNG.permutation(np.linspace(1.0, 3.0, out.size)) * RNG.choice([-1.0, 1.0], out.size)
    assert is_smooth(gradient, -end, end) == choice.smooth


@pytest.mark.parametrize("choice", list_regularizers(), ids=lambda c: c.kind.__name__)
def test_a_regularizer_is_smooth_as_listed(choice):
    omega = made(choice).bind(5, 5)
    ends = np.array([[-1.0, 2.0, -3.0, 1.0, 0.5], [1.0, 1.0, 2.0, -2.0, 3.0]])
    if choice.kind in (regularizers.Entropy, regularizers.EntropySimplex):  # of w > 0, of sum 1
        ends = np.abs(ends) / np.abs(ends).sum(axis=1, keepdims=True)
    way = ends[1] - ends[0]

    def along(w):
        return omega.slope(w, way)[0] * way / (way @ way)

    assert is_smooth(along, *ends) == choice.smooth


def test_estimators_accept_what_is_listed_and_nothing_else_has_a_name():
    public = [getattr(sklearn_bundle, name) for name in sklearn_bundle.__all__]
    kinds = [k for k in public if inspect.isclass(k) and issubclass(k, BundleEstimator)]
    for kind in kinds:
        name = kind.__name__
        omegas = {c.name for c in list_regularizers() if name in c.estimators}
        (names,) = (o for o in kind._parameter_constraints["regularizer"] if hasattr(o, "offered"))
        assert omegas - {None} == set(names.offered)
        if "loss" not in kind().get_params():
            continue
        listed = [c for c in list_losses() if name in c.estimators]
        assert {c.name for c in listed} - {None} == set(kind._losses)
        assert all(kind._takes_loss(made(c)) for c in listed)
        for choice in listed:
            assert set(choice.estimator_parameters) <= set(kind().get_params())
            if choice.name is not None:
                given = kind._loss_parameters.get(choice.name, {})
                assert choice.estimator_parameters == tuple(given)
    assert {"BMRMClassifierCV", "BMRMNoveltyDetector"} <= {kind.__name__ for kind in kinds}


def test_the_tables_show_every_choice_and_a_slice_of_a_task():
    shown = repr(list_losses())
    assert shown.count("\n") == len(list_losses()) + 2 * 4 + 3 - 1
    assert "  'huber'                        Huber(delta=1.0)" in shown
    assert list_losses("ranking") == [c for c in list_losses() if c.task == "ranking"]
    with pytest.raises(ValueError, match=r"task must be None or one of .*'ranking'.* got 'rank'"):
        list_losses("rank")


def test_a_listed_class_fits():
    (huber,) = (c for c in list_losses("regression") if c.name == "huber")
    X = RNG.normal(size=(20, 2))
    assert BMRMRegressor(huber.kind(**huber.parameters), reg_lambda=0.1).fit(X, X[:, 0]).converged_
