"""
Which loss should I take when few samples are positive?
=======================================================

What is reported then is often the area under the ROC curve, or F1. The losses ``"roc_auc"`` and
``"fbeta"`` bound one minus these measures on the training data. Whether they also win on new data
is seen by trying: here beside the hinge loss, plain and with balanced weights.

The question to the digits data: is it an 8? One digit in ten is. If the environment variable
``SKLEARN_BUNDLE_DATA`` names a folder with the set ijcnn1, it is 6,000 samples of that.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import f1_score, precision_recall_curve, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MaxAbsScaler

from sklearn_bundle import BMRMClassifier, bmrm_path
from sklearn_bundle.datasets import load_dataset

real = load_dataset("ijcnn1")
if real is None:
    name, (X, y) = "digits", load_digits(return_X_y=True)
    y = (y == 8).astype(int)
else:
    name, (X, y) = "6,000 samples of ijcnn1", real[:2]
    X, _, y, _ = train_test_split(X, y > 0, train_size=6000, stratify=y, random_state=0)
X = MaxAbsScaler().fit_transform(X)
print(f"{name}: {np.mean(y):.1%} of {len(y)} samples are positive")

# %%
# Each loss has its own best ``reg_lambda``, and each measure too: both are chosen on validation
# data, along a path. The scores of a path are ``X @ coef + intercept``; F1 is that of the samples
# with a positive one. With ``"roc_auc"`` the intercept is the threshold of the best balanced
# accuracy.

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
    _, coefs, intercepts, _, _ = bmrm_path(X_train, y_train, reg_lambdas=reg_lambdas, **parameters)
    valid = np.array([measures(y_valid, s) for s in (X_valid @ coefs + intercepts).T])
    test = np.array([measures(y_test, s) for s in (X_test @ coefs + intercepts).T])
    return test[valid.argmax(axis=0), range(len(columns))]


splits = range(3)
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
# On the digits, for the ROC area the answer is yes: ``"roc_auc"`` has the best mean. For F1 it is
# hardly: ``"fbeta"`` and the plain hinge loss are close, compared with the range over the splits.
# The two that weigh the classes alike have their threshold where balanced accuracy, not F1, would
# have it. The last column, which looks at the test labels to choose the threshold, shows how much
# of the difference this is: with it, the four are closer to each other.
#
# What was minimised bounds the measure on the training data, and the certificate says how close to
# its minimum the fit is:

for loss in ("roc_auc", "fbeta"):
    model = BMRMClassifier(loss, reg_lambda=1e-3).fit(X, y)
    area, f1, _ = measures(y, model.decision_function(X))
    print(
        f"{loss:<8} 1 - AUC {1 - area:.4f}, 1 - F1 {1 - f1:.4f}; objective "
        f"{model.objective_:.4f}, gap {model.dual_gap_:.1e}"
    )

# %%
# Left and middle, the table: a dot for each split, a bar at the mean. Right, what lies behind it
# on one split: precision against recall for all thresholds, and a marker at the threshold that the
# model comes with. The curves are close to each other, but the markers are far apart: to the left
# those that seldom say "positive" and are right when they do, to the right those that miss few.

colours = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
for k, column in enumerate(columns[:2]):
    for row, (values, colour, marker) in enumerate(
        zip(table.values(), colours, "os^D", strict=True)
    ):
        axes[k].plot(values[:, k], np.full(len(values), row), marker, color=colour)
        axes[k].plot(values[:, k].mean(), row, "k|", markersize=22, markeredgewidth=2)
    axes[k].set(xlabel=f"{column}, test data", yticks=range(len(table)), yticklabels=list(table))
    axes[k].set(ylim=(len(table) - 0.5, -0.5))
    axes[k].locator_params(axis="x", nbins=5)

X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
looks = zip(settings.items(), colours, "os^D", ("-", "--", "-.", ":"), strict=True)
for (loss, parameters), colour, marker, line in looks:
    model = BMRMClassifier(reg_lambda=1e-3, **parameters).fit(X_train, y_train)
    scores = model.decision_function(X_test)
    precision, recall, _ = precision_recall_curve(y_test, scores)
    axes[2].plot(recall, precision, color=colour, linestyle=line)
    hits = np.sum(y_test[scores > 0])
    at = hits / np.sum(y_test), hits / np.sum(scores > 0)
    look = {"color": colour, "markersize": 10, "markeredgecolor": "black"}
    axes[2].plot(*at, marker, linestyle=line, label=loss, **look)
axes[2].set(xlabel="recall, test data", ylabel="precision, test data")
axes[2].legend(loc="lower left")
plt.show()
