"""
Read a linear model, and know how exact each coefficient is
===========================================================

See which features drive a prediction, and which digits of a coefficient you may quote. Two things
blur it: the solver that stopped, which the certificate bounds for each coefficient, and the sample
that you happen to have, which no certificate knows and a bootstrap shows.

The frame is scikit-learn's breast cancer data: 30 measurements of cell nuclei for each of 569
tumors, benign or malignant.
"""

from time import process_time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
y = 1 - y  # 1 is malignant
scaler = StandardScaler().set_output(transform="pandas")
Z = scaler.fit_transform(X)
print(f"{len(y)} tumors, {y.mean():.0%} malignant")

# %%
# Fit, and bound the error of each coefficient
# --------------------------------------------
#
# With the default regularizer the objective grows by at least ``reg_lambda / 2`` times the squared
# distance from the optimum. So no coefficient is farther from the optimum's than
# ``sqrt(2 * dual_gap_ / reg_lambda)``. The square root is why the gap has to be small: the
# table shows how many decimals you know.

REG_LAMBDA = 1e-2


def radius(model):
    """The largest distance of a coefficient from that of the exact optimum."""
    return np.sqrt(2 * model.dual_gap_ / model.reg_lambda)


print(f"{'tol':<8}{'relative gap':>13}{'error of a coefficient, at most':>34}")
for tol in (1e-3, 1e-6, 1e-10):
    model = BMRMClassifier("log_loss", reg_lambda=REG_LAMBDA, tol=tol).fit(Z, y)
    print(f"{tol:<8.0e}{model.relative_gap_:>13.1e}{radius(model):>34.5f}")

# %%
# The coefficients as a frame
# ---------------------------
#
# The features have mean 0 and standard deviation 1, so their coefficients can be compared: one
# standard deviation more of a feature changes the log odds of "malignant" by its coefficient. The
# sample's part: the same fit for 200 samples of 569 tumors, drawn with replacement.


def fit(rows):
    scaled = StandardScaler().fit_transform(X.iloc[rows])
    return BMRMClassifier("log_loss", reg_lambda=REG_LAMBDA).fit(scaled, y.iloc[rows]).coef_[0]


generator = np.random.default_rng(0)
draws = np.array([fit(generator.integers(len(y), size=len(y))) for _ in range(200)])
frame = pd.DataFrame(
    {
        "coefficient": model.coef_[0],
        "solver, +-": radius(model),
        "sample, from": np.quantile(draws, 0.025, axis=0),
        "to": np.quantile(draws, 0.975, axis=0),
    },
    index=model.feature_names_in_,
)
frame["sign is sure"] = (frame["sample, from"] > 0) | (frame["to"] < 0)
frame = frame.sort_values("coefficient", key=np.abs, ascending=False)
print(frame.head(10).round(5).to_string())
print(f"\n{frame['sign is sure'].sum()} of {len(frame)} signs hold in 95 % of the samples")
spread = (frame["to"] - frame["sample, from"]).median() / 2
print(f"the sample's part is {spread:.2f} in the median, the solver's at most {radius(model):.5f}")

# %%
# So only the first digit says something about tumors in general. And a small coefficient does not
# mean that the feature says nothing: radius, perimeter and area are nearly the same measurement,
# and share one effect between them. Read them together:

size = ["worst radius", "worst perimeter", "worst area"]
print(X[size].corr().round(3).to_string())
print(frame.loc[size, "coefficient"].round(3).to_string())
print(f"sum {frame.loc[size, 'coefficient'].sum():.3f}")

# %%
# The peer
# --------
#
# :class:`~sklearn.linear_model.LogisticRegression` has the same optimum, and no bound. Ours says
# how exact its coefficients are. (CPU time of a fit, the median of nine. On data as small as this,
# either is done before you notice.)


def seconds(make):
    times = []
    for _ in range(9):
        start = process_time()
        fitted = make().fit(Z, y)
        times.append(process_time() - start)
    return np.median(times), fitted


C = 1 / (len(y) * REG_LAMBDA)
contest = {
    "BMRMClassifier, tol=1e-10": lambda: BMRMClassifier(
        "log_loss", reg_lambda=REG_LAMBDA, tol=1e-10
    ),
    "LogisticRegression": lambda: LogisticRegression(C=C),
    "LogisticRegression, tol=1e-8": lambda: LogisticRegression(C=C, tol=1e-8, max_iter=10_000),
    "the same, newton-cholesky": lambda: LogisticRegression(
        C=C, tol=1e-8, solver="newton-cholesky"
    ),
}
print(f"{'':<30}{'ms':>6}{'largest error of a coefficient':>33}")
for name, make in contest.items():
    time, fitted = seconds(make)
    apart = np.abs(fitted.coef_ - model.coef_).max()
    print(f"{name:<30}{1000 * time:>6.1f}{'at most':>20} {apart + radius(model):.5f}")

# %%
# One prediction, taken apart
# ---------------------------
#
# The score of a row is the intercept and a sum over features. This is the malignant tumor whose
# score is the lowest of those found, so the one that was nearly missed.

scores = model.decision_function(Z)
row = np.flatnonzero((y == 1) & (scores > 0))
row = row[np.argmin(scores[row])]
parts = (Z.iloc[row] * model.coef_[0]).sort_values(key=np.abs, ascending=False)
print(f"score {scores[row]:+.3f} = intercept {model.intercept_[0]:+.3f} and the sum of")
print(pd.concat([parts.head(6), pd.Series({"others": parts[6:].sum()})]).round(3).to_string())

# %%
# The picture
# -----------
#
# A dot is a coefficient, and its line the middle 95 % of the samples. The solver's part is drawn
# too, in red; you do not see it, and that is the point of a small gap.

shown = frame[::-1]
figure, ax = plt.subplots(figsize=(7.4, 7.4), layout="constrained")
places = np.arange(len(shown))
colors = np.where(shown["sign is sure"], "#0072B2", "0.6")
ax.hlines(places, shown["sample, from"], shown["to"], color=colors, linewidth=3, alpha=0.6)
ax.scatter(shown["coefficient"], places, color=colors, zorder=3)
ax.errorbar(
    shown["coefficient"], places, xerr=shown["solver, +-"], fmt="none", color="#D55E00", zorder=4
)
ax.axvline(0, color="black", linewidth=1)
ax.set_yticks(places, shown.index)
ax.set_xlabel("change of the log odds of malignant per standard deviation of the feature")
ax.set_title(
    f"What the sample leaves open is {spread / radius(model):,.0f} times\n"
    "what the solver leaves open; gray: the sign is not sure"
)
plt.show()
