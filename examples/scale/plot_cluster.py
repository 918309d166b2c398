"""
Rows on the workers of a cluster
================================

The rows lie in blocks on the workers of a dask cluster, here two processes of this machine. Only
the weights go out, and sums over rows come back. The certificate is that of one machine, and what
a fit costs is the number of rounds.

Each block is made where it stays, from its number: no row is ever on the client. One worker or
two, the fit has the same bits.
"""

import matplotlib.pyplot as plt
import numpy as np
from dask.delayed import delayed
from distributed import Client, LocalCluster

from sklearn_bundle import BMRMClassifier

N_BLOCKS, N_ROWS, N_FEATURES = 8, 20_000, 20


def block(number):
    rng = np.random.default_rng(number)
    X = rng.standard_normal((N_ROWS, N_FEATURES), dtype=np.float32)
    w = np.linspace(-1.0, 1.0, N_FEATURES)
    return X, X @ w + 1.0 + rng.standard_normal(N_ROWS) > 0.0


def fitted(n_workers):
    cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster):
        blocks = [delayed(block, nout=2)(k) for k in range(N_BLOCKS)]
        X, y = ([pair[i] for pair in blocks] for i in (0, 1))
        return BMRMClassifier("log_loss", reg_lambda=1e-4, tol=1e-6).fit(X, y)


def main():
    models = [fitted(n_workers) for n_workers in (1, 2)]
    same = np.array_equal(models[0].coef_, models[1].coef_)
    print(f"one worker and two: {'the same' if same else 'other'} bits")
    # The history counts rounds beside passes over the data.
    history = models[0].history_
    gaps = (history["objective"] - history["lower_bound"]) / history["objective"]
    _, ax = plt.subplots(layout="constrained")
    ax.semilogy(history["rounds"], np.maximum(gaps, 1e-16), "o-", color="#1f6f8b")
    ax.axhline(1e-6, color="0.6", lw=1)
    ax.annotate("tol", (history["rounds"][0], 1.3e-6), color="0.4")
    ax.set(xlabel="rounds: one task per block, and an answer", ylabel="relative duality gap")
    ax.set_title(f"160,000 rows on workers: certified to 1e-6 in {history['rounds'][-1]} rounds")
    plt.show()


if __name__ == "__main__":  # workers are processes, which import this file
    main()
