"""Regularizers: values in extended precision, and constraints in a cone program."""

import numpy as np
import scipy.sparse as sp

from tests.reference_cones import exponential, halflines, zeros
from tests.reference_programme import LONG, into_triples


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


class Entropy:
    """``sum_j (w_j log w_j + 1/e)``, or on the simplex ``sum_j w_j log w_j + log p``."""

    modulus = 0.0

    def __init__(self, simplex=False):
        self.simplex = simplex

    def value(self, W):
        """With ``w = (1 + u) s`` it is ``s ((1 + u) log(1 + u) - u)``, s = 1/e or 1/p."""
        scale = 1 / LONG(W.size) if self.simplex else np.exp(LONG(-1))
        u = W / scale - 1
        with np.errstate(divide="ignore", invalid="ignore"):
            return scale * np.sum(np.where(u > -1, (1 + u) * np.log1p(u), 0) - u)

    def terms(self, W):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.sum(np.where(W > 0, np.abs(W * np.log(W)), 0)) + W.size / 2

    def variables(self, programme, shape, reg_lambda):
        """(-u_j, w_j, 1) in the exponential cone: u >= w log w."""
        p = shape[0] * shape[1]
        w, u = programme.variables(p), programme.variables(p, reg_lambda)
        side = np.tile([0.0, 0.0, 1.0], p)
        programme.require(exponential(p), side, (u, -into_triples(p, 0)), (w, into_triples(p, 1)))
        if self.simplex:
            programme.require(zeros(1), [-1.0], (w, np.ones((1, p))))
        return w

    def into_domain(self, W):
        """Rounding of a solver may leave it."""
        W = np.maximum(W, 0)
        return W / W.sum() if self.simplex else W
