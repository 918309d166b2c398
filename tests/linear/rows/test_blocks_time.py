"""``max_time`` where rows lie on workers: it holds whatever the cluster does."""

import time
from itertools import count
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_bundle import BMRMClassifier, BMRMNoveltyDetector
from sklearn_bundle.core.contract import State, TimeLimit, run
from sklearn_bundle.linear.problems.row_block import RowBlock
from sklearn_bundle.linear.rows._dask_cluster import ClusterWorkers
from sklearn_bundle.linear.rows._dask_waiting import UNLIMITED, ClusterTimeout, Waiting
from sklearn_bundle.linear.solvers.rounds import CountedRounds
from tests.contract.blocks import collected, dask, labeled_rows
from tests.contract.judge import judge

NEVER = 60.0  # seconds of a task that nobody waits for
GATES = []  # one for each test, which lets its tasks end
BRIEF = 0.3  # seconds that a fit waits for such a task
SLACK = 3.0  # seconds that a busy machine may take beyond a limit


@pytest.fixture(scope="module")
def rows():
    return labeled_rows()


@pytest.fixture(scope="module")
def client():
    """One worker with two threads in this process."""
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 1, "threads_per_worker": 2, "processes": False}
    with (
        distributed.LocalCluster(dashboard_address=None, **settings) as made,
        distributed.Client(made) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def gate():
    GATES.append(Event())
    yield
    GATES[-1].set()


def stuck(gate):
    """A task that does not end before its test does."""
    GATES[gate].wait(NEVER)


def stop_from(monkeypatch, number, act=lambda: None):
    """No answers from this round on, before which ``act()``; returns the tasks asked for."""
    numbers, submit, asked = count(1), ClusterWorkers._submit, []

    def submitting(self, task, args, each=None, **stay):
        asked.append(task.__name__)
        if next(numbers) >= number:
            act()
            self._waiting.limit = TimeLimit(BRIEF)  # however long it took to get here
            return self._client.map(stuck, [len(GATES) - 1] * self.n_blocks, pure=False)
        return submit(self, task, args, each, **stay)

    monkeypatch.setattr(ClusterWorkers, "_submit", submitting)
    return asked


@pytest.mark.wide
@pytest.mark.parametrize("loss", ["hinge", "softmax"])
@pytest.mark.parametrize("solver", ["auto", "line-search"])
def test_rounds_that_are_not_answered_end_with_the_best_point(
    rows, client, monkeypatch, loss, solver
):
    X, y = rows[0], rows[1] if loss == "softmax" else rows[1] > 0
    stop_from(monkeypatch, 25 if solver == "line-search" else 10)
    model = BMRMClassifier(loss, reg_lambda=1e-4, tol=1e-12, solver=solver, max_time=NEVER)
    waited = r"'max_time'.*The time limit passed .* the round '\w+': 0 of 4 blocks"
    with pytest.warns(UserWarning, match=waited):
        model.fit(*collected(X, y))
    assert model.status_ == "max_time" and not model.converged_
    judge(model, X, y)


@pytest.mark.wide
@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_a_fit_without_a_point_says_what_it_waited_for(rows, client, monkeypatch, number):
    """The summaries of blocks, their statistics, hashes, a sample, the first round of a solver."""
    asked = stop_from(monkeypatch, number)
    model = BMRMClassifier(max_time=NEVER, warm_start=True)
    with pytest.raises(ClusterTimeout) as caught:
        model.fit(*collected(rows[0], rows[1] > 0))
    round_of = f"the round {asked[number - 1].strip('_')!r}"
    what = "reading and checking the blocks of rows" if number == 1 else round_of
    before = what if number != 3 else "the round 'prepared_block'"  # still on the way
    assert f"was at {what}: 0 of 4" in str(caught.value) or f"was at {before}" in str(caught.value)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.wide
def test_blocks_that_are_never_read(rows, client):
    X = [dask.delayed(stuck)(len(GATES) - 1), dask.delayed(rows[0])]
    began = time.monotonic()
    with pytest.raises(ClusterTimeout, match=r"at reading and checking .*: [01] of 2 blocks"):
        BMRMNoveltyDetector(rho=1.0, max_time=1.0).fit(X)
    with pytest.raises(ClusterTimeout, match=r"at counting rows: [01] of 2 blocks"):
        BMRMClassifier(max_time=1.0).fit(X, rows[1])
    assert 2.0 < time.monotonic() - began < 2.0 + SLACK


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_limits_on_a_cluster_that_answers(rows, client, monkeypatch):
    submit = ClusterWorkers._submit

    def slowly(*args, **stay):
        time.sleep(0.02)  # a fit takes a hundred iterations of several rounds to stall
        return submit(*args, **stay)

    monkeypatch.setattr(ClusterWorkers, "_submit", slowly)
    X, y = rows[0], rows[1] > 0
    settings = {"reg_lambda": 1e-6, "tol": 1e-13, "solver": "line-search"}
    model = BMRMClassifier(**settings, max_time=2.0).fit(*collected(X, y))
    assert model.status_ == "max_time" and model.history_["seconds"][-1] < 2.0 + SLACK
    judge(model, X, y)
    free = BMRMClassifier(reg_lambda=1e-2).fit(*collected(X, y))
    limited = BMRMClassifier(reg_lambda=1e-2, max_time=100.0).fit(*collected(X, y))
    np.testing.assert_array_equal(limited.coef_, free.coef_)


@pytest.mark.wide
def test_persisted_rows_are_not_stored_again(rows, client):
    X, y = collected(rows[0], rows[1] > 0)
    X = X.rechunk({1: -1}).persist()
    model = BMRMClassifier(reg_lambda=1e-2)
    data = model._check(X, y, None)
    assert [future.result().X for future in data.workers._blocks] == [None] * 4
    alone = BMRMClassifier(reg_lambda=1e-2).fit(*collected(rows[0], rows[1] > 0))
    np.testing.assert_array_equal(model.fit(X, y).coef_, alone.coef_)
    np.testing.assert_array_equal(model.fit(X, y, np.ones(300)).coef_, alone.coef_)
    weights = np.where(np.arange(300) % 5, 1.0, 0.0)
    judge(model.fit(X, y, weights), rows[0], rows[1] > 0, weights)
    columns = X.astype(np.float32).map_blocks(np.asfortranarray).persist()
    judge(model.fit(columns, y), rows[0].astype(np.float32), rows[1] > 0)


def test_rows_with_a_weight_are_not_replaced():
    own, all_rows = np.ones((1, 2)), np.zeros((3, 2))
    assert RowBlock(own, None, np.ones(1)).with_rows(all_rows).X is own
    assert RowBlock(None, None, np.ones(3)).with_rows(all_rows).X is all_rows


@pytest.mark.wide
def test_a_scheduler_that_does_not_answer(rows, client, monkeypatch):
    """Even what asks it for its workers has a limit."""
    monkeypatch.setattr("sklearn_bundle.linear.rows._dask_waiting._CHECK_SECONDS", 0.1)

    def stop():
        monkeypatch.setattr(client, "nthreads", GATES[-1].wait)
        monkeypatch.setattr(client, "scheduler_info", GATES[-1].wait)

    stop_from(monkeypatch, 3, stop)
    with pytest.raises(ClusterTimeout, match="blocks were done; the scheduler does not answer"):
        BMRMClassifier(max_time=NEVER).fit(*collected(rows[0], rows[1] > 0))


@pytest.mark.parametrize(
    "threads, known, said",
    [
        ({}, {}, "; there is no worker"),
        ({"a": 1, "b": 1}, {}, ""),  # of totals only, as a client often keeps them
        ({"a": 1, "b": 1}, {"a": {"status": "running"}, "b": {}}, ""),
        ({"a": 1, "b": 1}, {"a": {"status": "paused"}, "b": {}}, "; 1 of 2 workers are paused"),
    ],
)
def test_what_a_message_says_of_workers(threads, known, said):
    client = SimpleNamespace(
        scheduler=SimpleNamespace(address="here"),
        nthreads=lambda: threads,
        scheduler_info=lambda n_workers: {"workers": known},
    )
    message = str(Waiting(client, UNLIMITED).late("a round", [None]))
    assert message.startswith("the time limit passed while the cluster at 'here' was at a round")
    assert message.split(" blocks were done")[1].startswith(said)
    assert bool(said) == (not message.endswith("blocks were done"))


class Claiming:
    """A solver that claims a gap of 0 so that it is confirmed, which nobody does in time."""

    history_fields = ()

    def states(self):
        for bound in (0.25, 0.5, 1.0):
            yield State(1.0, bound, np.zeros(1), 0.0, 0)
        raise ClusterTimeout("late")

    def confirm(self, *, moving=True):
        raise ClusterTimeout("late")


@pytest.mark.parametrize("tol", [1e-3, -1.0])
@pytest.mark.parametrize("nonnegative, least", [(True, 0.0), (False, -np.inf)])
def test_a_bound_that_was_not_confirmed_is_not_used(tol, nonnegative, least):
    """Nobody knows what rounding has added to it."""
    workers = SimpleNamespace(confirming=lambda: None)
    problem = SimpleNamespace(rounds=1, workers=workers, nonnegative=nonnegative)
    solver = CountedRounds(Claiming(), problem)
    result = run(solver, tol=tol, max_iter=10)
    assert result.status == "max_time" and str(solver.late) == "late"
    assert (result.primal, result.lower_bound) == (1.0, least)
