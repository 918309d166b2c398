"""
Can I train with a loss of my own?
==================================

Yes, if it is convex in the score and never negative. Two methods in plain numpy are enough: the
value and the derivative. The certificate comes with it.

The loss here is the hinge with its kink rounded off by a parabola over an interval of given width.
The data is the breast cancer set; if the environment variable ``SKLEARN_BUNDLE_DATA`` names a
folder with the set a9a, it is that.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.datasets import load_dataset
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
# A derivative that is wrong by a little cannot be told from a right one by the fit, so it is to be
# tested, here by differences.

scores, step = np.linspace(-2, 3, 1000), 1e-6
for y in (-1.0, 1.0):
    loss, labels = SmoothedHinge(width=0.5), np.full_like(scores, y)
    difference = loss.value(scores + step, labels) - loss.value(scores - step, labels)
    error = np.abs(difference / (2 * step) - loss.gradient(scores, labels)).max()
    print(f"label {y:+.0f}: largest error of the derivative {error:.0e}")

# %%
# An instance goes where the name of a loss would. The narrower the interval, the closer the loss is
# to the hinge, from below, and so is the minimum of the objective.

real = load_dataset("a9a")
X, y = load_breast_cancer(return_X_y=True) if real is None else real[:2]
X = StandardScaler(with_mean=False).fit_transform(X)
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
# Left, the losses as functions of the score of a positive sample. Right, how the three fits
# converged: that of the hinge by compiled code, the others by the numpy code above. The fit does
# not care which; it sees values and derivatives.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
scores = np.linspace(-1, 2, 301)
positive = np.ones_like(scores)
looks = zip((1.0, 0.1), ("#0072B2", "#D55E00"), ("-", "--"), strict=True)
for width, colour, line in looks:
    values = SmoothedHinge(width).value(scores, positive)
    left.plot(scores, values, line, color=colour, label=f"width {width:g}")
left.plot(scores, np.maximum(0.0, 1.0 - scores), ":", color="#009E73", label="hinge")
left.set(xlabel="score", ylabel="loss of a positive sample")
left.legend()
ConvergenceDisplay.from_estimators(models, ax=right)
plt.show()
