"""Chains as users have them, in all forms, and the parameters of a fit."""

import numpy as np
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
