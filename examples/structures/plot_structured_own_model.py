"""
Can I predict structures of my own?
===================================

Yes, if you can find the best one. A model in plain numpy says five things: how many weights there
are, the features of an input with an output, the loss, and the best output without the loss and
with it. :class:`~sklearn_bundle.StructuredSVM` learns the weights, and the certificate comes with
it.

The outputs here are orders. A query has a handful of documents, and the best are to come first.
"""

from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import StructuredModel
from sklearn_bundle.plotting import ConvergenceDisplay


class Ranking(StructuredModel):
    """Items in an order, best first: x has a row per item, y the numbers of the rows."""

    def __init__(self, decay=0.7):
        self.decay = decay

    def n_parameters(self, X, y):
        return X[0].shape[1]

    def joint_feature(self, x, y):
        return self._shares(x) @ x[y]

    def loss(self, y, y_hat):
        return np.abs(np.argsort(y) - np.argsort(y_hat)).sum()

    def inference(self, x, w):
        return np.argsort(-x @ w)

    def loss_augmented_inference(self, x, y, w):
        away = np.abs(np.argsort(y)[:, None] - np.arange(len(x)))
        gain = np.outer(x @ w, self._shares(x)) + away
        return np.argsort(linear_sum_assignment(gain, maximize=True)[1])

    def max_loss(self, y):
        return len(y) ** 2 // 2

    def _shares(self, x):
        return self.decay ** np.arange(len(x))


# %%
# The score of an order is a weighted sum of the items' scores, of which the first counts most, so
# that the best order is that of the scores. The loss is how many places the items are away from
# where they belong. With it an item's gain depends on the place: the best order is an assignment of
# items to places, which scipy finds. ``max_loss`` is optional: it is the unit of ``score``.
#
# The certificate is as true as the loss-augmented inference: what it misses, nobody knows of. Small
# cases can be tested by enumeration.

model, rng = Ranking(), np.random.default_rng(0)
for _ in range(20):
    x, y, w = rng.normal(size=(5, 3)), rng.permutation(5), rng.normal(size=3)

    def augmented(order, x=x, y=y, w=w):
        return model.loss(y, order) + w @ model.joint_feature(x, np.array(order))

    found = augmented(model.loss_augmented_inference(x, y, w))
    assert np.isclose(found, max(map(augmented, permutations(range(5)))))
print("the best of 120 orders, each time")

# %%
# The data: queries with eight documents of five features. What makes a document good is a sum of
# them and something that the features do not tell.


TRUE = np.array([2.0, 1.0, 1.0, 0.0, 0.0])


def queries(n, rng):
    """Documents of each query, and their order."""
    X = list(rng.normal(size=(n, 8, 5)))
    goodness = [x @ TRUE + rng.normal(size=len(x)) for x in X]
    return X, [np.argsort(-values) for values in goodness]


X, y = queries(100, rng)
X_test, y_test = queries(500, rng)
svm = StructuredSVM(Ranking(), reg_lambda=0.01, random_state=0).fit(X, y)
print(f"{svm.lower_bound_:.3f} <= minimum <= {svm.objective_:.3f}, {svm.status_}")
print("weights:", (svm.w_ / svm.w_[1]).round(2), "times", svm.w_[1].round(2))
print(f"score {svm.score(X_test, y_test):.3f}")
best = [model.inference(x, TRUE) for x in X_test]
losses = [model.loss(*orders) for orders in zip(y_test, best, strict=True)]
print(f"{1 - np.mean(losses) / model.max_loss(best[0]):.3f} with the weights that made the data")

# %%
# A model's own parameters are searched as ``model__decay``.

search = GridSearchCV(svm, {"model__decay": [0.5, 0.7, 0.9]}, cv=3).fit(X, y)
for settings, score in zip(
    search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
):
    print(f"decay {settings['model__decay']:.1f}   score {score:.3f}")

# %%
# Left, how the certificate closes, by searches a query: solvers keep what a search has found, and
# make more or less of it. ("auto" looks at the gap after every tenth pass, or when it seems small
# enough.) Right, where the test documents of a place (row) are put (column): the first and the last
# place are the easy ones.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
solvers = ("auto", "rsd", "rsd-one-simplex", "bundle")
fits = {name: clone(svm).set_params(solver=name).fit(X, y) for name in solvers}
ConvergenceDisplay.from_estimators(fits, x="passes", ax=left)
left.set(xlabel="searches a query")
places = np.zeros((8, 8))
for truth, found in zip(y_test, svm.predict(X_test), strict=True):
    np.add.at(places, (np.argsort(truth), np.argsort(found)), 1.0 / len(y_test))
image = right.imshow(places, cmap="Blues", vmin=0)
right.set_xticks(range(8), range(1, 9))
right.set_yticks(range(8), range(1, 9))
right.set(xlabel="place given", ylabel="true place")
figure.colorbar(image, ax=right, label="share of the queries")
plt.show()
