"""Rounds that go straight to workers: what they do not answer, and blocks that move to others."""

import os
import signal
import time
from itertools import count
from threading import Event, Timer

import numpy as np
import pytest

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.linear.rows._dask_cluster import ClusterWorkers
from sklearn_bundle.linear.rows._dask_direct import Direct, evened
from sklearn_bundle.linear.rows._dask_waiting import ClusterLost, ClusterTimeout
from tests.contract.blocks import collected, labeled_rows
from tests.contract.judge import judge


@pytest.fixture(scope="module")
def rows():
    X, labels = labeled_rows()
    return X, labels > 0


@pytest.fixture(scope="module")
def client():
    """Two workers with a thread each in this process."""
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": False}
    with (
        distributed.LocalCluster(dashboard_address=None, **settings) as made,
        distributed.Client(made) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def alone(rows):
    """The fit without a cluster."""
    return BMRMClassifier(reg_lambda=1e-3).fit(*collected(*rows))


def assert_same(model, other):
    np.testing.assert_array_equal(model.coef_, other.coef_)
    assert model.lower_bound_ == other.lower_bound_


@pytest.mark.wide
@pytest.mark.parametrize("answered", [0, 1, 3])
def test_blocks_that_are_not_answered_are_asked_again(rows, alone, client, monkeypatch, answered):
    answers, cut = Direct.answers, []

    def some(self):
        found = answers(self)
        cut.append(len(found))
        return {k: found[k] for k in sorted(found)[:answered]}

    monkeypatch.setattr(Direct, "answers", some)
    assert_same(BMRMClassifier(reg_lambda=1e-3).fit(*collected(*rows)), alone)
    assert cut and set(cut) == {4}


@pytest.mark.wide
def test_a_worker_that_dask_has_removed_costs_no_patience(rows, alone, client, monkeypatch):
    """Dask tries 30 s to connect to it."""
    homes, numbers = ClusterWorkers._homes, count(1)

    def moved(self):
        found = homes(self)
        if found and next(numbers) == 3:
            found[0] = "tcp://127.0.0.1:1", found[0][1]
        return found

    monkeypatch.setattr(ClusterWorkers, "_homes", moved)
    began = time.monotonic()
    assert_same(BMRMClassifier(reg_lambda=1e-3).fit(*collected(*rows)), alone)
    assert next(numbers) > 3 and time.monotonic() - began < 15.0


@pytest.mark.wide
@pytest.mark.parametrize("limit, error", [(None, KeyboardInterrupt), (0.5, ClusterTimeout)])
def test_a_round_that_is_given_up_ends_on_the_workers(rows, client, limit, error):
    """Blocks that were begun end; the others are not begun."""
    data = BMRMClassifier()._check(*collected(*rows), None)
    pytest.importorskip("distributed").wait(data.workers._blocks)
    BEGUN.clear()
    GATE.clear()
    if error is KeyboardInterrupt:
        Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
    with pytest.raises(error):
        data.workers.within(limit).map(begun)
    GATE.set()
    assert data.workers.map(sizes) and len(BEGUN) == 2


BEGUN, GATE = [], Event()


def begun(block):
    """Known by their module, so that what they use is shared with workers of this process."""
    BEGUN.append(len(block.weights))
    GATE.wait(30.0)


def sizes(block):
    return len(block.weights)


@pytest.mark.wide
def test_ctrl_c_in_a_round_keeps_the_best_point(rows, client, monkeypatch):
    answers, numbers = Direct.answers, count(1)

    def interrupted(self):
        if next(numbers) == 10:
            os.kill(os.getpid(), signal.SIGINT)
        return answers(self)

    monkeypatch.setattr(Direct, "answers", interrupted)
    model = BMRMClassifier(reg_lambda=1e-6, tol=1e-12, solver="line-search")
    with pytest.raises(KeyboardInterrupt):
        model.fit(*collected(*rows))
    assert model.status_ == "interrupted"
    judge(model, *rows)


@pytest.mark.wide
@pytest.mark.parametrize("is_direct", [True, False])
def test_blocks_that_were_canceled_are_lost(rows, client, monkeypatch, is_direct):
    """As those of a client that has lost its scheduler, even if that comes back."""
    workers = BMRMClassifier()._check(*collected(*rows), None).workers
    client.cancel(workers._blocks)
    with pytest.raises(ClusterLost, match="no longer has the blocks"):
        workers.map(sizes) if is_direct else workers.kept(sizes)


@pytest.mark.wide
def test_a_block_that_is_lost_is_not_waited_for(rows, client):
    """Dask may never say that it is there again."""
    workers = BMRMClassifier()._check(*collected(*rows), None).workers.within(20.0)
    before = workers.map(sizes)
    workers._blocks[0]._state.lose()
    assert workers.map(sizes) == before


@pytest.mark.wide
def test_an_error_on_a_worker_names_the_block(rows, client):
    data = BMRMClassifier()._check(*collected(*rows), None)
    with pytest.raises(ZeroDivisionError) as caught:
        data.workers.map(fails_for_few_rows)
    assert caught.value.__notes__ == ["It came up in block 1 of 4."]


def fails_for_few_rows(block):
    if len(block.weights) < 10:
        raise ZeroDivisionError
    return 0


@pytest.mark.wide
def test_rows_on_one_worker_are_spread(rows, alone, client):
    X, y = collected(*rows)
    first = min(client.nthreads())
    X = X.rechunk({1: -1}).map_blocks(np.copy, name="rows-of-one-worker")  # which no other test has
    X, y = client.persist([X, y], workers=[first])
    data = BMRMClassifier(reg_lambda=1e-3)._check(X, y, None)
    moved = [block.result().X is not None for block in data.workers._blocks]
    assert any(moved) and not all(moved)
    assert_same(BMRMClassifier(reg_lambda=1e-3).fit(X, y), alone)


def waits(homes, loads, threads):
    return {w: sum(loads[k] for k in homes if homes[k] == w) / n for w, n in threads.items()}


@pytest.mark.parametrize("seed", range(5))
def test_moves_make_the_longest_wait_shorter(seed):
    rng = np.random.default_rng(seed)
    threads = {"a": 1, "b": 2, "c": 4}
    homes = {k: "ab"[k % 2] for k in range(40)}
    loads = rng.integers(0, 10, 40).tolist()
    moves = evened(homes, loads, threads)
    before, after = waits(homes, loads, threads), waits(homes | moves, loads, threads)
    assert max(after.values()) < 0.4 * max(before.values())
    assert evened(homes | moves, loads, threads) == {}


@pytest.mark.parametrize(
    "homes, loads",
    [({}, []), ({0: "a"}, [9]), ({0: "a", 1: "b"}, [9, 8]), ({0: "a", 1: "a"}, [9, 0])],
)
def test_nothing_to_gain(homes, loads):
    assert evened(homes, loads, {"a": 1, "b": 1}) == {}
    assert evened({0: "gone"}, [9], {"a": 1}) == {}
    assert evened(homes, loads, {}) == {}
