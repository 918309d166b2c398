"""
What does a fit cost when the rows stay on a cluster?
=====================================================

Learn to fit rows that lie in blocks on the workers of a dask cluster, here on this machine. Only
the weights go out, and sums over rows come back. The certificate is the same as on one machine. The
cost of a fit is its number of rounds.

Each block is made where it stays, from its number, so no row is ever on the client. With one worker
in a thread or two in processes, the fit gives the same bits.
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


def fitted(n_workers, processes):
    cluster = LocalCluster(
        n_workers=n_workers, processes=processes, threads_per_worker=1, dashboard_address=":0"
    )
    with cluster, Client(cluster):
        blocks = [delayed(block, nout=2)(k) for k in range(N_BLOCKS)]
        X, y = ([pair[i] for pair in blocks] for i in (0, 1))
        return BMRMClassifier("log_loss", reg_lambda=1e-4, tol=1e-6).fit(X, y)


def main():
    models = [fitted(n_workers=1, processes=False), fitted(n_workers=2, processes=True)]
    same = np.array_equal(models[0].coef_, models[1].coef_)
    print(f"one worker and two: {'the same' if same else 'other'} bits")
    print(f"converged {models[0].converged_}, relative gap {models[0].relative_gap_:.1e}")
    # The history counts rounds in addition to passes over the data.
    history = models[0].history_
    gaps = (history["objective"] - history["lower_bound"]) / history["objective"]
    _, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
    ax.semilogy(history["rounds"], np.maximum(gaps, 1e-16), "o-", color="#0072B2", linewidth=2)
    ax.axhline(1e-6, color="black", linestyle="--", label="tol")
    ax.set(xlabel="rounds: one task per block, and an answer", ylabel="relative duality gap")
    ax.set_title(
        f"{N_BLOCKS * N_ROWS:,} rows on workers:\n"
        f"certified to 1e-6 in {history['rounds'][-1]} rounds"
    )
    ax.legend()
    plt.show()


if __name__ == "__main__":  # workers are processes, which import this file
    main()
