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
# The samplings, with both dual solvers: how many passes over the data (oracle calls over the number
# of sequences) until the lower bound was within 1e-2 and 1e-3 of the minimum. Passes that check the
# certificate are among them.


def fit(**parameters):
    model = SDCACRF(reg_lambda=reg_lambda, tol=9e-4, max_iter=100, random_state=0, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def distance(model):
    """How far the lower bound is below the minimum, as a share of it."""
    return 1.0 - model.history_["lower_bound"] / reference.objective_


def passes(model, epsilon):
    """Passes until the lower bound was that close; NaN if never."""
    close = np.flatnonzero(distance(model) <= epsilon)
    return model.history_["passes"][close[0]] if len(close) else np.nan


samplings = ("uniform", "importance", "gap", "gap-importance", "max")
models = {}
print(f"{'solver':<15}{'sampling':<16}{'to 1e-2':>8}{'to 1e-3':>8}   passes")
for solver in ("sdca", "exponentiated"):
    for sampling in samplings:
        model = models[solver, sampling] = fit(solver=solver, sampling=sampling)
        counts = "".join(f"{passes(model, epsilon):>8.1f}" for epsilon in (1e-2, 1e-3))
        print(f"{solver:<15}{sampling:<16}{counts}")

# %%
# The solver of the paper, "sdca". All samplings begin alike, because the first epoch visits all
# sequences. Then the curve of gap sampling is the steepest. Importance sampling goes by the size of
# the features, which says little here about where the gap is. Always taking the largest gap ("max")
# trusts gaps that are out of date, and falls behind.

figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
colors = ("#000000", "#E69F00", "#0072B2", "#D55E00")
styles = ("-", "--", "-", ":")
chosen = ("uniform", "importance", "gap", "max")
for sampling, color, line, marker in zip(chosen, colors, styles, "so^D", strict=True):
    model = models["sdca", sampling]
    look = {"color": color, "linestyle": line, "marker": marker, "markersize": 5}
    if sampling == "gap":
        look |= {"linewidth": 3, "markersize": 8}
    ax.semilogy(model.history_["passes"], distance(model), label=sampling, **look)
ax.axhline(1e-3, color="0.5", linewidth=1)
ax.set(xlabel="passes over the data", ylabel="(minimum - lower bound) / minimum", ylim=(4e-4, 2))
of_gap, of_uniform = (passes(models["sdca", sampling], 1e-3) for sampling in ("gap", "uniform"))
ax.set_title(f"To within 0.1 %: {of_gap:.0f} passes by gap, {of_uniform:.0f} by uniform sampling")
ax.legend(title="sampling")
plt.show()

# %%
# How much of it? ``nonuniformity`` is the share of the steps that choose by the gap. The rest take
# any sequence, so that gaps which were seen long ago are looked at again: without them, a sequence
# could be forgotten. There is little to gain beyond the default of 0.8.

shares = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
counts = [passes(fit(solver="sdca", nonuniformity=share), 1e-3) for share in shares]
for share, count in zip(shares, counts, strict=True):
    print(f"nonuniformity {share:.1f}   passes to 1e-3: {count:.1f}")

figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
ax.plot(shares, counts, "o-", color="#0072B2", label='solver="sdca"')
ax.axvline(0.8, color="0.5", linestyle="--", label="default")
ax.set(xlabel="nonuniformity: share of steps by the gap", ylim=(0, None))
ax.set(ylabel="passes until 0.1 % below the minimum")
ax.set_title("The more steps go by the gap, the fewer passes it takes")
ax.legend()
plt.show()
