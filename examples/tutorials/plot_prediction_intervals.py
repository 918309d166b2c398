"""
Prediction intervals that hold what they promise
================================================

Predict a range for each row of a data frame, and check how many targets fall into it. You get
intervals that are wide where the targets scatter, a repair for intervals that are too narrow on new
data, and the same optimum as :class:`~sklearn.linear_model.QuantileRegressor`.

The frame is scikit-learn's diabetes data: 442 patients, and how far the disease went in a year. If
the environment variable ``SKLEARN_BUNDLE_DATA`` names the folder of benchmark data, the last table
also has abalone, where a fit takes long enough to compare the time.
"""

import os
import sys
from time import process_time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import QuantileRegressor, Ridge
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMRegressor

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
print(X.describe().loc[["mean", "std", "min", "max"]].round(1).to_string())

# %%
# Two quantiles make an interval
# ------------------------------
#
# Below the quantile 0.05 are 5 % of the targets, and above 0.95 as many: 90 % should be between the
# two. Both fits are certified. The peer minimizes the same objective, the mean quantile loss and
# ``alpha`` times the L1 norm of the coefficients, without a penalty for the intercept.

LEVELS, ALPHA = (0.05, 0.95), 1e-2


def ours(level):
    model = BMRMRegressor("quantile", quantile=level, regularizer="l1", reg_lambda=ALPHA, tol=1e-5)
    return make_pipeline(StandardScaler(), model)


def peer(level):
    return make_pipeline(StandardScaler(), QuantileRegressor(quantile=level, alpha=ALPHA))


low, high = (ours(level).fit(X, y) for level in LEVELS)
for model in (low, high):
    quantile = model[-1]
    print(f"quantile {quantile.quantile}: {quantile.status_}, gap {quantile.relative_gap_:.1e}")
print(pd.DataFrame({"low": low.predict(X), "target": y, "high": high.predict(X)}).head().round(0))

# %%
# How many targets are inside?
# ----------------------------
#
# On rows that the fit has not seen, each predicted from the other nine tenths. The usual interval
# has the same width everywhere: a ridge regression and the quantiles of its residuals.

folds = KFold(10, shuffle=True, random_state=0)


def unseen(model):
    return cross_val_predict(model, X, y, cv=folds)


def same_width(train, test):
    """Bounds around a mean, by the residuals of the training rows."""
    model = make_pipeline(StandardScaler(), Ridge()).fit(X.iloc[train], y.iloc[train])
    residuals = y.iloc[train] - model.predict(X.iloc[train])
    return model.predict(X.iloc[test]) + np.quantile(residuals, LEVELS)[:, None]


def conformal(train, test):
    """Bounds by quantiles, moved out by what a third of the training rows says is missing."""
    held, rest = train[::3], np.delete(train, np.s_[::3])
    models = [ours(level).fit(X.iloc[rest], y.iloc[rest]) for level in LEVELS]
    below, above = (model.predict(X.iloc[held]) for model in models)
    outside = np.maximum(below - y.iloc[held], y.iloc[held] - above)
    rank = int(np.ceil((len(held) + 1) * (LEVELS[1] - LEVELS[0]))) - 1
    margin = np.sort(outside)[rank]
    low, high = (model.predict(X.iloc[test]) for model in models)
    return np.array([low - margin, high + margin])


def by_folds(bounds):
    result, generator = np.empty((2, len(y))), np.random.default_rng(0)
    for train, test in folds.split(X):
        result[:, test] = bounds(generator.permutation(train), test)
    return result


intervals = {
    "quantiles": np.array([unseen(ours(level)) for level in LEVELS]),
    "QuantileRegressor": np.array([unseen(peer(level)) for level in LEVELS]),
    "same width": by_folds(same_width),
    "quantiles, conformal": by_folds(conformal),
}
expected = LEVELS[1] - LEVELS[0]
error = np.sqrt(expected * (1 - expected) / len(y))
widths = intervals["quantiles"][1] - intervals["quantiles"][0]
thirds = np.array_split(np.argsort(widths), 3)
parts = ("narrow third", "middle", "wide third")
rows, inside = {}, {}
for name, (below, above) in intervals.items():
    hits = np.asarray((below <= y) & (y <= above))
    inside[name] = [hits[third].mean() for third in thirds]
    rows[name] = [hits.mean(), *inside[name], np.mean(above - below)]
