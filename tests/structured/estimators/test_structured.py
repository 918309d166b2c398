"""StructuredSVM: the optimum, and what must not change it; warm starts, oracles that may miss."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris

from sklearn_bundle import BMRMClassifier, StructuredSVM
from sklearn_bundle.models import Matching, Multiclass, Ontology, StructuredModel
from tests.contract.fits import quiet
from tests.contract.judge import judge
from tests.contract.user_models import BoundedGrid, Grid, HastyGrid, Ranking
from tests.reference_chain import made

SOLVERS = ["auto", "bcfw", "rsd", "rsd-one-simplex", "rsd-working-sets", "bundle"]
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
every_case = pytest.mark.parametrize("case", CASES)


def made_for(case, **parameters):
    """An estimator with its X and y."""
    model, data = CASES[case]
    parameters = {"reg_lambda": 0.1, "random_state": 0, "max_iter": 3000} | parameters
    return StructuredSVM(model, **parameters), *DATA[data]


# ---- the optimum ------------------------------------------------------------------------------


@pytest.mark.matrix
@every_case
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("weighted", [False, True])
def test_certificate_against_enumeration(case, solver, loss, weighted):
    if case == "cone" and solver == "bundle":
        pytest.skip("refused")
    model, X, y = made_for(case, solver=solver, loss=loss, tol=1e-4)
    weights = np.arange(len(y)) % 3 + 0.5 if weighted else None
    model.fit(X, y, weights)
    assert model.status_ == "converged" and model.exact_
    judge(model, X, y, weights)


@pytest.mark.parametrize("model, loss", [
    (Multiclass(cost=COST), {"loss": "multiclass_hinge", "cost": COST}),
    (Ontology(EDGES), {"loss": "ontology", "edges": EDGES}),
])  # fmt: skip
def test_the_optimum_of_another_estimator(model, loss):
    """The joint losses of BMRMClassifier without an intercept."""
    X, y = load_iris(return_X_y=True)
    ours = StructuredSVM(model, reg_lambda=0.1, tol=1e-8, random_state=0, max_iter=3000).fit(X, y)
    theirs = BMRMClassifier(**loss, reg_lambda=0.1, tol=1e-8, fit_intercept=False).fit(X, y)
    assert ours.lower_bound_ <= theirs.objective_ and theirs.lower_bound_ <= ours.objective_
    if isinstance(model, Multiclass):
        gaps = ours.dual_gap_ + theirs.dual_gap_
        assert np.linalg.norm(ours.coef_ - theirs.coef_) <= 2.0 * np.sqrt(2.0 * gaps / 0.1)


def test_chains_of_length_one_are_classes():
    X, y = DATA["rows"]
    given = {"reg_lambda": 0.1, "tol": 1e-9, "random_state": 0, "max_iter": 3000}
    chain = StructuredSVM("chain", **given).set_params(model="chain").fit(X, y)
    biased = StructuredSVM("multiclass", **given).fit(np.c_[X, np.ones((len(X), 3))], y)
    assert chain.objective_ == pytest.approx(biased.objective_, rel=2e-9)
    assert_allclose(chain.coef_, biased.coef_[:, :4], atol=1e-3)
    for part in (chain.intercept_, chain.start_, chain.end_):
        assert_allclose(part, biased.coef_[:, 4], atol=1e-3)
    assert_array_equal(chain.predict(X), biased.predict(np.c_[X, np.ones((len(X), 3))]))


def test_history_counts_oracle_calls():
    model, X, y = made_for("chain", tol=1e-5)
    h = model.fit(X, y).history_
    assert h.dtype.names[:6] == (
        *("iteration", "seconds", "objective", "lower_bound", "passes", "oracle_calls"),
    )
    assert (h["passes"] == h["oracle_calls"] // len(X)).all() and (np.diff(h["passes"]) >= 0).all()
    assert h["oracle_calls"][0] >= len(X) and h["iteration"][-1] == model.n_iter_


# ---- weights, threads, seeds -------------------------------------------------------------------


@pytest.mark.matrix
@every_case
@pytest.mark.parametrize("reg_lambda", [None, 0.1])
def test_a_weight_is_a_number_of_repetitions(case, reg_lambda):
    """Zero is a missing example. Each bound is one of both problems, as they are the same."""
    model, X, y = made_for(case, reg_lambda=reg_lambda, tol=1e-4)
    times = np.arange(len(y)) % 3
    again = np.repeat(np.arange(len(y)), times)
    weighted = clone(model).fit(X, y, times)
    repeated = clone(model).fit([X[i] for i in again], [y[i] for i in again])
    assert weighted.lower_bound_ <= repeated.objective_ * (1.0 + 1e-12)
    assert repeated.lower_bound_ <= weighted.objective_ * (1.0 + 1e-12)
    assert weighted.score(X, y, times) == pytest.approx(
        weighted.score([X[i] for i in again], [y[i] for i in again])
    )


@every_case
def test_default_reg_lambda_is_one_over_the_sum_of_the_weights(case):
    model, X, y = made_for(case, reg_lambda=None)
    weights = np.arange(len(y)) % 3 + 1.0
    given = clone(model).set_params(reg_lambda=1.0 / weights.sum())
    assert_array_equal(model.fit(X, y, weights).w_, given.fit(X, y, weights).w_)


@pytest.mark.parametrize("size", [1e-300, 1e308])
def test_the_size_of_the_weights_does_not_matter(size):
    model, X, y = made_for("ranking")
    expected = clone(model).fit(X, y)
    model.fit(X, y, np.full(len(y), size))
    assert model.objective_ == pytest.approx(expected.objective_, rel=2e-3)
    assert model.score(X, y, np.full(len(y), size)) == pytest.approx(model.score(X, y))


@pytest.mark.parametrize("size", [1e-300, 1e308])
def test_weights_whose_sum_is_no_reg_lambda(size):
    model, X, y = made_for("ranking", reg_lambda=None)
    with pytest.raises(ValueError, match="inverse of the sum of the weights"):
        model.fit(X, y, np.full(len(y), size))


@every_case
def test_threads_change_no_bit(case):
    model, X, y = made_for(case)
    alone, together = clone(model).fit(X, y), clone(model).set_params(n_jobs=2).fit(X, y)
    assert_array_equal(alone.w_, together.w_)
    assert alone.lower_bound_ == together.lower_bound_
    assert_array_equal(
        np.concatenate(alone.predict(X), None), np.concatenate(together.predict(X), None)
    )


@pytest.mark.parametrize("solver", SOLVERS)
def test_equal_seeds_give_equal_bits(solver):
    model, X, y = made_for("chain", solver=solver)
    one, two = (clone(model).fit(X, y) for _ in range(2))
    assert_array_equal(one.w_, two.w_)
    assert (one.objective_, one.lower_bound_) == (two.objective_, two.lower_bound_)


# ---- warm starts -------------------------------------------------------------------------------


@pytest.mark.matrix
@every_case
@pytest.mark.parametrize("solver", SOLVERS)
def test_warm_start(case, solver):
    if case == "cone" and solver == "bundle":
        pytest.skip("refused")
    model, X, y = made_for(case, solver=solver, warm_start=True, tol=1e-3)
    model.fit(X, y)
    assert model.fit(X, y).n_iter_ == 1
    model.set_params(reg_lambda=0.09).fit(X, y)
    assert model.status_ == "converged"
    cold = clone(model).fit(X, y).history_["oracle_calls"][-1]
    assert model.history_["oracle_calls"][-1] <= cold
    judge(model, X, y)
    model.set_params(tol=1e-6).fit(X, y)
    assert model.dual_gap_ <= 1e-6 * model.objective_


@pytest.mark.wide
@pytest.mark.parametrize(
    "change",
    [{"loss": "squared_hinge"}, {"scaling": "slack"}, {"model__decay": 0.4}, "X", "y", "weights"],
    ids=str,
)
def test_warm_start_only_on_the_same_problem(change):
    model, X, y = made_for("ranking", warm_start=True, tol=1e-6)
    weights = None
    model.fit(X, y)
    if change == "X":
        X = [X[0] + 1e-9, *X[1:]]
    elif change == "y":
        y = [y[0][::-1], *y[1:]]
    elif change == "weights":
        weights = np.arange(1.0, 1.0 + len(y))
    else:
        model.set_params(**change)
    cold = clone(model).fit(X, y, weights)
    model.fit(X, y, weights)
    assert model.n_iter_ == cold.n_iter_ and model.objective_ == cold.objective_


def test_data_that_have_no_hash_start_cold():
    model, X, y = made_for("ranking", warm_start=True, tol=1e-6)

    class Kept(np.ndarray):
        def __reduce__(self):
            raise TypeError("not to be pickled")

    X = [x.view(Kept) for x in X]
    first = model.fit(X, y).n_iter_
    assert model.fit(X, y).n_iter_ == first > 1


# ---- models ------------------------------------------------------------------------------------


@every_case
def test_fit_works_on_a_clone(case):
    model, X, y = made_for(case)
    given = model.model
    before = dict(vars(given)) if isinstance(given, StructuredModel) else None
    model.fit(X, y)
    assert model.model is given and model.model_ is not given
    if before is not None:
        assert vars(given) == before and type(model.model_) is type(given)


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


def test_cutting_planes_refuse_a_cone():
    with pytest.raises(ValueError, match=r"'bundle' does not .*Grid.nonnegative.*solver='auto'"):
        StructuredSVM(Grid(), solver="bundle").fit(*DATA["cells"])
