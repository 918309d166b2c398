"""However a fit ends, its certificate is true: objective, bound, gap, status, history, optimum.

The judge recomputes all of it from the fitted attributes and the data, beside an optimum that an
independent solver found.
"""

import os
import signal

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine

from sklearn_bundle import BMRMClassifier
from tests.contract.callbacks import Callback, StopAt
from tests.contract.cases import CASES, fitted, judged, tight
from tests.contract.fits import quiet
from tests.contract.judge import judge

pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")
every_case = pytest.mark.parametrize("case", CASES, ids=str)
EARLY = "max_iter", "stalled", "converged"


def statuses(model):
    return set(np.atleast_1d(model.status_))


@every_case
def test_converged(case):
    layout = ["dense", "csr", "float32"][CASES.index(case) % 3]
    model = fitted(case, layout, **tight(case))
    assert statuses(model) == {"converged"} or "BoundedGrid" in str(case)
    judged(model, case)


@every_case
@pytest.mark.parametrize("iterations", [1, 13])
def test_ended_by_max_iter(case, iterations):
    model = fitted(case, tol=1e-12, max_iter=iterations)
    assert statuses(model) <= set(EARLY)
    judged(model, case)


@every_case
def test_ended_by_max_time(case):
    if "max_time" not in case.model.get_params():
        pytest.skip("no parameter of this estimator")
    model = fitted(case, tol=1e-12, max_time=1e-9)
    judged(model, case)
    assert statuses(model) <= {"max_time", "converged"}


@every_case
def test_ended_by_a_callback(case):
    model = fitted(case, callback=StopAt(3), tol=1e-12)
    judged(model, case)
    assert statuses(model) <= {"callback", "converged"}


class CtrlC(Callback):
    """Ctrl-C at the end of an iteration."""

    def __init__(self, iteration):
        self.left = iteration

    def on_fit_task_end(self, estimator, context, **_):
        self.left -= context.task_name == "iteration"
        if self.left == 0 and context.task_name == "iteration":
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("case", [case for case in CASES if not case.is_search], ids=str)
def test_ended_by_ctrl_c(case):
    model = clone(case.model).set_params(tol=1e-12).set_callbacks(CtrlC(2))
    X, y, weights, further = case.data
    try:
        quiet(model, X, y, weights, **further)
        assert "interrupted" not in statuses(model)  # it was done before
    except KeyboardInterrupt:
        assert "interrupted" in statuses(model)
    judged(model, case)


@every_case
def test_a_second_fit_starts_where_the_first_has_ended(case):
    """A tighter tol, then another strength: each certificate is that of its own problem."""
    if "warm_start" not in case.model.get_params():
        pytest.skip("no parameter of this estimator")
    X, y, weights, further = case.data
    model = fitted(case, warm_start=True, tol=1e-2)
    first = np.array(model.lower_bound_), np.array(model.objective_)
    judged(quiet(model.set_params(tol=1e-6, max_iter=2000), X, y, weights, **further), case)
    slack = np.inf if "BoundedGrid" in str(case) else 1e-5 * np.abs(first[1])
    assert (model.lower_bound_ >= first[0] - slack).all()
    assert (model.objective_ <= first[1] + slack).all()
    strength = "reg_lambda" if hasattr(model, "reg_lambda") else "C"
    if strength in model.get_params() and not getattr(model, "nu", None):
        model.set_params(**{strength: 3.0 * getattr(model, strength)})
        judged(quiet(model, X, y, weights, **further), case)


@pytest.mark.filterwarnings("ignore:w is 0")
@pytest.mark.parametrize("value", [2.0, 3.0, 5.0])
@pytest.mark.parametrize("loss", ["multiclass_hinge", "softmax"])
def test_what_is_handed_out_is_a_copy(loss, value):
    """One column: where the transposed weights of K classes are a view, steps changed the model."""
    X = np.full((3, 1), value)
    for reg_lambda in (9.77e-4, 2e-3):
        for y in ([1, 0, 0], [0, 0, 1]):
            judge(quiet(BMRMClassifier(loss, reg_lambda=reg_lambda, tol=0.01), X, y), X, y)


def test_planes_follow_sweeps_that_features_far_apart_in_scale_slow_down():
    X, y = load_wine(return_X_y=True)  # deviations of .12 to 315: sweeps alone take minutes
    model = BMRMClassifier("multiclass_hinge", warm_start=True)
    for reg_lambda in (1e-2, 1e-4, 1e-6):
        judge(model.set_params(reg_lambda=reg_lambda).fit(X, y), X, y)
        assert model.converged_ and model.n_iter_ < 200
        assert list(np.unique(model.history_["solver"])) == ["dual-coordinate", "line-search"]


@pytest.mark.parametrize("case", CASES[::3], ids=str)
def test_threads(case):
    if "n_jobs" not in case.model.get_params():
        pytest.skip("no parameter of this estimator")
    judged(fitted(case, tol=1e-6, n_jobs=2, max_iter=2000), case)


@pytest.mark.parametrize("case", CASES[::4], ids=str)
def test_a_tol_of_exactly_the_gap_is_reached(case):
    """``dual_gap_ <= tol * abs(objective_)`` says so, whichever of the two is more."""
    first = fitted(case, tol=1e-2)
    if first.converged_ and first.relative_gap_ > 1e-9:  # rounding allows other gaps below
        model = fitted(case, tol=first.relative_gap_)
        judged(model, case)
        assert model.converged_
