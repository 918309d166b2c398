"""
Is SwapSVC faster than SVC, and as accurate?
============================================

Learn what you gain, and what changes, when :class:`~sklearn_bundle.SwapSVC` takes the place of
:class:`~sklearn.svm.SVC`. It has the parameters and attributes of ``SVC``, but squares the hinge
loss. Then a point is a support vector as soon as it has any loss, and the best C is another one.
Here both run on the same data, at the same values of C.

The data is made here: two half moons that overlap, and four classes in 20 dimensions.
"""

from time import process_time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification, make_moons
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from sklearn_bundle import SwapSVC

sets = {
    "half moons": make_moons(4000, noise=0.3, random_state=0),
    "four classes": make_classification(
        4000,
        n_informative=10,
        n_redundant=4,
        n_classes=4,
        n_clusters_per_class=3,
        random_state=0,
    ),
}

# %%
# We measure CPU time in one thread, so that other work on the machine matters little. A warm-up
# comes first, because SwapSVC compiles. Then the two models run in turns, five times. We take the
# ratio of their times in each turn, and the median of the five ratios.

values = (1.0, 10.0, 100.0)
N_TURNS = 5


def timed(function, *arguments):
    start = process_time()
    result = function(*arguments)
    return process_time() - start, result


def turn(models, X, y, X_test):
    """Seconds to fit and to predict, a row per model."""
    return [[timed(model.fit, X, y)[0], timed(model.predict, X_test)[0]] for model in models]


ratios, errors = {}, {}  # (values of C, turns, [fit, predict]); (values of C, models)
columns = ("fit [s]", "predict [s]", "support vectors", "test error")
for name, (X, y) in sets.items():
    split = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    scaler = StandardScaler().fit(split[0])
    X, X_test, y, y_test = scaler.transform(split[0]), scaler.transform(split[1]), *split[2:]
    SwapSVC(C=10.0).fit(X, y).predict(X_test)
    print(f"\n{name}: {len(y)} training rows, {len(y_test)} test rows, {X.shape[1]} features")
    print(f"{'C':>5}  {'':<8}" + "".join(f"{column:>17}" for column in columns))
    ratios[name], errors[name] = [], []
    for C in values:
        models = SVC(C=C), SwapSVC(C=C)
        with threadpool_limits(1):
            seconds = np.array([turn(models, X, y, X_test) for _ in range(N_TURNS)])
        ratios[name].append(seconds[:, 0] / seconds[:, 1])
        errors[name].append([1.0 - model.score(X_test, y_test) for model in models])
        for model, times, error in zip(
            models, np.median(seconds, axis=0), errors[name][-1], strict=True
        ):
            row = (*times, model.n_support_.sum(), error)
            kind = type(model).__name__
            print(f"{C:>5g}  {kind:<8}" + "".join(f"{value:>17.4g}" for value in row))

# %%
# What SVC does not have: a certificate. There is one gap per pair of classes, and
# ``relative_gap_`` is the worst of them.

model = SwapSVC(C=10.0).fit(X, y)
print(f"{np.size(model.dual_gap_)} pairs of classes, converged {model.converged_}")
print(f"the objectives are at most {model.relative_gap_:.1%} above their minima")

# %%
# Above 1, SwapSVC is faster. Predictions gain the most, in spite of more support vectors: scores
# are matrix products in single precision, and only what is too close to call is computed again.
#
# What the ratios depend on: the processor, the number of rows and features, how much the classes
# overlap, and C. SVC's fits get slower as C grows. SwapSVC keeps every point inside the margin,
# about twice as many as SVC on the overlapping moons, and that costs time. The benchmarks have
# ratios for larger, real data.

figure, ax = plt.subplots(figsize=(6.4, 4.5), layout="constrained")
looks = iter(zip(("#0072B2", "#56B4E9", "#D55E00", "#E69F00"), "osD^", strict=True))
medians = {name: np.median(table, axis=1) for name, table in ratios.items()}
for k, kind in enumerate(("predict", "fit")):
    for name, table in ratios.items():
        color, marker = next(looks)
        low, high = np.min(table, axis=1)[:, 1 - k], np.max(table, axis=1)[:, 1 - k]
        middle = medians[name][:, 1 - k]
        look = {"color": color, "marker": marker, "label": f"{kind}, {name}"}
        ax.errorbar(values, middle, (middle - low, high - middle), capsize=4, **look)
ax.axhline(1, color="black", linewidth=1, linestyle="--")
ax.set(xscale="log", yscale="log", xlabel="C", ylabel="SVC's time / SwapSVC's time")
ticks = (0.5, 1, 2, 5, 10, 20)
ax.set_yticks(ticks, ticks)
ax.minorticks_off()
ax.set_xticks(values, [f"{value:g}" for value in values])
both = np.array(list(medians.values()))
(fit_low, predict_low), (fit_high, predict_high) = both.min(axis=(0, 1)), both.max(axis=(0, 1))
ax.set_title(
    f"Time of SVC over that of SwapSVC: fit {fit_low:.1f} to {fit_high:.1f},\n"
    f"predict {predict_low:.0f} to {predict_high:.0f} (medians; bars: all {N_TURNS} turns)"
)
ax.legend(ncols=2)
plt.show()

# %%
# The errors on test data. Compare the best value of each model, since the same C does not mean the
# same.

figure, axes = plt.subplots(1, 2, figsize=(7.4, 4.2), layout="constrained")
for ax, (name, table) in zip(axes, errors.items(), strict=True):
    svc, swap = np.transpose(table)
    ax.plot(values, svc, "s--", color="#D55E00", label="SVC")
    ax.plot(values, swap, "o-", color="#0072B2", label="SwapSVC")
    ax.set(xscale="log", xlabel="C", ylabel="test error", ylim=(0, 1.2 * np.max(table)))
    ax.set_title(f"{name}, best errors:\nSVC {svc.min():.1%}, SwapSVC {swap.min():.1%}")
    ax.legend(loc="lower right")
plt.show()
