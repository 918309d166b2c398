"""Rows on the processes of a cluster: the same bits, workers that die, a cluster that is lost."""

import os
import signal
from itertools import count
from threading import Timer

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.linear.rows._dask_cluster import ClusterWorkers
from sklearn_bundle.linear.rows._dask_waiting import ClusterLost
from tests.contract.blocks import collected, dask, labeled_rows, missing_file
from tests.contract.judge import judge


@pytest.fixture(scope="module")
def rows():
    return labeled_rows()


@pytest.fixture
def cluster():
    """Makes clusters of so many single-threaded processes, with a client; closed at the end."""
    distributed = pytest.importorskip("distributed")
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
        for one in opened:
            one.close()


def at_round(monkeypatch, number, act):
    """Call ``act`` before this round of all sums that are asked for."""
    numbers, total = count(1), ClusterWorkers.total

    def acting(self, *args, **sizes):
        if next(numbers) == number:
            act()
        return total(self, *args, **sizes)

    monkeypatch.setattr(ClusterWorkers, "total", acting)


@pytest.mark.wide
def test_the_same_bits_on_any_number_of_workers(rows, cluster, monkeypatch):
    X, labels = rows
    model = BMRMClassifier("log_loss", reg_lambda=1e-3).fit(*collected(X, labels))
    for n_workers in (1, 2, 4):
        client = cluster(n_workers)
        if n_workers == 4:  # sums are made on the workers, in the same order
            monkeypatch.setattr("sklearn_bundle.linear.rows._dask_cluster._SUMMED_THERE", 0)
        other = BMRMClassifier("log_loss", reg_lambda=1e-3).fit(*collected(X, labels))
        client.close()
        np.testing.assert_array_equal(other.coef_, model.coef_)
        np.testing.assert_array_equal(other.lower_bound_, model.lower_bound_)


def kill_one(client):
    os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)


def restart_one(client):
    client.restart_workers([min(client.nthreads())])


def kill_one_soon(client):
    """In a round: its worker dies after a moment in which the round has been sent."""
    Timer(0.02, kill_one, [client]).start()


@pytest.mark.wide
@pytest.mark.filterwarnings("default")  # of distributed, about what it has lost
@pytest.mark.parametrize("act", [kill_one, kill_one_soon, restart_one])
def test_a_worker_that_dies_changes_nothing(rows, cluster, monkeypatch, act):
    X, y = rows[0], rows[1] > 0
    client = cluster(2)
    data = [array.persist() for array in collected(X, y)]
    model = BMRMClassifier(reg_lambda=1e-3, solver="line-search").fit(*data)
    before = client.run(os.getpid).values()
    at_round(monkeypatch, 10, lambda: act(client))
    after = BMRMClassifier(reg_lambda=1e-3, solver="line-search").fit(*data)
    assert after.converged_ and set(before) - set(client.run(os.getpid).values())
    np.testing.assert_array_equal(after.coef_, model.coef_)
    assert after.lower_bound_ == model.lower_bound_


def scale_down(client):
    client.cluster.scale(0)
    client.retire_workers()


def close_scheduler(client):
    client.sync(client.cluster.scheduler.close)


@pytest.mark.wide
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "act, why",
    [
        (scale_down, "no worker or no scheduler"),
        (lambda client: client.restart(), "no longer has the blocks"),
        (close_scheduler, "no longer has the blocks|no worker or no scheduler"),
    ],
)
def test_a_lost_cluster_leaves_the_best_point(rows, cluster, monkeypatch, act, why):
    X, y = rows[0], rows[1] > 0
    client = cluster(1)
    data = [array.persist() for array in collected(X, y)]
    monkeypatch.setattr("sklearn_bundle.linear.rows._dask_waiting.PATIENCE", 1.0)
    at_round(monkeypatch, 10, lambda: act(client))
    model = BMRMClassifier(reg_lambda=1e-3, solver="line-search")
    with pytest.raises(ClusterLost, match=why):
        model.fit(*data)
    assert model.status_ == "interrupted"
    judge(model, X, y)


@pytest.mark.wide
@pytest.mark.filterwarnings("default")
def test_a_file_that_is_not_there_is_no_lost_cluster(rows, cluster):
    cluster(1)
    blocks = [dask.delayed(rows[0][:100]), dask.delayed(missing_file)()]
    with pytest.raises(FileNotFoundError, match="No such file"):
        BMRMClassifier().fit(blocks, [dask.delayed(rows[1][:100]), dask.delayed(rows[1][100:])])


@pytest.mark.wide
def test_frames_of_a_cluster(cluster, tmp_path):
    """Persisted by two processes: frames that say they have more blocks than they have."""
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X = np.random.default_rng(0).normal(size=(120, 4))
    rows = pd.DataFrame(X, columns=list("abcd")).assign(y=X[:, 0] > 0.3, text="not needed", w=1.0)
    for k in range(12):
        rows[10 * k : 10 * (k + 1)].to_parquet(tmp_path / f"part-{k:02d}.parquet")
    cluster(2)
    ddf = dd.read_parquet(tmp_path)
    given = ddf[list("abcd")], ddf["y"]
    fits = [
        BMRMClassifier(reg_lambda=1e-2, max_time=60.0).fit(*data)
        for data in (
            given,
            [frame.persist() for frame in given],
            dask.persist(*given),
            [frame.values for frame in given],
            [frame.values.persist() for frame in given],
        )
    ]
    for model in fits:
        judge(model, X, rows["y"].to_numpy())


@pytest.mark.wide
def test_a_search_on_a_cluster(rows, cluster):
    import joblib

    X, y = rows[0], rows[1] > 0
    search = GridSearchCV(BMRMClassifier(), {"reg_lambda": [1e-1, 1e-2, 1e-3]}, cv=3)
    cluster(2)
    with joblib.parallel_config("dask"):
        scores = search.fit(X, y).cv_results_["mean_test_score"]
    np.testing.assert_array_equal(scores, search.fit(X, y).cv_results_["mean_test_score"])
