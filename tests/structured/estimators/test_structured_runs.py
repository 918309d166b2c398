"""StructuredSVM: limits, callbacks, Ctrl-C, and an inference that breaks its word."""

import numpy as np
import pytest

from sklearn_bundle import StructuredSVM
from tests.contract.chains import named_chains
from tests.contract.user_models import Grid


@pytest.fixture(scope="module")
def chains():
    return named_chains(12, longest=4)


class Forgetful(Grid):
    """Says that it is exact, and forgets the loss once there are weights."""

    def loss_augmented_inference(self, x, y, w):
        return super().loss_augmented_inference(x, y, w) if not w.any() else self.inference(x, w)


@pytest.mark.parametrize("solver", ["auto", "bcfw", "rsd", "rsd-one-simplex"])
def test_an_inference_that_is_not_what_it_says(solver):
    rng = np.random.RandomState(0)
    X, y = list(rng.standard_normal((8, 2, 3, 2))), list(rng.randint(0, 2, (8, 2, 3)))
    with pytest.raises(ValueError, match="loss_augmented_inference"):
        StructuredSVM(Forgetful(), solver=solver, reg_lambda=0.01, random_state=0).fit(X, y)
