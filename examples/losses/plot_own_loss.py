"""
Can I train with a loss of my own?
==================================

Learn to write a loss in two methods of plain numpy: its value and its derivative. It must be convex
in the score and never negative. The certificate comes with it.

The loss here is the hinge with its kink rounded off by a parabola. The data is the breast cancer
set.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.losses import BinaryLoss
from sklearn_bundle.plotting import ConvergenceDisplay


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


# %%
# The fit refuses a derivative that is wrong at a score of 0 or at the final scores, but only there
# and by more than a thousandth, so test it, here against differences.

scores, step = np.linspace(-2, 3, 1000), 1e-6
for y in (-1.0, 1.0):
    loss, labels = SmoothedHinge(width=0.5), np.full_like(scores, y)
    difference = loss.value(scores + step, labels) - loss.value(scores - step, labels)
    error = np.abs(difference / (2 * step) - loss.gradient(scores, labels)).max()
    print(f"label {y:+.0f}: largest error of the derivative {error:.0e}")

# %%
# Pass an instance in place of a loss's name. The narrower the parabola, the closer the loss is to
# the hinge, from below, and so is the minimum of the objective.

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
losses = {
    "width 1": SmoothedHinge(width=1.0),
    "width 0.1": SmoothedHinge(width=0.1),
    "hinge": "hinge",
}
models = {}
print(f"\n{X.shape[0]} samples, {X.shape[1]} features")
for name, loss in losses.items():
    model = BMRMClassifier(loss, reg_lambda=1e-2, solver="line-search", tol=1e-4).fit(X, y)
    models[name] = model
    print(
        f"{name:<10} {model.lower_bound_:.5f} <= minimum <= {model.objective_:.5f}, "
        f"{model.n_iter_} iterations, training accuracy {model.score(X, y):.3f}"
    )

# %%
# The losses as functions of the score of a positive sample.

figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
scores = np.linspace(-1, 2, 301)
positive = np.ones_like(scores)
ax.plot(scores, np.maximum(0.0, 1.0 - scores), ":", lw=3, color="#009E73", label="hinge, built in")
looks = zip((1.0, 0.1), ("#0072B2", "#D55E00"), ("-", "--"), strict=True)
for width, color, line in looks:
    values = SmoothedHinge(width).value(scores, positive)
    ax.plot(scores, values, line, lw=2, color=color, label=f"your own, width {width:g}")
ax.set(xlabel="score", ylabel="loss of a positive sample")
ax.set_title("Yes: here is a hinge with its kink rounded off")
ax.legend()
plt.show()

# %%
# The fit of the hinge runs in compiled code, the others in the numpy code above. The solver only
# sees values and derivatives.

figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
ConvergenceDisplay.from_estimators(models, ax=ax)
ax.set_title("A loss of your own has the same certificate as a built-in one")
plt.show()