table = pd.DataFrame(rows, index=["all", *parts, "mean width"]).T
print(f"share of targets inside, {expected:.2f} is expected, standard error {error:.3f}")
print(table.round(3).to_string())

# %%
# Coefficients are fitted to the training rows, so plain quantiles are a little too narrow on new
# ones. The conformal row moves both bounds outward by a margin that a held-out third of the
# training rows asks for (Romano, Patterson and Candès, 2019). The price is wider intervals and
# fewer rows to fit; it holds its share over all rows, not in every third.
#
# What the peer takes
# -------------------
#
# CPU time of the two fits, after one that compiles, and how far each objective can be above the
# minimum, by the larger of our lower bounds. Linear programming is exact and quick on small
# data; its time grows faster with the rows.

frames = {"diabetes": (X, y)}
if folder := os.environ.get("SKLEARN_BUNDLE_DATA"):
    sys.path.insert(0, folder)
    from load import load

    frames["abalone"] = load("abalone")


def objective(model, X, y):
    quantile = model[-1].quantile
    residuals = y - model.predict(X)
    losses = np.maximum(quantile * residuals, (quantile - 1) * residuals)
    return losses.mean() + ALPHA * np.abs(model[-1].coef_).sum()


def seconds(model, X, y):
    start = process_time()
    model.fit(X, y)
    return process_time() - start


print(f"{'':<10}{'rows':>6}  {'ours':>8}{'peer':>9}{'ratio':>7}{'above, ours':>14}{'peer':>9}")
for name, (A, b) in frames.items():
    time, above = np.zeros(2), np.zeros(2)
    for level in LEVELS:
        models = [clone(kind(level)).fit(A, b) for kind in (ours, peer)]
        time += [seconds(model, A, b) for model in models]
        bound = models[0][-1].lower_bound_
        above = np.maximum(above, [objective(model, A, b) / bound - 1 for model in models])
    print(
        f"{name:<10}{len(b):>6}{time[0]:>8.3f} s{time[1]:>7.3f} s{time[1] / time[0]:>7.1f}"
        f"{above[0]:>14.0e}{above[1]:>9.0e}"
    )

# %%
# The picture
# -----------
#
# Left: every patient's interval, in the order of their widths; dots outside are misses. Right: the
# share inside by thirds of these widths. Too few rows are in each third to tell differences smaller
# than the gray band, two standard errors.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.3), layout="constrained")
order = np.argsort(widths)
below, above = intervals["quantiles"][:, order]
targets = y.to_numpy()[order]
hit = (below <= targets) & (targets <= above)
places = np.arange(len(y))
left.vlines(places, below, above, color="#56B4E9", alpha=0.4, label="interval, 90 %")
left.plot(places[hit], targets[hit], ".", color="0.3", markersize=3, label="target inside")
left.plot(places[~hit], targets[~hit], "x", color="#D55E00", label="target outside")
left.set(xlabel="patients, by width of the interval", ylabel="progression of the disease")
left.legend(loc="upper left")
spread = 2 * error * np.sqrt(3)
right.axhspan(expected - spread, expected + spread, color="0.85")
right.axhline(expected, color="black", linestyle="--", linewidth=1)
looks = zip(inside.items(), ("o-", "x:", "s--", "D-."), strict=True)
for ((name, shares), line), color in zip(
    looks, ("#0072B2", "black", "#D55E00", "#009E73"), strict=True
):
    right.plot(parts, shares, line, color=color, label=name)
right.set(ylabel="share of unseen targets inside", ylim=(0.7, 1.0))
right.legend(loc="lower left")
plain, fixed = (table.loc[name, "all"] for name in ("quantiles", "quantiles, conformal"))
figure.suptitle(f"90 % promised: plain quantiles hold {plain:.1%}, conformal ones {fixed:.1%}")
plt.show()
