"""
Should I train for the measure that I report?
=============================================

Where few samples are positive, what is reported is often the area under the ROC curve, or F1. The
losses ``"roc_auc"`` and ``"fbeta"`` bound these measures on the training data. Whether they also
win on new data is seen by trying: here beside the hinge loss, plain and with balanced weights.

The question to the digits data: is it an 8? One digit in ten is.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import train_test_split

from sklearn_bundle import BMRMClassifier, bmrm_path

X, y = load_digits(return_X_y=True)
X, y = X / 16.0, (y == 8).astype(int)

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


def measures(X, y, w, b):
    """Area under the ROC curve, and F1."""
    scores = X @ w + b
    return roc_auc_score(y, scores), f1_score(y, scores > 0.0)


def on_test_data(seed, parameters):
    """Both measures, at the reg_lambda that is the best on validation data."""
    X_rest, X_test, y_rest, y_test = train_test_split(
        X, y, test_size=0.4, stratify=y, random_state=seed
    )
    X_train, X_valid, y_train, y_valid = train_test_split(
        X_rest, y_rest, test_size=0.4, stratify=y_rest, random_state=seed
    )
    _, coefs, intercepts, _, _ = bmrm_path(X_train, y_train, reg_lambdas=reg_lambdas, **parameters)
    models = list(zip(coefs.T, intercepts, strict=True))
    valid = np.array([measures(X_valid, y_valid, w, b) for w, b in models])
    test = np.array([measures(X_test, y_test, w, b) for w, b in models])
    return test[valid.argmax(axis=0), [0, 1]]


splits = range(3)
table = {
    name: np.array([on_test_data(seed, parameters) for seed in splits])
    for name, parameters in settings.items()
}
print("test data, mean and range of 3 splits    AUC                      F1")
for name, values in table.items():
    columns = [
        f"{column.mean():.3f} ({column.min():.3f} to {column.max():.3f})" for column in values.T
    ]
    print(f"{name:<40} {'   '.join(columns)}")

# %%
# For the ROC area the answer is yes: ``"roc_auc"`` has the best mean here. For F1 it is hardly:
# ``"fbeta"`` and the plain hinge loss are close, compared with the range over the splits. The two
# that weigh the classes alike do not have their thresholds where F1 would have them. On other data
# the answers may differ.
#
# What was minimised bounds the measure on the training data, and the certificate says how close to
# its minimum the fit is:

for loss in ("roc_auc", "fbeta"):
    model = BMRMClassifier(loss, reg_lambda=1e-3).fit(X, y)
    area, f1 = measures(X, y, model.coef_[0], model.intercept_[0])
    print(
        f"{loss:<8} 1 - AUC {1 - area:.4f}, 1 - F1 {1 - f1:.4f}; objective "
        f"{model.objective_:.4f}, gap {model.dual_gap_:.1e}"
    )

figure, axes = plt.subplots(1, 2, sharey=True, figsize=(9, 3), layout="constrained")
for k, title in enumerate(("area under the ROC curve", "F1")):
    for row, values in enumerate(table.values()):
        axes[k].plot(values[:, k], np.full(len(splits), row), "o", color="tab:blue", alpha=0.5)
        axes[k].plot(values[:, k].mean(), row, "k|", markersize=16)
    axes[k].set(title=f"{title}, test data", yticks=range(len(table)), yticklabels=list(table))
axes[0].invert_yaxis()
plt.show()
