"""
Which loss should I take when few samples are positive?
=======================================================

Learn when it pays to train for the measure that you report, here the area under the ROC curve or
F1. The losses ``"roc_auc"`` and ``"fbeta"`` bound one minus these measures on the training data.
Whether they also win on new data must be tested: here against the hinge loss, plain and with
balanced weights.

The question to the digits data: is it an 8? One digit in ten is.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import f1_score, precision_recall_curve, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MaxAbsScaler

from sklearn_bundle import BMRMClassifier, bmrm_path

X, y = load_digits(return_X_y=True)
y = (y == 8).astype(int)
X = MaxAbsScaler().fit_transform(X)
print(f"{np.mean(y):.1%} of {len(y)} samples are positive")

# %%
# Each loss has its own best ``reg_lambda``, and so has each measure. We choose it on validation
# data, along a path. The scores of a path are ``X @ coef + intercept``, and F1 counts a positive
# score as a positive prediction. With ``"roc_auc"`` the intercept is the threshold of
# the best balanced accuracy.

reg_lambdas = np.geomspace(3e-4, 1e-2, 4)
settings = {
    "hinge": {"loss": "hinge"},
    "hinge, balanced": {"loss": "hinge", "class_weight": "balanced"},
    "roc_auc": {"loss": "roc_auc"},
    "fbeta": {"loss": "fbeta"},
}
columns = ("area under the ROC curve", "F1", "F1, best threshold")


def measures(y, scores):
    """Area under the ROC curve, F1, and the largest F1 of all thresholds."""
    precision, recall, _ = precision_recall_curve(y, scores)
    largest = np.max(2 * precision * recall / np.maximum(precision + recall, 1e-12))
    return roc_auc_score(y, scores), f1_score(y, scores > 0.0), largest


def on_test_data(seed, parameters):
    """Each measure, at the reg_lambda that is the best by it on validation data."""
    X_rest, X_test, y_rest, y_test = train_test_split(
        X, y, test_size=0.4, stratify=y, random_state=seed
    )
    X_train, X_valid, y_train, y_valid = train_test_split(
        X_rest, y_rest, test_size=0.4, stratify=y_rest, random_state=seed
    )
    path = bmrm_path(X_train, y_train, reg_lambdas=reg_lambdas, **parameters)
    valid = np.array([measures(y_valid, s) for s in (X_valid @ path.coefs + path.intercepts).T])
    test = np.array([measures(y_test, s) for s in (X_test @ path.coefs + path.intercepts).T])
    return test[valid.argmax(axis=0), range(len(columns))]


splits = range(5)
table = {
    loss: np.array([on_test_data(seed, parameters) for seed in splits])
    for loss, parameters in settings.items()
}
print(f"test data, mean and range of {len(splits)} splits")
print(f"{'':<16}" + "".join(f"{column:>26}" for column in columns))
for loss, values in table.items():
    cells = [f"{c.mean():.3f} ({c.min():.3f} to {c.max():.3f})" for c in values.T]
    print(f"{loss:<16}" + "".join(f"{cell:>26}" for cell in cells))

# %%
# On the digits, ``"roc_auc"`` has the best mean ROC area. For F1 the plain hinge loss and
# ``"fbeta"`` are close, compared with the range over the splits. The two losses that weigh the
# classes alike place their threshold for balanced accuracy, not for F1. The last column uses the
# test labels to choose the threshold, and shows how much of the difference this is: there, the four
# are closer to each other.
#
# What was minimized bounds the measure on the training data, and the certificate says how close to
# its minimum the fit is:

for loss in ("roc_auc", "fbeta"):
    model = BMRMClassifier(loss, reg_lambda=1e-3).fit(X, y)
    area, f1, _ = measures(y, model.decision_function(X))
    print(
        f"{loss:<8} 1 - AUC {1 - area:.4f}, 1 - F1 {1 - f1:.4f}; objective "
        f"{model.objective_:.4f}, relative gap {model.relative_gap_:.1e}"
    )

# %%
# The table as a figure: a small dot per split, and a large one at the mean.

means = {loss: values.mean(axis=0) for loss, values in table.items()}
by_area, by_f1 = (sorted(means, key=lambda loss, k=k: -means[loss][k]) for k in range(2))
colors = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
figure, axes = plt.subplots(1, 2, figsize=(7.4, 4.3), sharey=True, layout="constrained")
for k, ax in enumerate(axes):
    for row, (values, color) in enumerate(zip(table.values(), colors, strict=True)):
        ax.plot(values[:, k], np.full(len(values), row), "o", color=color, alpha=0.5)
        ax.plot(values[:, k].mean(), row, "D", color=color, markersize=12, markeredgecolor="black")
    ax.set(xlabel=f"{columns[k]}, test data", yticks=range(len(table)), yticklabels=list(table))
    ax.set(ylim=(len(table) - 0.5, -0.5))
    ax.grid(axis="x", alpha=0.4)
    ax.locator_params(axis="x", nbins=5)
axes[0].plot([], [], "o", color="0.5", alpha=0.5, label="one split")
axes[0].plot([], [], "D", color="0.5", markersize=12, markeredgecolor="black", label="mean")
figure.legend(loc="outside lower center", ncols=2)
figure.suptitle(
    f"Largest mean ROC area: {by_area[0]}. Largest mean F1: {by_f1[0]} with\n"
    f"{means[by_f1[0]][1]:.3f}, hardly more than {by_f1[1]} with {means[by_f1[1]][1]:.3f}"
)
plt.show()

# %%
# What lies behind it on one split: precision against recall for all thresholds, and a marker at the
# threshold that the model comes with. The curves are close to each other, but the markers are not.
# To the left are the models that seldom say "positive" and are right when they do, to the right
# those that miss few.

X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
looks = zip(settings.items(), colors, "os^D", ("-", "--", "-.", ":"), strict=True)
for (loss, parameters), color, marker, line in looks:
    model = BMRMClassifier(reg_lambda=1e-3, **parameters).fit(X_train, y_train)
    scores = model.decision_function(X_test)
    precision, recall, _ = precision_recall_curve(y_test, scores)
    ax.plot(recall, precision, color=color, linestyle=line)
    hits = np.sum(y_test[scores > 0])
    at = hits / np.sum(y_test), hits / np.sum(scores > 0)
    look = {"color": color, "markersize": 10, "markeredgecolor": "black"}
    ax.plot(*at, marker, linestyle=line, label=loss, **look)
ax.set(xlabel="recall, test data", ylabel="precision, test data")
ax.set_title("The losses differ in their thresholds more than in their curves")
ax.legend(loc="lower left")
plt.show()
