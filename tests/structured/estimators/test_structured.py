"""StructuredSVM: the optimum, and what must not change it; warm starts, oracles that may miss."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Matching, Multiclass, Ontology
from tests.contract.fits import quiet
from tests.contract.user_models import BoundedGrid, Grid, HastyGrid, Ranking
from tests.reference_chain import made

EDGES = [("all", "early"), ("early", 0), ("early", 1), ("all", 2)]
COST = [[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [1.0, 2.0, 0.0]]
rng = np.random.default_rng(0)
CELLS = rng.normal(size=(8, 2, 3, 2))
RANKED = [rng.normal(size=(3, 4)) for _ in range(12)]
DATA = {
    "chain": made(12, 3, 3, 4),
    "rows": tuple(part[::5] for part in load_iris(return_X_y=True)),
    "cells": (
        list(CELLS),
        list((CELLS.sum(axis=3) > 0.5 * rng.normal(size=(8, 2, 3))).astype(int)),
    ),
    "pairs": (list(rng.normal(size=(6, 3, 3, 2))), list(rng.permuted([range(3)] * 6, axis=1))),
    "ranked": (RANKED, [np.argsort(-x @ [1.0, 0.5, 0.0, -1.0]) for x in RANKED]),
}
CASES = {
    "chain": ("chain", "chain"),
    "multiclass": ("multiclass", "rows"),
    "costs": (Multiclass(cost=COST), "rows"),
    "ontology": (Ontology(EDGES), "rows"),
    "cone": (Grid(), "cells"),
    "matching": (Matching(), "pairs"),
    "ranking": (Ranking(), "ranked"),
}


def made_for(case, **parameters):
    """An estimator with its X and y."""
    model, data = CASES[case]
    parameters = {"reg_lambda": 0.1, "random_state": 0, "max_iter": 3000} | parameters
    return StructuredSVM(model, **parameters), *DATA[data]


# ---- the optimum ------------------------------------------------------------------------------


# ---- weights, threads, seeds -------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-300, 1e308])
def test_weights_whose_sum_is_no_reg_lambda(size):
    model, X, y = made_for("ranking", reg_lambda=None)
    with pytest.raises(ValueError, match="inverse of the sum of the weights"):
        model.fit(X, y, np.full(len(y), size))


# ---- warm starts -------------------------------------------------------------------------------


def test_data_that_have_no_hash_start_cold():
    model, X, y = made_for("ranking", warm_start=True, tol=1e-6)

    class Kept(np.ndarray):
        def __reduce__(self):
            raise TypeError("not to be pickled")

    X = [x.view(Kept) for x in X]
    first = model.fit(X, y).n_iter_
    assert model.fit(X, y).n_iter_ == first > 1


# ---- models ------------------------------------------------------------------------------------


def test_an_oracle_that_may_miss_proves_nothing():
    X, y = DATA["cells"]
    model = StructuredSVM(HastyGrid(), reg_lambda=0.02, random_state=0)
    with pytest.warns(UserWarning, match="HastyGrid is not exact .* nothing is proved") as record:
        model.fit(X, y)
    assert len(record) == 1 and record[0].filename == __file__
    assert not model.exact_ and model.dual_gap_ == np.inf and model.status_ == "stalled"
    assert not model.converged_ and model.relative_gap_ == np.inf
    exact = StructuredSVM(Grid(), reg_lambda=0.02, tol=1e-6, max_iter=3000).fit(X, y)
    assert model.lower_bound_ <= exact.objective_  # the outputs were found, that much is true
    assert model.score(X, y) > 0.5


def test_a_bound_of_what_was_missed_makes_it_true():
    X, y = DATA["cells"]
    model = StructuredSVM(BoundedGrid(), reg_lambda=0.02, max_iter=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        quiet(model, X, y)
    assert model.exact_ and np.isfinite(model.dual_gap_)
    exact = StructuredSVM(Grid(), reg_lambda=0.02, tol=1e-6, max_iter=3000).fit(X, y)
    assert model.lower_bound_ <= exact.objective_ and exact.lower_bound_ <= model.objective_


class SeldomBounded(BoundedGrid):
    def upper_bound(self, x, y, w):
        return super().upper_bound(x, y, w) if y[0, 0] else np.inf


def test_a_bound_that_is_not_finite_proves_nothing():
    model = StructuredSVM(SeldomBounded(), random_state=0, max_iter=20)
    with pytest.warns(UserWarning, match="SeldomBounded .* no finite upper_bound"):
        quiet(model, *DATA["cells"])
    assert not model.exact_ and model.dual_gap_ == np.inf
