"""What a fit ends with is as good as the best state on its way."""

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
    StructuredSVM,
    SwapNoveltyDetector,
    SwapSVC,
    SwapSVR,
)
from sklearn_bundle.core import fit
from sklearn_bundle.core.contract import run
from sklearn_bundle.models import Chain, Multiclass
from tests.fits import quiet

# Of the objective: states of kernel machines are in single precision until confirmed. The linear
# kernel's values here are of size 1e3, and its sums cancel most.
SINGLE, LINEAR = 1e-3, 5e-3
ROUNDED = 1e-9
FARTHEST = 1e-7  # of the objective: what confirmation takes off, seen up to 4.5e-8
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)) * [1.0, 3.0, 0.1, 10.0]
TARGET = X @ [1.0, 0.3, -2.0, 0.1] + RNG.normal(size=60)
LABELS = (TARGET > 0).astype(int)
CLASSES = np.digitize(TARGET, [-1.0, 1.0])
CHAINS = [X[i : i + 3] for i in range(0, 60, 3)], [CLASSES[i : i + 3] for i in range(0, 60, 3)]
WEAK = {"reg_lambda": 1e-4}


def cases():
    for loss in ("hinge", "squared_hinge", "log_loss"):
        for solver in ("auto", "line-search", "cutting-plane", "newton", "dual-coordinate"):
            yield BMRMClassifier(loss, solver=solver, **WEAK), X, LABELS
    for solver in ("auto", "lbfgs"):
        yield BMRMClassifier("log_loss", solver=solver, **WEAK), X, LABELS
    for omega in ("l1", "elasticnet", "entropy"):
        for loss in ("hinge", "log_loss"):
            yield BMRMClassifier(loss, regularizer=omega, **WEAK), X, LABELS
    for loss in ("softmax", "multiclass_hinge"):
        for omega in ("l2", "l1"):
            yield BMRMClassifier(loss, regularizer=omega, **WEAK), X, CLASSES
    for loss in ("roc_auc", "fbeta"):
        yield BMRMClassifier(loss, **WEAK), X, LABELS
    for loss in ("squared_error", "absolute_error", "huber", "epsilon_insensitive", "quantile"):
        for omega in ("l2", "l1"):
            yield BMRMRegressor(loss, regularizer=omega, **WEAK), X, TARGET
    yield BMRMRanker("ordinal", **WEAK), X, CLASSES
    yield BMRMNoveltyDetector(**WEAK), X + 5.0, None
    yield PragamSVC(**WEAK), X, LABELS
    for solver in ("auto", "decomposition", "swap-2o", "swap", "mfw", "cvm"):
        for kernel in ({}, {"kernel": "poly", "gamma": 0.1}, {"kernel": "linear"}):
            yield SwapSVC(100.0, solver=solver, random_state=0, **kernel), X, LABELS
    yield SwapSVC(100.0, active_set=20, random_state=0), X, LABELS
    for kind in (SwapSVR, SwapNoveltyDetector):
        for kernel in ({}, {"kernel": "poly", "gamma": 0.1}, {"kernel": "linear"}):
            yield kind(100.0, random_state=0, **kernel), X, TARGET
    for solver in ("auto", "sdca", "exponentiated", "lbfgs"):
        yield SDCACRF(reg_lambda=1e-3, solver=solver, random_state=0), *CHAINS
    for solver in ("auto", "bcfw", "rsd", "rsd-one-simplex", "rsd-working-sets", "bundle"):
        yield StructuredSVM(Chain(), reg_lambda=1e-3, solver=solver, random_state=0), *CHAINS
        yield (
            StructuredSVM(Multiclass(), reg_lambda=1e-3, solver=solver, random_state=0),
            X,
            CLASSES,
        )


CASES = list(cases())


def name_of(model):
    return f"{model!r}".replace("\n", "").replace(" ", "")


def watched(monkeypatch):
    """What every run goes through: its states as they are, and its result."""
    runs = []

    def recorded(solver, *, observe=None, **limits):
        states = []

        def seen(n_iter, state):
            states.append((state.primal, state.lower_bound))
            return None if observe is None else observe(n_iter, state)

        result = run(solver, observe=seen, **limits)
        runs.append((np.array(states), result))
        return result

    monkeypatch.setattr(fit, "run", recorded)
    return runs


@pytest.mark.wide
@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda k: name_of(CASES[k][0]))
def test_the_best_state_is_kept(case, monkeypatch):
    """At limits on the way, and where the fit ends by itself; for every tol."""
    model, data, y = CASES[case]
    runs = watched(monkeypatch)
    slack = SINGLE if type(model).__name__.startswith("Swap") else ROUNDED
    slack = LINEAR if getattr(model, "kernel", None) == "linear" else slack
    kernel = isinstance(model, SwapSVC)
    for tol in (1e-2, 1e-9):
        for most in (300, 3000) if kernel else (2, 15):
            quiet(clone(model).set_params(tol=tol, max_iter=most), data, y)
    for states, result in runs:
        size = slack * abs(result.primal)
        assert result.primal <= states[:, 0].min() + size
        # L1 at reg_lambda 1e-4: the farthest minimizer is 1e4 away, times the gradient's rounding.
        size = max(size, FARTHEST * abs(result.primal)) if "l1" in str(model) else size
        assert result.lower_bound >= states[:, 1].max() - size
