"""warm_start=True with a small max_iter: refits continue where the last one ended."""

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_bundle import (
    SDCACRF,
    BMRMClassifier,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    PragamSVC,
)
from tests.reference_chain import made

MOST = 300
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
TRUE = X @ [1.0, -1.0, 0.5, 0.0] + 0.5 * rng.normal(size=60)
TWO, THREE = (TRUE > 0.0).astype(int), np.digitize(TRUE, [-0.7, 0.7])
WIDE = rng.normal(size=(20, 50))
LONG, LONG_SIGNS = rng.normal(size=(70, 130)), rng.integers(0, 2, 70)
GROUP = {"group": np.repeat(np.arange(12), 5)}
CHAINS = made()
SPARSE_CHAINS = [x * (rng.random(x.shape) < 0.3) for x in CHAINS[0]], CHAINS[1]


def table():
    """Estimator, X, y and what else fit takes."""
    of = {"reg_lambda": 0.1}
    for solver in ("newton", "dual-coordinate", "line-search"):
        for loss in ("hinge", "squared_hinge", "log_loss"):
            yield BMRMClassifier(loss, solver=solver, **of), X, TWO
    for loss in ("exponential", "roc_auc", "fbeta"):
        yield BMRMClassifier(loss, **of), X, TWO
    for regularizer in ("l1", "lp", "entropy", "entropy_simplex"):
        yield BMRMClassifier(regularizer=regularizer, **of), X, TWO
    for loss in ("squared_error", "absolute_error", "huber", "poisson"):
        yield BMRMRegressor(loss, **of), X, np.exp(TRUE) if loss == "poisson" else TRUE
    yield BMRMClassifier("softmax", regularizer="l1", reg_lambda=0.03), X, THREE
    for solver in ("line-search", "cutting-plane"):
        yield BMRMClassifier("multiclass_hinge", solver=solver, **of), X, THREE
        yield BMRMRanker(solver=solver, **of), X, THREE, GROUP
        yield BMRMNoveltyDetector(rho=1.0, solver=solver), X, None
    for regularizer in ("l2", "l1"):
        yield BMRMClassifier(solver="cutting-plane", regularizer=regularizer, **of), X, TWO
    yield BMRMRegressor(solver="cutting-plane", **of), X, TRUE
    yield BMRMClassifier(bundle_size=3, solver="line-search", **of), X, TWO
    yield BMRMClassifier(solver="line-search", **of), WIDE, TWO[:20]  # planes in sample space
    yield BMRMClassifier(reg_lambda=1e-5, tol=1e-4), LONG, LONG_SIGNS  # epochs, then Newton
    yield BMRMClassifier(**of), X, THREE  # a problem per class
    for lipschitz in ("adaptive", "power", 40.0):
        yield PragamSVC(lipschitz=lipschitz, tol=1e-2, **of), X, TWO
    for solver in ("auto", "exponentiated", "sdca", "lbfgs"):
        yield SDCACRF(solver=solver, tol=1e-5, random_state=0), *CHAINS
    yield SDCACRF(reg_lambda=1e-4, random_state=0), *SPARSE_CHAINS  # epochs, then L-BFGS


def name_of(row):
    parameters = row[0].get_params()
    names = "loss", "regularizer", "solver", "lipschitz", "bundle_size", "reg_lambda"
    values = [str(parameters[name]) for name in names if parameters.get(name) is not None]
    return "-".join([type(row[0]).__name__, *values])


def refit(model, X, y, metadata, max_iter):
    """The model after so many refits, or fewer until all problems are solved; their histories."""
    model = clone(model).set_params(warm_start=True, max_iter=max_iter)
    objectives, bounds, spent = [], [], 0
    for _ in range(MOST):
        model.fit(X, y, **metadata)
        objectives.append(model.objective_)
        bounds.append(model.lower_bound_)
        spent = spent + np.max(model.n_iter_)
        if set(np.atleast_1d(model.status_)) == {"converged"}:
            break
    return model, np.array(objectives), np.array(bounds), spent


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("row", list(table()), ids=name_of)
def test_refits_go_on(row):
    """They take the iterations of one long fit; neither objective nor bound gets worse."""
    model, X, y, *metadata = row
    metadata = metadata[0] if metadata else {}
    once = clone(model).set_params(max_iter=10_000).fit(X, y, **metadata)
    for max_iter in (1, 3, 10):
        again, objectives, bounds, spent = refit(model, X, y, metadata, max_iter)
        assert set(np.atleast_1d(again.status_)) == {"converged"}
        assert (np.diff(objectives, axis=0) <= 0.0).all()
        # What is taken off for rounding changes with the point, most with L1 and a large gap.
        assert (np.diff(bounds, axis=0) >= -1e-7 * np.abs(objectives[1:])).all()
        # The exit of a fit looks once more, and chance takes other paths.
        assert spent <= 1.1 * np.max(once.n_iter_) + max_iter + 1
        bound, objective = again.lower_bound_, once.objective_
        assert (np.asarray(bound) <= np.asarray(objective) * (1.0 + 1e-12)).all()
        assert (np.asarray(once.lower_bound_) <= np.asarray(again.objective_) * (1.0 + 1e-12)).all()


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["newton", "line-search"])
def test_refits_of_what_has_stalled(solver):
    """They end as the last one did, and change nothing any more, however many there are."""
    model = BMRMClassifier(solver=solver, reg_lambda=0.1, tol=1e-300, warm_start=True)
    objectives = [model.fit(X[:20], TWO[:20]).objective_ for _ in range(170)]
    assert np.ptp(objectives[-150:]) == 0.0
    assert model.n_iter_ == 1 and model.status_ in ("converged", "stalled")
