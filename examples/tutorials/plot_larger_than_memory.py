"""
Data larger than memory, then on a cluster
==========================================

Fit a linear model to rows that are never in memory together, and keep the certificate. First the
rows stay in a file on this machine; then in blocks on the workers of a dask cluster, where nothing
but sums over rows travels. The peer is :class:`~sklearn.linear_model.SGDClassifier`, which reads
the same blocks one by one.

The rows are the 1,797 digits of scikit-learn, each shifted by up to a pixel and turned up or down
in brightness, as often as you like: odd or even? The page makes 200,000, to be built in seconds.
Set ``N_BLOCKS`` to 1,000 for ten million, 2.6 GB.
"""

import logging
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

from sklearn_bundle import BMRMClassifier

N_BLOCKS, N_ROWS, REG_LAMBDA = 20, 10_000, 1e-4
SETTINGS = {"loss": "log_loss", "reg_lambda": REG_LAMBDA}


def block(number, is_test=False):
    """Rows that depend on the number of the block alone: nobody has to keep them."""
    generator = np.random.default_rng([number, is_test])
    images, digit = load_digits(return_X_y=True)
    pick = generator.integers(len(digit) * 4 // 5, size=N_ROWS)  # the last fifth is for the test
    if is_test:
        pick = np.arange(len(digit) * 4 // 5, len(digit))
    images = images[pick].reshape(-1, 8, 8) / 16
    (down, right), each = generator.integers(-1, 2, size=(2, len(pick), 1)), np.arange(len(pick))
    rows, columns = (np.arange(8) + down) % 8, (np.arange(8) + right) % 8
    images = images[each[:, None, None], rows[:, :, None], columns[:, None, :]]
    images *= generator.uniform(0.7, 1.3, size=(len(images), 1, 1))
    return images.reshape(len(images), 64).astype(np.float32), digit[pick] % 2


# %%
# A file instead of memory
# ------------------------
#
# numpy writes block after block, and then opens an X that stays in the file. ``fit`` takes it like
# any array. The peak of what Python and numpy allocate is measured beside the size of the file.


def memory(function):
    """Result, seconds, and the largest memory at one time in MB."""
    tracemalloc.start()
    start = perf_counter()
    result = function()
    seconds, peak = perf_counter() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return result, seconds, peak / 1e6


def write(path):
    """X to a file; y, which is small, is returned."""
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (N_BLOCKS * N_ROWS, 64))
    y = np.empty(len(rows), dtype=int)
    for number in range(N_BLOCKS):
        part = slice(number * N_ROWS, (number + 1) * N_ROWS)
        rows[part], y[part] = block(number)
    return y


def from_a_file(path):
    save = memory(lambda: write(path))
    X, y = np.load(path, mmap_mode="r"), save[0]
    small = slice(0, 1000)
    BMRMClassifier(**SETTINGS).fit(np.asarray(X[small]), y[small])  # compiles
    fit = memory(lambda: BMRMClassifier(**SETTINGS, tol=1e-6).fit(X, y))
    print(f"{len(X):,} rows, {X.nbytes / 1e6:.0f} MB in the file")
    print(f"written: {save[1]:.1f} s, at most {save[2]:.0f} MB of memory")
    print(f"fitted:  {fit[1]:.1f} s, at most {fit[2]:.0f} MB of memory")
    return fit[0]


# %%
# The peer: block by block
# ------------------------
#
# ``partial_fit`` holds one block. It does not know how far it is from the optimum, and has a
# schedule of step sizes to choose. The lower bound of the certified fit says how far it is, for the
# same objective.


def objective(w, b):
    """The regularized mean logistic loss of all blocks, summed block by block."""
    total = 0.0
    for number in range(N_BLOCKS):
        X, y = block(number)
        total += np.logaddexp(0.0, -np.where(y == 1, 1, -1) * (X @ w + b)).sum()
    return 0.5 * REG_LAMBDA * w @ w + total / (N_BLOCKS * N_ROWS)


def block_by_block(passes, bound, test):
    peer = SGDClassifier(loss="log_loss", alpha=REG_LAMBDA, random_state=0)
    above, accuracy = [], []
    for _ in range(passes):
        for number in range(N_BLOCKS):
            peer.partial_fit(*block(number), classes=[0, 1])
        above.append(objective(peer.coef_[0], peer.intercept_[0]) / bound - 1)
        accuracy.append(peer.score(*test))
    return above, accuracy


# %%
# The same fit on a cluster
# -------------------------
#
# Each worker makes its own blocks: no row is ever on the client. The cluster here is two processes
# on this machine. On real ones the call is the same, and :doc:`/user_guide/cluster` says what it
# costs. Without dask (``pip install ".[dask]"``) this part is left out.


def on_a_cluster():
    try:
        from dask.delayed import delayed
        from distributed import Client, LocalCluster
    except ImportError:
        print("dask is not installed here, so there is no fit on a cluster")
        return None
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**settings, silence_logs=logging.ERROR) as cluster, Client(cluster) as client:
        blocks = [delayed(block, nout=2)(number) for number in range(N_BLOCKS)]
        X, y = ([client.persist(pair[k]) for pair in blocks] for k in (0, 1))
        return BMRMClassifier(**SETTINGS, tol=1e-6).fit(X, y)


