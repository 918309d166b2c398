"""
Can I train with a loss of my own?
==================================

Yes, if it is convex in the score and never negative. Two methods in plain numpy are enough: the
value and the derivative. The certificate comes with it.

The loss here is the hinge with its kink rounded off by a parabola over an interval of given width.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.losses import BinaryLoss


class SmoothedHinge(BinaryLoss):
    """The hinge loss with a parabola in place of its kink, for margins from 1 - width to 1."""

    def __init__(self, width=0.5):
        self.width = width

    def value(self, scores, y):
        slack = np.maximum(0.0, 1.0 - y * scores)
        return np.where(slack < self.width, slack**2 / (2 * self.width), slack - self.width / 2)

    def gradient(self, scores, y):
        slack = np.maximum(0.0, 1.0 - y * scores)
        return -y * np.minimum(slack / self.width, 1.0)


X, y = load_breast_cancer(return_X_y=True)

# %%
# The narrower the interval, the closer the loss is to the hinge, from below, and so is the minimum
# of the objective.

for loss in (SmoothedHinge(width=1.0), SmoothedHinge(width=0.1), "hinge"):
    model = make_pipeline(StandardScaler(), BMRMClassifier(loss, reg_lambda=1e-2)).fit(X, y)
    classifier = model[-1]
    name = loss if loss == "hinge" else f"smoothed over {loss.width}"
    print(
        f"{name:<18} objective {classifier.objective_:.5f}  gap {classifier.dual_gap_:.1e}  "
        f"{classifier.n_iter_} iterations  training accuracy {model.score(X, y):.3f}"
    )

# %%
# The losses as functions of the score of a positive sample:

scores = np.linspace(-1, 2, 301)
positive = np.ones_like(scores)
for width in (1.0, 0.5, 0.1):
    plt.plot(scores, SmoothedHinge(width).value(scores, positive), label=f"width {width}")
plt.plot(scores, np.maximum(0.0, 1.0 - scores), "k:", label="hinge")
plt.xlabel("score")
plt.ylabel("loss")
plt.legend()
plt.show()
