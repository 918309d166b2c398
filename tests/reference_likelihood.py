"""Conditional likelihood by enumeration of all outputs, and its optimum by Newton's method.

Nothing of the package is used. Numbers are in extended precision if examples are.
"""

import numpy as np
from scipy.optimize import minimize

from tests.reference_programme import LONG, Optimum, solved


class Likelihood:
    """``P(w) = reg_lambda/2 ||w||^2 + sum_i s_i (log sum_y exp <w, phi(x_i, y)> - <w, phi_i>)``.

    ``examples`` are :class:`~tests.reference_structured.Outputs`, phi_i are the features of the
    true output, and the s_i sum to one.
    """

    def __init__(self, examples, reg_lambda, weights=None):
        weights = np.ones(len(examples)) if weights is None else weights
        self.weights = np.asarray(weights, LONG) / np.sum(np.asarray(weights, LONG))
        self.reg_lambda = reg_lambda
        self.psi = [np.asarray(e.phi - e.phi[e.truth], LONG) for e in examples]
        self.d = self.psi[0].shape[1]

    def losses(self, w):
        """``-log p(y_i | x_i; w)``, the true output's score being 0."""
        scores = [psi @ w for psi in self.psi]
        return np.array([s.max() + np.log(np.sum(np.exp(s - s.max()))) for s in scores])

    def probabilities(self, w):
        scores = [psi @ w for psi in self.psi]
        powers = [np.exp(s - s.max()) for s in scores]
        return [p / p.sum() for p in powers]

    def risk(self, w):
        return self.weights @ self.losses(w)

    def gradient(self, w):
        """Of the risk."""
        means = [p @ psi for p, psi in zip(self.probabilities(w), self.psi, strict=True)]
        return self.weights @ np.array(means)

    def objective(self, w):
        return self.reg_lambda * (w @ w) / 2 + self.risk(w)

    def hessian(self, w):
        """Of the objective."""
        total = self.reg_lambda * np.eye(self.d, dtype=LONG)
        for s, p, psi in zip(self.weights, self.probabilities(w), self.psi, strict=True):
            mean = p @ psi
            total += s * ((psi.T * p) @ psi - np.outer(mean, mean))
        return total

    def slope(self, w):
        """Gradient of the objective."""
        return self.reg_lambda * w + self.gradient(w)

    def minimizer(self):
        """L-BFGS of SciPy, then Newton's steps in extended precision."""

        def both(w):
            w = w.astype(LONG)
            return float(self.objective(w)), self.slope(w).astype(float)

        w = minimize(both, np.zeros(self.d), jac=True, method="L-BFGS-B").x.astype(LONG)
        for _ in range(6):
            w = w - solved(self.hessian(w), self.slope(w))
        return w

    def optimum(self):
        """P that is attained; P is strongly convex, which says how far below the least may be."""
        w = self.minimizer()
        slope = self.slope(w)
        return Optimum(self.objective(w), float(slope @ slope / (2 * self.reg_lambda)), w)
