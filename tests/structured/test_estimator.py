"""StructuredSVM with oracles that may miss outputs or break their word, and what has no hash."""

import warnings

import numpy as np
import pytest

from sklearn_bundle import StructuredSVM
from tests.contract.fits import quiet
from tests.contract.user_models import BoundedGrid, Grid, HastyGrid, Ranking, ranked_items

rng = np.random.default_rng(0)
X = list(rng.normal(size=(8, 2, 3, 2)))
Y = list((np.sum(X, axis=3) > 0.5 * rng.normal(size=(8, 2, 3))).astype(int))


def exact():
    return StructuredSVM(Grid(), reg_lambda=0.02, tol=1e-6, max_iter=3000).fit(X, Y)


class SeldomBounded(BoundedGrid):
    def upper_bound(self, x, y, w):
        return super().upper_bound(x, y, w) if y[0, 0] else np.inf


@pytest.mark.parametrize("kind", [HastyGrid, SeldomBounded])
def test_an_oracle_that_may_miss_proves_nothing(kind):
    model = StructuredSVM(kind(), reg_lambda=0.02, random_state=0, max_iter=200)
    with pytest.warns(UserWarning, match=f"{kind.__name__} .* nothing is proved"):
        quiet(model, X, Y)
    assert not model.exact_ and model.dual_gap_ == model.relative_gap_ == np.inf
    assert not model.converged_ and model.status_ != "converged"
    assert model.lower_bound_ <= exact().objective_  # the outputs were found, that much is true
    assert model.score(X, Y) > 0.5


def test_a_bound_of_what_was_missed_makes_it_true():
    model = StructuredSVM(BoundedGrid(), reg_lambda=0.02, max_iter=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        quiet(model, X, Y)
    assert model.exact_ and np.isfinite(model.dual_gap_)
    best = exact()
    assert model.lower_bound_ <= best.objective_ and best.lower_bound_ <= model.objective_


class Forgetful(Grid):
    """Says that it is exact, and forgets the loss once there are weights."""

    def loss_augmented_inference(self, x, y, w):
        return super().loss_augmented_inference(x, y, w) if not w.any() else self.inference(x, w)


@pytest.mark.parametrize("solver", ["auto", "bcfw", "rsd", "rsd-one-simplex"])
def test_an_inference_that_is_not_what_it_says(solver):
    state = np.random.RandomState(0)
    images, labels = list(state.standard_normal((8, 2, 3, 2))), list(state.randint(0, 2, (8, 2, 3)))
    with pytest.raises(ValueError, match="loss_augmented_inference"):
        StructuredSVM(Forgetful(), solver=solver, reg_lambda=0.01).fit(images, labels)


@pytest.mark.parametrize("size", [1e-300, 1e308])
def test_weights_whose_sum_is_no_reg_lambda(size):
    items, y = ranked_items()
    with pytest.raises(ValueError, match="inverse of the sum of the weights"):
        StructuredSVM(Ranking()).fit(items, y, np.full(len(y), size))


def test_data_that_have_no_hash_start_cold():
    class Kept(np.ndarray):
        def __reduce__(self):
            raise TypeError("not to be pickled")

    items, y = ranked_items()
    items = [x.view(Kept) for x in items]
    model = StructuredSVM(Ranking(), reg_lambda=0.1, warm_start=True, tol=1e-6, random_state=0)
    first = model.fit(items, y).n_iter_
    assert model.fit(items, y).n_iter_ == first > 1
