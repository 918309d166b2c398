"""
What does gap sampling gain?
============================

Learn why :class:`~sklearn_bundle.SDCACRF` looks more often at the sequences that still have
something to gain. Each step improves the dual point by one sequence. The duality gap is a sum with
one part per sequence, and a part says how much that sequence can still gain. With
``sampling="gap"``, the default, a sequence is drawn in proportion to its part, as it was when the
sequence was last visited.

The sequences are made here of scikit-learn's handwritten digits: images of digits that mostly count
up, as in 3, 4, 5, 9, 0.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle import SDCACRF


def digit_sequences(rng):
    """Sequences of 2 to 10 images, each image used at most once, and their digits."""
    images, digits = load_digits(return_X_y=True)
    unused = [list(rng.permutation(np.flatnonzero(digits == k))) for k in range(10)]
    X, y = [], []
    for length in rng.integers(2, 11, size=200):
        rows, digit = [], rng.integers(10)
        while len(rows) < length and unused[digit]:
            rows.append(unused[digit].pop())
            digit = (digit + 1) % 10 if rng.random() < 0.7 else rng.integers(10)
        if rows:
            X.append(images[rows] / 16.0)
            y.append(digits[rows])
    return X, y


X, y = digit_sequences(np.random.default_rng(0))
n = len(X)
reg_lambda = 1 / n
print(f"{n} sequences, {sum(map(len, X))} tokens, {len(set(np.concatenate(y)))} labels")

# %%
# How unequal are the sequences? At the optimum, the loss of most of them is small: the model is
# sure of their labels, and gained early what there was to gain from them.

reference = SDCACRF(solver="lbfgs", reg_lambda=reg_lambda, tol=1e-6, max_iter=2000).fit(X, y)
losses = np.sort(-reference.predict_log_proba(X, y))[::-1]
half = np.searchsorted(np.cumsum(losses), losses.sum() / 2) + 1
print(f"{reference.lower_bound_:.6f} <= minimum <= {reference.objective_:.6f}")
print(f"{half / n:.0%} of the sequences have half of the loss")

# %%
# The samplings, with both dual solvers: how many epochs, of as many steps as there are sequences,
# until the lower bound was within 1e-2 and 1e-3 of the minimum. A bound is known after a pass over
# the data, so a warm start goes on for one epoch at a time here.

EPOCHS = 40


def distances(**parameters):
    """How far the lower bound is below the minimum after each epoch, as a share of it."""
    model = SDCACRF(reg_lambda=reg_lambda, tol=1e-5, max_iter=1, random_state=0, **parameters)
    model.set_params(warm_start=True)
    bounds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(EPOCHS):
            bounds.append(model.fit(X, y).lower_bound_)
    return 1.0 - np.array(bounds) / reference.objective_


def epochs(distance, epsilon):
    """Epochs until the lower bound was that close; NaN if never."""
    close = np.flatnonzero(distance <= epsilon)
    return close[0] + 1 if len(close) else np.nan


samplings = ("uniform", "importance", "gap")
curves = {}
print(f"{'solver':<15}{'sampling':<12}{'to 1e-2':>8}{'to 1e-3':>8}   epochs")
for solver in ("sdca", "exponentiated"):
    for sampling in samplings:
        curve = curves[solver, sampling] = distances(solver=solver, sampling=sampling)
        counts = "".join(f"{epochs(curve, epsilon):>8}" for epsilon in (1e-2, 1e-3))
        print(f"{solver:<15}{sampling:<12}{counts}")

# %%
# The solver of the paper, "sdca". All samplings begin alike, because no gap is known at first.
# Then the curve of gap sampling is the steepest. Importance sampling goes by the size of the
# features, which says little here about where the gap is.

figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
colors = ("#000000", "#E69F00", "#0072B2")
for sampling, color, line, marker in zip(samplings, colors, ("-", "--", "-"), "so^", strict=True):
    look = {"color": color, "linestyle": line, "marker": marker, "markersize": 5}
    if sampling == "gap":
        look |= {"linewidth": 3, "markersize": 8}
    ax.semilogy(np.arange(1, EPOCHS + 1), curves["sdca", sampling], label=sampling, **look)
ax.axhline(1e-3, color="0.5", linewidth=1)
ax.set(xlabel="epochs", ylabel="(minimum - lower bound) / minimum", ylim=(4e-4, 2))
of_gap, of_uniform = (epochs(curves["sdca", sampling], 1e-3) for sampling in ("gap", "uniform"))
ax.set_title(f"To within 0.1 %: {of_gap} epochs by gap, {of_uniform} by uniform sampling")
ax.legend(title="sampling")
plt.show()

# %%
# How much of it? ``nonuniformity`` is the share of the steps that choose by the gap. The rest take
# any sequence, so that gaps which were seen long ago are looked at again: without them, a sequence
# could be forgotten. There is little to gain beyond the default of 0.8.

shares = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
counts = [epochs(distances(solver="sdca", nonuniformity=share), 1e-3) for share in shares]
for share, count in zip(shares, counts, strict=True):
    print(f"nonuniformity {share:.1f}   epochs to 1e-3: {count}")

figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
ax.plot(shares, counts, "o-", color="#0072B2", label='solver="sdca"')
ax.axvline(0.8, color="0.5", linestyle="--", label="default")
ax.set(xlabel="nonuniformity: share of steps by the gap", ylim=(0, None))
ax.set(ylabel="epochs until 0.1 % below the minimum")
ax.set_title("The more steps go by the gap, the fewer epochs it takes")
ax.legend()
plt.show()
