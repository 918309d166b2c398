"""
Find the few texts that matter, at the least cost
=================================================

Decide with a classifier when few texts are positive and a miss costs more than a false alarm. You
choose a loss, check that its probabilities can be trusted, and set the threshold by your costs.

The texts are short descriptions of functions and classes, from the docstrings of scipy and
scikit-learn. Which of them belong to the team for signal processing, ``scipy.signal``? A text that
this team never sees costs 10, one that it reads in vain costs 1.
"""

from time import process_time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    confusion_matrix,
    make_scorer,
    roc_auc_score,
)
from sklearn.model_selection import StratifiedKFold, TunedThresholdClassifierCV, cross_val_predict
from texts import docstrings  # a file beside this one

from sklearn_bundle import BMRMClassifier

entries = docstrings()
texts = [entry.text for entry in entries]
y = np.array([entry.topic == "scipy.signal" for entry in entries]).astype(int)
print(f"{len(y)} texts, {y.mean():.1%} of them positive; one reads:\n\n{texts[np.argmax(y)][:300]}")

MISS, ALARM = 10, 1
X = TfidfVectorizer(sublinear_tf=True).fit_transform(texts)  # once for all folds: it sees no labels

# %%
# A loss and its ``reg_lambda``
# -----------------------------
#
# All predictions below are for texts that the fit has not seen, in five folds. First the order of
# the texts, by the average precision: is the loss for the area under the ROC curve worth it?

folds = StratifiedKFold(5, shuffle=True, random_state=0)


def unseen(model, method="decision_function"):
    """Predictions for each text by a model that was fitted without it."""
    return cross_val_predict(model, X, y, cv=folds, method=method)


print("average precision (area under the ROC curve)")
reg_lambdas = (1e-3, 1e-4, 1e-5)
print(f"{'':<10}" + "".join(f"{reg_lambda:>16g}" for reg_lambda in reg_lambdas))
precisions = {}
for loss in ("log_loss", "hinge", "roc_auc", "fbeta"):
    print(f"{loss:<10}", end="")
    slow = loss in ("roc_auc", "fbeta")  # their third value takes up to a minute
    for reg_lambda in reg_lambdas[: 2 if slow else 3]:
        scores = unseen(BMRMClassifier(loss, reg_lambda=reg_lambda))
        precisions[loss, reg_lambda] = average_precision_score(y, scores)
        print(f"{precisions[loss, reg_lambda]:>8.3f} ({roc_auc_score(y, scores):.3f})", end="")
    print()


def best(loss):
    """The reg_lambda with the largest average precision."""
    return max((value, key[1]) for key, value in precisions.items() if key[0] == loss)[1]


# %%
# The losses order the texts about equally well. What differs is where each puts its threshold. So
# take a loss with probabilities, and set the threshold yourself.
#
# Probabilities that can be trusted
# ---------------------------------
#
# If the probability is p, an alarm costs 1 - p on average, and silence 10 p. So the alarm pays from
# p = 1/11 on. That needs no tuning, but it needs p to be right near 1/11. Regularization pulls the
# probabilities of few positives down, which the first panel of the picture shows. The scores of the
# hinge loss become probabilities by calibration in inner folds.

n_train = len(y) * 4 // 5
log_loss = BMRMClassifier("log_loss", reg_lambda=best("log_loss"), tol=1e-6)
weighted = BMRMClassifier("log_loss", reg_lambda=best("log_loss"), class_weight={0: ALARM, 1: MISS})
hinge = CalibratedClassifierCV(BMRMClassifier("hinge", reg_lambda=best("hinge")), ensemble=False)
peer = LogisticRegression(C=1 / (n_train * best("log_loss")), tol=1e-6)
models = {
    "log_loss": log_loss,
    "log_loss, weights": weighted,
    "hinge, calibrated": hinge,
    "LogisticRegression": peer,
}
probabilities, seconds = {}, {}
for name, model in models.items():
    model.fit(X, y)  # compiles
    start = process_time()
    probabilities[name] = unseen(model, "predict_proba")[:, 1]
    seconds[name] = process_time() - start
    brier = brier_score_loss(y, probabilities[name])
    print(f"{name:<20} Brier score {brier:.4f}, {seconds[name]:.2f} s for five fits")
