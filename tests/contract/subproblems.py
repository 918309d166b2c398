"""The subproblems of a fit, in the reference's terms: objectives, optima, rounding.

Each subproblem has its fitted ``point``, ``objective(point)`` in extended precision, ``rounding``,
the largest rounding error of the objective's sums in float64 at that point, ``slack``, how far a
bound may lie above the optimum by rounding, ``working``, what is added to it before a run is
confirmed, ``optimum()`` and ``dual(bound)``: whether the dual point has this bound.
"""

import copy
from itertools import combinations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from sklearn_bundle import (
    SDCACRF,
    SDCACRFCV,
    StructuredSVM,
    SwapNoveltyDetector,
    SwapSVC,
    SwapSVCCV,
    SwapSVR,
    SwapSVRCV,
)
from tests import reference_chain
from tests.contract.subproblems_linear import linear_models, merged_weights
from tests.contract.subproblems_structured import Enumerated, EnumeratedLikelihood
from tests.reference_kernel import Machine, Terms, kernel_values
from tests.reference_programme import EPS, LONG, Optimum


def subproblems(model, X, y=None, sample_weight=None, group=None):
    """What the model was fitted on, in the reference's terms."""
    if isinstance(model, SDCACRF | SDCACRFCV):
        return [Chains(model, X, y, sample_weight)]
    if isinstance(model, StructuredSVM):
        kind = EnumeratedLikelihood if model.loss == "log" else Enumerated
        return [kind(model, X, y, sample_weight)]
    dense = X.toarray() if sp.issparse(X) else np.asarray(X)
    if isinstance(model, SwapSVR | SwapSVRCV | SwapNoveltyDetector):
        return [_machine_of_all(model, dense, y, sample_weight)]
    if isinstance(model, SwapSVC | SwapSVCCV):
        return _kernel_machines(model, dense, np.asarray(y), sample_weight)
    return linear_models(model, dense, y, sample_weight, group)


# ---- kernel machines --------------------------------------------------------------------------


def dense_coef(model):
    """``dual_coef_``, which is sparse if X was."""
    return model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_


def _cost_of(model):
    """C, or what a search has chosen."""
    return model.C_ if hasattr(model, "C_") else model.C


def _kernel_machines(model, X, y, sample_weight):
    C = _cost_of(model) * merged_weights(model, len(y), y, sample_weight)
    labels = np.searchsorted(model.classes_, y)
    n_classes, place = len(model.classes_), np.full(len(y), -1)
    place[model.support_] = np.arange(len(model.support_))
    dual_coef = np.pad(dense_coef(model), ((0, 0), (0, 1)))  # the last for what is no support
    out = []
    for k, (i, j) in enumerate(combinations(range(n_classes), 2)):
        rows = np.flatnonzero(((labels == i) | (labels == j)) & (C > 0))
        positive = j if n_classes == 2 else i
        signs = np.where(labels[rows] == positive, LONG(1), LONG(-1))
        line = np.where(labels[rows] == i, j - 1, i) if n_classes > 2 else np.zeros(len(rows), int)
        coef = dual_coef[line, place[rows]].astype(LONG)
        assert (coef * signs >= 0).all(), "a dual variable of the wrong sign"
        b = model.intercept_[k]
        hinge = getattr(model, "loss", "squared_hinge") == "hinge"
        most = C[rows] if hinge else np.full(len(rows), np.inf)
        ends = np.where(signs < 0, -most, 0.0), np.where(signs > 0, most, 0.0)
        terms = Terms(signs, *ends, 0 * C[rows] if hinge else 1 / C[rows], s=np.inf if hinge else 1)
        out.append(_machine(model, X, rows, terms, coef, b))
        rounding = len(rows) * EPS * np.abs(coef).sum()
        assert hinge or abs(b - coef.sum()) <= rounding, "intercept_ is not the sum"
    return out


def _machine(model, X, rows, terms, coef, b):
    given = isinstance(model.kernel, str) and model.kernel == "precomputed"
    points = X[np.ix_(rows, rows)] if given else X[rows]
    K, sizes = kernel_values(model.kernel, points, model.gamma_, model.coef0, model.degree)
    machine = Machine(K, sizes, terms, coef, b)
    machine.rows = rows  # of X, which it is about
    return machine


def _machine_of_all(model, X, y, sample_weight):
    """SwapSVR, or SwapNoveltyDetector: its target is 1, and only scores below cost.

    With a free intercept the latter's target is 0, and nu the share of the weights in the total.
    """
    C = _cost_of(model) * merged_weights(model, len(X), y, sample_weight)
    rows = np.flatnonzero(C > 0)
    C, coef = C[rows], np.zeros(len(X), LONG)
    coef[model.support_] = dense_coef(model)[0]
    zeros, infinite = np.zeros(len(rows), LONG), np.full(len(rows), np.inf)
    if getattr(model, "nu", None) is not None:
        weights = C / model.C
        terms = Terms(zeros, zeros, weights, zeros, total=LONG(model.nu) * weights.sum())
        return _machine(model, X, rows, terms, coef[rows], -model.offset_)
    if not hasattr(model, "epsilon_"):
        terms = Terms(zeros + 1, zeros, infinite, 1 / C, s=0)
        return _machine(model, X, rows, terms, coef[rows], 0.0)
    target, width = np.asarray(y, LONG)[rows], float(model.epsilon_)
    if getattr(model, "loss", "") == "epsilon_insensitive":
        terms = Terms(target, -C, C, zeros, width)
    else:
        terms = Terms(target, -infinite, infinite, 1 / C, width)
    return _machine(model, X, rows, terms, coef[rows], model.intercept_[0])


