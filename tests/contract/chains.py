"""Chains as users have them, in all forms, and the reference's view of a fit."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests import reference_chain as reference

DUAL = ["exponentiated", "sdca"]
SOLVERS = ["auto", *DUAL, "lbfgs"]
WEIGHTS = np.random.default_rng(1).integers(1, 5, 30).astype(float)
NAMES = ["f0", "f1", "f2", "f3"]
FORMS = {
    "arrays": lambda X: X,
    "csr": lambda X: [sp.csr_array(x) for x in X],
    "dicts": lambda X: [[dict(zip(NAMES, row.tolist(), strict=True)) for row in x] for x in X],
    "strings": lambda X: [[np.array(NAMES)[row > 0.0].tolist() for row in x] for x in X],
}
LABELS = np.array(["O", "B-NP", "I-NP"])


def named_chains(n=30, longest=7):
    """Labels are strings."""
    X, y = reference.made(n, longest=longest)
    return X, [LABELS[labels].tolist() for labels in y]


def parts(model):
    """The parameters of a fitted model, in the reference's order."""
    return model.coef_, model.transitions_, model.intercept_, model.start_, model.end_


def problem(model, X, y, weights=None):
    """The reference's problem for what a model was fitted on, with labels as they were."""
    reg_lambda = model.reg_lambda
    if reg_lambda is None:
        reg_lambda = 1.0 / (len(X) if weights is None else weights.sum())
    labels = [np.searchsorted(model.classes_, part) for part in y]
    K, l1_ratio = len(model.classes_), model.l1_ratio
    return reference.Model(X, labels, K, reg_lambda, weights, l1_ratio=l1_ratio)


def assert_true_certificate(model, X, y, weights=None, rel=1e-11):
    """The objective is that of the fitted parameters; the bound is below, and their difference.

    ``rel`` is the rounding of log Z, a sum over all tokens, in both of them.
    """
    ours = problem(model, X, y, weights)
    objective = ours.objective(ours.joined(*parts(model)))
    assert model.objective_ == pytest.approx(objective, rel=rel)
    assert model.lower_bound_ <= model.objective_ * (1.0 + 1e-14)
    assert model.dual_gap_ == model.objective_ - model.lower_bound_