apart = np.abs(probabilities["log_loss"] - probabilities["LogisticRegression"]).max()
print(f"log_loss and LogisticRegression are at most {apart:.4f} apart: the same objective")

# %%
# What the decisions cost
# -----------------------
#
# A threshold can also be tuned for the cost, with scikit-learn's
# :class:`~sklearn.model_selection.TunedThresholdClassifierCV`. The error in the table is one
# standard error of the difference to the first row, over the texts: the cost of each text is known
# under both rules, so what they share cancels.


def negative_cost(y_true, y_pred):
    (_, alarms), (misses, _) = confusion_matrix(y_true, y_pred, labels=(0, 1))
    return -(MISS * misses + ALARM * alarms) / len(y_true)


def tuned(model):
    return TunedThresholdClassifierCV(model, scoring=make_scorer(negative_cost), n_jobs=1)


threshold = ALARM / (ALARM + MISS)
fbeta = BMRMClassifier("fbeta", reg_lambda=best("fbeta"))
decisions = {
    "log_loss, p > 1/11": probabilities["log_loss"] > threshold,
    "log_loss, p > 1/2": probabilities["log_loss"] > 0.5,
    "log_loss, tuned threshold": unseen(tuned(log_loss), "predict"),
    "log_loss, costs as weights": probabilities["log_loss, weights"] > 0.5,
    "hinge, calibrated, p > 1/11": probabilities["hinge, calibrated"] > threshold,
    "fbeta, its own threshold": unseen(fbeta, "predict"),
    "hinge, tuned threshold": unseen(
        tuned(BMRMClassifier("hinge", reg_lambda=best("hinge"))), "predict"
    ),
    "LogisticRegression, p > 1/11": probabilities["LogisticRegression"] > threshold,
    "no alarm at all": np.zeros(len(y)),
}
costs = {
    name: 1000 * np.where(y == 1, MISS * (decision == 0), ALARM * (decision == 1))
    for name, decision in decisions.items()
}
first = next(iter(costs.values()))
print(f"{'per 1,000 texts':<30}{'cost':>7}{'difference':>17}{'recall':>9}{'precision':>11}")
differences = {}
for name, cost in costs.items():
    other = cost - first
    differences[name] = other.mean(), other.std() / np.sqrt(len(y))
    hits = np.sum((decisions[name] == 1) & (y == 1))
    recall, precision = hits / y.sum(), hits / max(np.sum(decisions[name] == 1), 1)
    middle, error = differences[name]
    print(
        f"{name:<30}{cost.mean():>7.0f}{middle:>+8.0f} +- {error:<5.0f}{recall:>9.2f}"
        f"{precision:>11.2f}"
    )

# %%
# The picture
# -----------
#
# Left: whether the probabilities are right; above the dotted line more texts are positive than
# predicted. Right: what each rule costs more than the first one. A bar whose line reaches zero
# is no difference that these texts can show.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.3), layout="constrained")
for name, color in zip(models, ("#0072B2", "#CC79A7", "#009E73", "#D55E00"), strict=True):
    look = {"color": color, "linestyle": "--" if name == "LogisticRegression" else "-"}
    CalibrationDisplay.from_predictions(
        y, probabilities[name], n_bins=5, name=name, ax=left, **look
    )
left.set(
    xlabel="predicted probability, means of fifths of the range", ylabel="share that is positive"
)
rules = [name for name in costs if name != "no alarm at all"][1:]
middles, errors = np.transpose([differences[name] for name in rules])
right.barh(rules, middles, xerr=2 * errors, color="#56B4E9", capsize=3)
right.invert_yaxis()
right.axvline(0, color="black", linewidth=1)
right.set_xlabel("cost per 1,000 texts beyond log_loss with p > 1/11,\nwith two standard errors")
saved = differences["log_loss, p > 1/2"][0]
figure.suptitle(
    f"The threshold 1/11 costs {first.mean():.0f} per 1,000 texts, and the threshold 1/2 "
    f"{saved:.0f} more"
)
plt.show()
