"""
Can I predict structures of my own?
===================================

Learn to write a model of outputs in plain numpy. It has five methods: the number of weights, the
features of an input with an output, the loss, and the best output without the loss and with it.
:class:`~sklearn_bundle.StructuredSVM` learns the weights, and the certificate comes with it.

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
# that the best order is that of the scores. The loss counts how many places the items are away from
# where they belong. With it, an item's gain depends on the place. Then the best order is an
# assignment of items to places, which scipy finds. ``max_loss`` is optional: it is the unit of
# ``score``.
#
# The certificate is only as true as the loss-augmented inference: an output that it misses is
# missing from the bound. Test small cases by enumeration.

model, rng = Ranking(), np.random.default_rng(0)
for _ in range(20):
    x, y, w = rng.normal(size=(5, 3)), rng.permutation(5), rng.normal(size=3)

    def augmented(order, x=x, y=y, w=w):
        return model.loss(y, order) + w @ model.joint_feature(x, np.array(order))

    found = augmented(model.loss_augmented_inference(x, y, w))
    assert np.isclose(found, max(map(augmented, permutations(range(5)))))
print("the best of 120 orders, each time")

# %%
# The data: queries with eight documents of five features. How good a document is depends on a sum
# of them and on something that is not in the features.

TRUE = np.array([2.0, 1.0, 1.0, 0.0, 0.0])


def queries(n, rng):
    """Documents of each query, and their order."""
    X = list(rng.normal(size=(n, 8, 5)))
    goodness = [x @ TRUE + rng.normal(size=len(x)) for x in X]
    return X, [np.argsort(-values) for values in goodness]


X, y = queries(100, rng)
X_test, y_test = queries(500, rng)
svm = StructuredSVM(Ranking(), reg_lambda=0.01, random_state=0).fit(X, y)
print(f"{svm.lower_bound_:.3f} <= minimum <= {svm.objective_:.3f}, gap {svm.relative_gap_:.1e}")
print("weights:", (svm.w_ / svm.w_[1]).round(2), "times", svm.w_[1].round(2))
score = svm.score(X_test, y_test)
print(f"score {score:.3f}")
best = [model.inference(x, TRUE) for x in X_test]
losses = [model.loss(*orders) for orders in zip(y_test, best, strict=True)]
possible = 1 - np.mean(losses) / model.max_loss(best[0])
print(f"{possible:.3f} with the weights that made the data")

# %%
# Search a model's own parameters as ``model__decay``.

search = GridSearchCV(svm, {"model__decay": [0.5, 0.7, 0.9]}, cv=3).fit(X, y)
for settings, mean in zip(
    search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
):
    print(f"decay {settings['model__decay']:.1f}   score {mean:.3f}")

# %%
# Where the test documents of a place (row) are put (column). The first and the last place are the
# easy ones.

places = np.zeros((8, 8))
for truth, found in zip(y_test, svm.predict(X_test), strict=True):
    np.add.at(places, (np.argsort(truth), np.argsort(found)), 1.0 / len(y_test))
figure, ax = plt.subplots(figsize=(5.8, 4.6), layout="constrained")
image = ax.imshow(places, cmap="Blues", vmin=0)
ax.set_xticks(range(8), range(1, 9))
ax.set_yticks(range(8), range(1, 9))
ax.set(xlabel="place given", ylabel="true place")
ax.set_title(f"Yes: the learned order scores {score:.3f},\nthat of the true weights {possible:.3f}")
figure.colorbar(image, ax=ax, label="share of the queries")
plt.show()

# %%
# How the certificate closes, by searches per query. Solvers keep what a search has found, and make
# more or less use of it. ("auto" computes the gap after every tenth pass, or when it seems small
# enough.) The cost of the steps between searches is not counted here.

solvers = ("auto", "rsd", "rsd-one-simplex", "bundle")
fits = {name: clone(svm).set_params(solver=name).fit(X, y) for name in solvers}
searches = {name: fit.history_["passes"][-1] for name, fit in fits.items()}
fewest = min(searches, key=searches.get)
figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
ConvergenceDisplay.from_estimators(fits, x="passes", ax=ax)
ax.set(xlabel="searches per query")
ax.set_title(f"Fewest searches to the same gap: {fewest}, {searches[fewest]} per query")
plt.show()
