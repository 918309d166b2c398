"""Blocks on the processes of a cluster: the same bits, workers that die, limits, Ctrl-C."""

import os
import signal
import time
from itertools import count
from threading import Event, Timer

import numpy as np
import pytest

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.linear.blocks import ClusterLost, ClusterTimeout
from sklearn_bundle.linear.blocks.rounds import Rounds
from tests.contract.blocks import collected, dask, labeled_rows, missing_file
from tests.contract.judge import judge

distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.wide, pytest.mark.filterwarnings("default")]  # of distributed, on losses
X, LABELS = labeled_rows()
TWO = LABELS > 0
NEVER = 60.0  # seconds of a task that nobody waits for
SLACK = 3.0  # seconds that a busy machine may take beyond a limit
GATE = Event()


@pytest.fixture
def cluster():
    """Makes clusters of so many single-threaded processes, with a client; closed at the end."""
    opened = []

    def start(n_workers, **further):
        made = distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", **further
        )
        client = distributed.Client(made)
        opened[:] = [client, made, *opened]
        return client

    with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
        yield start
        GATE.set()
        for one in opened:
            one.close()
        GATE.clear()


def at_round(monkeypatch, number, act):
    """Call ``act`` before this round, and go on with what it returns, if that is a task."""
    numbers, ask = count(1), Rounds.map

    def acting(self, task, *args):
        found = act() if next(numbers) == number else None
        return ask(self, found, 0) if callable(found) else ask(self, task, *args)

    monkeypatch.setattr(Rounds, "map", acting)


def test_the_same_bits_on_any_number_of_workers(cluster):
    model = BMRMClassifier("log_loss", reg_lambda=1e-3).fit(*collected(X, LABELS))
    for n_workers in (1, 3):
        client = cluster(n_workers)
        other = BMRMClassifier("log_loss", reg_lambda=1e-3).fit(*collected(X, LABELS))
        client.close()
        np.testing.assert_array_equal(other.coef_, model.coef_)
        np.testing.assert_array_equal(other.lower_bound_, model.lower_bound_)


def kill_one(client):
    os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)


def kill_one_soon(client):
    """In a round: its worker dies after a moment in which the round has been sent."""
    Timer(0.02, kill_one, [client]).start()


def restart_one(client):
    client.restart_workers([min(client.nthreads())])


@pytest.mark.parametrize("act", [kill_one, kill_one_soon, restart_one])
@pytest.mark.parametrize("solver", ["auto", "line-search"])
def test_a_worker_that_dies_changes_nothing(cluster, monkeypatch, act, solver):
    client = cluster(2)
    data = [array.persist() for array in collected(X, TWO)]
    model = BMRMClassifier(reg_lambda=1e-3, solver=solver).fit(*data)
    before = client.run(os.getpid).values()
    at_round(monkeypatch, 6, lambda: act(client))
    after = BMRMClassifier(reg_lambda=1e-3, solver=solver).fit(*data)
    assert after.converged_ and set(before) - set(client.run(os.getpid).values())
    np.testing.assert_array_equal(after.coef_, model.coef_)
    assert after.lower_bound_ == model.lower_bound_


def test_a_lost_cluster_is_an_error(cluster, monkeypatch):
    client = cluster(1)
    at_round(monkeypatch, 6, client.restart)
    model = BMRMClassifier(reg_lambda=1e-3)
    with pytest.raises(ClusterLost):
        model.fit(*collected(X, TWO))
    assert not [name for name in vars(model) if name.endswith("_")]


def test_a_file_that_is_not_there_is_no_lost_cluster(cluster):
    cluster(1)
    blocks = [dask.delayed(X[:100]), dask.delayed(missing_file)()]
    with pytest.raises(FileNotFoundError, match="No such file"):
        BMRMClassifier().fit(blocks, [dask.delayed(TWO[:100]), dask.delayed(TWO[100:])])


def never(*_):
    GATE.wait(NEVER)


@pytest.mark.parametrize("solver", ["auto", "line-search"])
def test_rounds_that_are_not_answered_end_with_the_best_point(cluster, monkeypatch, solver):
    cluster(1, processes=False)
    at_round(monkeypatch, 7, lambda: never)
    model = BMRMClassifier(reg_lambda=1e-4, tol=1e-12, solver=solver, max_time=2.0)
    began = time.monotonic()
    model.fit(*collected(X, TWO))
    assert time.monotonic() - began < 4.0 + SLACK
    assert model.status_ == "max_time" and not model.converged_
    judge(model, X, TWO)


def test_a_fit_without_a_point_says_what_it_waited_for(cluster, monkeypatch):
    cluster(1, processes=False)
    model = BMRMClassifier(max_time=1.0)
    at_round(monkeypatch, 2, lambda: never)
    with pytest.raises(ClusterTimeout, match=r"in round 2 .* 0 of 1 tasks"):
        model.fit(*collected(X, TWO))
    with pytest.raises(ClusterTimeout, match=r"in round 1 .* [01] of 2 tasks"):
        model.fit([dask.delayed(never)(), dask.delayed(X)], [dask.delayed(TWO)] * 2)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_ctrl_c_keeps_the_best_point(cluster, monkeypatch):
    cluster(2)

    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)

    at_round(monkeypatch, 20, lambda: Timer(0.01, interrupt).start())
    model = BMRMClassifier("multiclass_hinge", reg_lambda=1e-4, tol=1e-9)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*collected(X, LABELS))
    assert model.status_ == "interrupted"
    judge(model, X, LABELS)
