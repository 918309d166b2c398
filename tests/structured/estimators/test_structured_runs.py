"""StructuredSVM: limits, callbacks, Ctrl-C, and an inference that breaks its word."""

import re
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV

from sklearn_bundle import StructuredSVM
from sklearn_bundle.structured.problems.structured import StructuredProblem
from tests.contract.callbacks import StopAt
from tests.contract.chains import named_chains
from tests.contract.interrupts import interrupt
from tests.contract.judge import judge
from tests.contract.user_models import Grid, Ranking, ranked_items


@pytest.fixture(scope="module")
def chains():
    return named_chains(12, longest=4)


@pytest.fixture(scope="module")
def ranked():
    return ranked_items()


def test_limits_are_warned_of(chains):
    with pytest.warns(ConvergenceWarning, match="StructuredSVM .*'max_iter' .* Increase max_iter"):
        model = StructuredSVM(max_iter=2, tol=1e-9).fit(*chains)
    assert model.n_iter_ == 2 and model.status_ == "max_iter"
    judge(model, *chains)
    with pytest.warns(ConvergenceWarning, match="'max_time'"):
        model = StructuredSVM(max_time=1e-9, tol=1e-9).fit(*chains)
    assert model.n_iter_ == 1


def test_verbose(ranked, capsys):
    StructuredSVM(Ranking(), verbose=1).fit(*ranked)
    line = r"\[StructuredSVM\] iteration 1: objective .*, lower bound .*, relative gap"
    assert re.search(line, capsys.readouterr().out)


def test_a_callback_stops_the_fit(chains):
    pytest.importorskip("sklearn.callback")
    stop = StopAt(2)
    model = StructuredSVM(tol=1e-12).set_callbacks(stop)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # who asked for it is not warned
        model.fit(*chains)
    assert model.status_ == "callback" and model.n_iter_ == 2
    judge(model, *chains)


def test_scores_of_every_iteration(chains, ranked):
    callback = pytest.importorskip("sklearn.callback")
    for kind, (X, y) in {"chain": chains, "own": ranked}.items():
        monitor = callback.ScoringMonitor(scoring={"own": lambda m, X, y: m.score(X, y)})
        model = StructuredSVM("chain" if kind == "chain" else Ranking(), random_state=0)
        model.set_callbacks(monitor).fit(X, y)
        rows = monitor.get_logs().data
        assert len([row for row in rows if row["task_name"] == "iteration"]) == model.n_iter_
        final = next(row for row in rows if row["task_name"] == "fit")
        assert any(value == pytest.approx(model.score(X, y)) for value in final.values())


def test_progress_of_a_search(chains):
    callback = pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    search = GridSearchCV(StructuredSVM(), {"reg_lambda": [1e-1, 1.0]}, cv=2)
    search.set_callbacks(callback.ProgressBar(max_propagation_depth=None))
    assert search.fit(*chains).best_score_ > 0.3


@pytest.mark.wide
@pytest.mark.parametrize("call", [3, 4])
@pytest.mark.parametrize("solver", ["auto", "rsd", "bundle"])
def test_ctrl_c_keeps_the_best_point(chains, solver, call, monkeypatch):
    interrupt(monkeypatch, call, (StructuredProblem, "find"))
    model = StructuredSVM(solver=solver, tol=1e-13, warm_start=True, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*chains)
    assert model.status_ == "interrupted" and not hasattr(model, "_warm")
    judge(model, *chains)
    assert len(model.predict(chains[0])) == 12


def test_ctrl_c_before_there_is_a_point(chains, monkeypatch):
    interrupt(monkeypatch, 1, (StructuredProblem, "find"))
    model = StructuredSVM()
    with pytest.raises(KeyboardInterrupt):
        model.fit(*chains)
    with pytest.raises(NotFittedError):
        model.predict(chains[0])


class Forgetful(Grid):
    """Says that it is exact, and forgets the loss once there are weights."""

    def loss_augmented_inference(self, x, y, w):
        return super().loss_augmented_inference(x, y, w) if not w.any() else self.inference(x, w)


@pytest.mark.parametrize("solver", ["auto", "bcfw", "rsd", "rsd-one-simplex"])
def test_an_inference_that_is_not_what_it_says(solver):
    rng = np.random.RandomState(0)
    X, y = list(rng.standard_normal((8, 2, 3, 2))), list(rng.randint(0, 2, (8, 2, 3)))
    with pytest.raises(ValueError, match="loss_augmented_inference"):
        StructuredSVM(Forgetful(), solver=solver, reg_lambda=0.01, random_state=0).fit(X, y)
