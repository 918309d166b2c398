"""Regularizers: values in extended precision, and constraints in a cone program."""

import numpy as np
import scipy.sparse as sp

from tests.reference_cones import halflines
from tests.reference_programme import LONG


class Quadratic:
    """``w' B w / 2``, over the outputs."""

    def __init__(self, B):
        self.B = np.asarray(B, float)
        self.modulus = float(np.linalg.eigvalsh(self.B)[0])  # of strong convexity

    def value(self, W):
        return np.sum((W @ self.B.astype(LONG)) * W) / 2

    def terms(self, W):
        """Sum of the absolute values of what is added up."""
        return np.sum((np.abs(W) @ np.abs(self.B)) * np.abs(W)) / 2

    def variables(self, programme, shape, reg_lambda):
        bend = reg_lambda * sp.kron(sp.identity(shape[0]), self.B)
        return programme.variables(shape[0] * shape[1], bend=bend.toarray())


class L1:
    """``sum_j thresholds_j |w_j| + ridge/2 ||w||^2``, over the outputs."""

    def __init__(self, thresholds=1.0, ridge=0.0):
        self.thresholds, self.ridge = np.asarray(thresholds, float), ridge
        self.modulus = float(ridge)

    def value(self, W):
        return np.sum(self.thresholds * np.abs(W)) + self.ridge * np.sum(W * W) / 2

    terms = value

    def variables(self, programme, shape, reg_lambda):
        p = shape[0] * shape[1]
        w, eye = programme.variables(p, bend=reg_lambda * self.ridge), sp.identity(p)
        costs = np.broadcast_to(self.thresholds, (shape[0], shape[1])).ravel()
        u = programme.variables(p, reg_lambda * costs)
        for sign in (1.0, -1.0):
            programme.require(halflines(p), np.zeros(p), (u, eye), (w, sign * eye))
        return w


class Nonnegative:
    """Another one, with ``w >= 0``."""

    def __init__(self, omega):
        self.omega, self.modulus, self.terms = omega, omega.modulus, omega.terms

    def value(self, W):
        return self.omega.value(W) if (W >= 0).all() else LONG(np.inf)

    def variables(self, programme, shape, reg_lambda):
        w = self.omega.variables(programme, shape, reg_lambda)
        programme.require(halflines(len(w)), np.zeros(len(w)), (w, sp.identity(len(w))))
        return w

    def into_domain(self, W):
        """Rounding of a solver may leave it."""
        return np.maximum(W, 0)