# ---- chains -----------------------------------------------------------------------------------


PARAMETERS = "coef_", "transitions_", "intercept_", "start_", "end_"


class Chains(reference_chain.Model):
    """SDCACRF on dense features; a 2-D X is chains of length one. The reference's letters."""

    working = 0.0

    def __init__(self, model, X, y, sample_weight):
        if not isinstance(X, list):
            X = X.toarray() if sp.issparse(X) else np.asarray(X)
            X, y = [row[None] for row in X], [[label] for label in y]
        X = [x.toarray() if sp.issparse(x) else np.asarray(x) for x in X]
        weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, float)
        kept = np.flatnonzero(weights)  # labels that only others have are no classes
        X, weights = [X[i] for i in kept], weights[kept]
        labels = [np.searchsorted(model.classes_, y[i]) for i in kept]
        searched = getattr(model, "reg_lambda_", None)
        reg_lambda = searched or model.reg_lambda or 1.0 / weights.sum()
        K = len(model.classes_)
        l1_ratio = model.l1_ratio
        super().__init__(X, labels, K, reg_lambda, weights, model.fit_intercept, l1_ratio=l1_ratio)
        parts = [getattr(model, name) for name in PARAMETERS]
        assert self.intercept or not any(part.any() for part in parts[2:])
        self.point = self.joined(*(np.asarray(part, LONG) for part in parts))
        # What rounding adds to bounds is taken off them: they are held to the rounding here alone.
        self.rounding = self.slack = self._rounding(self.point)

    def objective(self, w):
        w, value = np.asarray(w, LONG), LONG(0)
        for i, s in enumerate(self.weights):
            scores, transitions = self._scores(i, w)
            total = reference_chain.totals(scores, transitions, self.y[i][None])[0]
            log_z = reference_chain.logsumexp(
                reference_chain.forward_values(scores, transitions)[-1]
            )
            value += LONG(s) * (log_z - total)
        return LONG(self.l1) * np.abs(w).sum() + self.ridge * (w @ w) / 2 + value

    def _scores(self, i, w):
        coef, transitions, intercept, start, end = self.parts(w)
        scores = self.X[i].astype(LONG) @ coef.T + intercept
        scores[0] += start
        scores[-1] += end
        return scores, transitions

    def _rounding(self, w):
        """Of scores, d + 3 terms a token; of log Z and the true score, sums over the tokens."""
        sizes = 0.0
        coef, transitions, *biases = (np.abs(part) for part in self.parts(w))
        token = sum(part.max() for part in biases) + transitions.max(initial=0.0)
        for x, s in zip(self.X, self.weights, strict=True):
            highest = (np.abs(x) @ coef.T).max(axis=1) + token + np.log(self.K)
            sizes += s * (2 * (self.d + 3) * highest.sum() + len(x) * highest.sum())
        penalty = self.l1 * np.abs(w).sum() + self.ridge * (w @ w)
        return float(EPS * (sizes + (w.size + 2) * penalty))

    def optimum(self):
        """By scipy, in units of the features.

        Strong convexity says how far below the optimum may be, from the gradient or, with L1, the
        least subgradient.
        """
        if self.l1:
            w = super().optimum()
            _, gradient = self.objective_and_gradient(w)
            inside = np.clip(-gradient, -self.l1, self.l1)
            gradient = gradient + np.where(w == 0.0, inside, self.l1 * np.sign(w))
            return Optimum(self.objective(w), float(gradient @ gradient / (2.0 * self.ridge)), w)
        widths = np.abs(np.concatenate(self.X)).max(axis=0)
        coef = np.tile(1.0 / np.maximum(widths, 1.0), self.K)
        units = np.r_[coef, np.ones(self.size - len(coef))]

        def scaled(v):
            value, gradient = self.objective_and_gradient(units * v)
            return value, units * gradient

        limits = {"maxiter": 400, "gtol": 1e-11}
        v = minimize(scaled, np.zeros(self.size), jac=True, method="BFGS", options=limits).x
        _, gradient = self.objective_and_gradient(units * v)
        error = gradient @ gradient / (2.0 * self.reg_lambda)
        return Optimum(self.objective(units * v), float(error), units * v)

    @property
    def modulus(self):
        """Of strong convexity."""
        return self.ridge

    def at(self, model, w):
        """The fitted model at another w."""
        model = copy.copy(model)
        parts = self.parts(np.asarray(w, float))
        for name, part in zip(PARAMETERS, parts, strict=True):
            setattr(model, name, part)
        return model

    def dual(self, bound):
        """The dual point is not exposed."""
        return True, ""