def main():
    with TemporaryDirectory() as parent:
        certified = from_a_file(Path(parent, "rows.npy"))
    test = block(0, is_test=True)
    print(f"{certified.status_}, relative gap {certified.relative_gap_:.1e}")
    print(f"{certified.history_['passes'][-1]:.0f} products with the rows")
    passes = 4
    above, accuracy = block_by_block(passes, certified.lower_bound_, test)
    print(f"\n{'':<30}{'above the minimum, at most':>27}{'test accuracy':>15}")
    print(f"{'certified':<30}{certified.relative_gap_:>27.1e}{certified.score(*test):>15.4f}")
    for k in range(passes):
        print(f"{f'SGD, passes: {k + 1}':<30}{above[k]:>27.1e}{accuracy[k]:>15.4f}")

    far = on_a_cluster()
    if far is not None:
        apart = np.abs(far.coef_ - certified.coef_).max()
        print(f"\ncluster: {far.status_}, relative gap {far.relative_gap_:.1e}, ", end="")
        print(f"{far.history_['rounds'][-1]:.0f} rounds; coefficients at most {apart:.1e} apart")

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.3), layout="constrained")
    left.semilogy(range(1, passes + 1), above, "s--", color="#D55E00", label="SGDClassifier")
    left.axhline(certified.relative_gap_, color="#0072B2", label="certified, from the file")
    left.set(xlabel="passes of SGD over the blocks", ylabel="relative excess over the minimum")
    left.set_xticks(range(1, passes + 1))
    left.legend()
    fits = {"file": ("passes", certified)}
    if far is not None:
        fits["cluster"] = ("rounds", far)
    for (name, (unit, model)), color in zip(fits.items(), ("#0072B2", "#009E73"), strict=False):
        history = model.history_
        gaps = (history["objective"] - history["lower_bound"]) / history["objective"]
        label = f"{name}, {unit}"
        right.semilogy(history[unit], np.maximum(gaps, 1e-16), "o-", color=color, label=label)
    right.axhline(1e-6, color="black", linestyle="--", label="tol")
    right.set(xlabel="passes over the file, or rounds of the cluster", ylabel="relative gap")
    right.legend()
    figure.suptitle(
        f"{N_BLOCKS * N_ROWS:,} rows, never all in memory: certified to "
        f"{certified.relative_gap_:.0e}; SGD is {above[-1]:.1%} above"
    )
    plt.show()


if __name__ == "__main__":  # workers are processes, which import this file
    main()
