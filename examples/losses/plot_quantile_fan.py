"""
How wide should a prediction interval be?
=========================================

Learn to predict intervals that are as wide as the targets scatter, which may differ from place to
place. The loss ``"quantile"`` of :class:`~sklearn_bundle.BMRMRegressor` fits the value that a given
share of the targets stays below. Five such fits make a fan.

The data is made here, so that the true quantiles are known: the scatter grows with x, and it is
skewed upward.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import gamma
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from sklearn_bundle import BMRMRegressor

levels = (0.05, 0.25, 0.5, 0.75, 0.95)
rng = np.random.default_rng(0)


def true_quantiles(x, levels):
    """Quantiles of the made data, of shape (len(levels), len(x))."""
    return 2 + np.sin(x) + 0.3 * x + (0.2 + 0.15 * x) * np.reshape(gamma(2).ppf(levels), (-1, 1))


x = rng.uniform(0, 10, 6000)
y = np.diagonal(true_quantiles(x, rng.uniform(size=6000)))
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.5, random_state=0)
print(f"{len(y_train)} samples to train, {len(y_test)} to test")


# %%
# The model is linear in the features that it is given, and these are splines of x: bumps, of which
# ten cover the range. Every level is a fit of its own, with its own certificate.


def spline_model(loss, **parameters):
    return make_pipeline(
        SplineTransformer(n_knots=8, knots="quantile"),
        BMRMRegressor(loss, reg_lambda=1e-6, **parameters),
    )


fan = [spline_model("quantile", quantile=q).fit(x_train[:, None], y_train) for q in levels]
predicted = np.array([model.predict(x_test[:, None]) for model in fan])

print("level   iterations   gap / objective   test targets below")
for q, model, values in zip(levels, fan, predicted, strict=True):
    gap = model[-1].relative_gap_
    below = np.mean(y_test <= values)
    print(f"{q:<5}   {model[-1].n_iter_:>10}   {gap:>15.1e}   {below:>18.3f}")
crossed = np.mean(np.diff(predicted, axis=0).min(axis=0) < 0)
print(f"test samples at which two of the curves have crossed: {crossed:.1%}")

# %%
# The usual interval has the same width everywhere: the mean, by the squared error, and the
# quantiles of the residuals around it. Over all samples it holds as many targets as the fan does.
# The share in each tenth of the samples, by x, is another matter.

mean = spline_model("squared_error").fit(x_train[:, None], y_train)
residuals = np.quantile(y_train - mean.predict(x_train[:, None]), levels)
constant = mean.predict(x_test[:, None]) + residuals[:, None]
inside = {
    "fan": (predicted[0] <= y_test) & (y_test <= predicted[-1]),
    "same width everywhere": (constant[0] <= y_test) & (y_test <= constant[-1]),
}
tenths = np.array_split(np.argsort(x_test, kind="stable"), 10)
shares = {kind: [np.mean(hits[tenth]) for tenth in tenths] for kind, hits in inside.items()}

print("share of the test targets between the levels 0.05 and 0.95")
for kind, hits in inside.items():
    low, high = min(shares[kind]), max(shares[kind])
    print(f"{kind:<22} all {hits.mean():.3f}, by tenths of x from {low:.3f} to {high:.3f}")

# %%
# Half of the targets are to be expected in the dark band, nine in ten in the light one. The dotted
# lines are the true quantiles. The fan is close to them where there are enough samples, and its
# upper half is the wider one, as it should be.

grid = np.linspace(*np.quantile(x_train, [0.0, 0.99]), 300)  # beyond there is little data
curves = [model.predict(grid[:, None]) for model in fan]
figure, ax = plt.subplots(figsize=(6.4, 4.5), layout="constrained")
ax.scatter(x_test, y_test, s=3, color="0.65", label="test samples")
ax.fill_between(grid, curves[0], curves[-1], color="#0072B2", alpha=0.15, label="0.05 to 0.95")
ax.fill_between(grid, curves[1], curves[-2], color="#0072B2", alpha=0.35, label="0.25 to 0.75")
ax.plot(grid, curves[2], color="#0072B2", linewidth=2.5, label="0.5, the median")
true = ax.plot(grid, true_quantiles(grid, levels).T, color="black", linestyle="dotted")
true[0].set_label("true quantiles")
ax.set(xlabel="x", ylabel="y", ylim=(0, 1.5 * np.max(curves)))  # a few are above
ax.set_title("As wide as the targets scatter: the fan follows the true quantiles")
ax.legend(loc="upper left")
plt.show()

# %%
# The share of the test targets between the outer levels, by tenths of x; 0.9 is expected. A curve
# that stays at the dashed line is right everywhere. One that is above it here and below it there is
# right only on average.

figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
for (kind, values), line, color in zip(
    shares.items(), ("o-", "s--"), ("#0072B2", "#D55E00"), strict=True
):
    ax.plot(range(1, 11), values, line, color=color, label=kind)
ax.axhline(0.9, color="black", linestyle="dashed", linewidth=1, label="expected")
ax.set(
    xlabel="tenth of the test samples, by x",
    ylabel="share between the levels 0.05 and 0.95",
    xticks=range(1, 11),
)
(fan_low, fan_high), (low, high) = ((min(values), max(values)) for values in shares.values())
ax.set_title(
    f"The fan holds {fan_low:.0%} to {fan_high:.0%} of the targets everywhere,\n"
    f"a band of one width {low:.0%} to {high:.0%}"
)
ax.legend()
plt.show()
