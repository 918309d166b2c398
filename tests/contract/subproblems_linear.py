"""The subproblems of linear models, in the reference's terms: see ``subproblems``."""

import numpy as np
import scipy.sparse as sp

from tests import reference_measures
from tests import reference_programme as programmes
from tests import reference_regularizers as regularizers
from tests.contract.optimum_bounds import linear_scores
from tests.reference_digits import Digits
from tests.reference_programme import EPS, LONG, LONG_EPS, Optimum

CLARABEL = 1e-7  # relative, asked for 1e-12: what it misses on power and exponential cones


def merged_weights(model, n, y, sample_weight):
    """Sample weight times class weight; "balanced" counts the sample weights."""
    weights = np.ones(n, LONG) if sample_weight is None else np.array(sample_weight, LONG)
    given = getattr(model, "class_weight", None)
    if given is None:
        return weights
    used = weights > 0  # no other rows make a class
    classes, labels = np.unique(np.asarray(y)[used], return_inverse=True)
    if given == "balanced":
        totals = np.bincount(labels, weights[used].astype(float))
        factors = float(weights.sum()) / (len(classes) * totals)
    else:
        factors = np.array([given.get(label, 1.0) for label in classes.tolist()])
    weights[used] *= factors[labels]
    return weights


class Linear:
    """``reg_lambda Omega(W) + risk(X W' + b)``, a row of W and an entry of b for each output."""

    working = 0.0

    def __init__(self, X, risk, omega, reg_lambda, point, free):
        self.X, self.risk, self.omega, self.free = X.astype(LONG), risk, omega, free
        self.reg_lambda = float(reg_lambda)
        W, b = point
        W = np.atleast_2d(np.asarray(W, LONG))
        self.point = W, np.broadcast_to(np.asarray(b, LONG), len(W))
        self.rounding = self._rounding(*self.point)
        # What rounding adds is taken off; this is what the judge itself does not know.
        self.slack = 4 * EPS * abs(float(self.objective(self.point))) + self.unknown(*self.point)

    def objective(self, point):
        W, b = point
        return self.reg_lambda * self.omega.value(W) + self.risk.value((self.X @ W.T + b).ravel())

    @property
    def size(self):
        """Of the terms: of the objective, of the risk without features, and of the scores."""
        W, b = self.point
        terms = np.abs(self.X) @ np.abs(W).T + np.abs(b)
        nothing = self.reg_lambda * self.omega.value(0 * W + 1 / W.size)
        nothing += self.risk.value(np.ravel(0 * terms))
        return float(self.objective(self.point) + abs(nothing) + terms.max())

    def _rounding(self, W, b):
        """Scores of d + 2 terms, then a sum over the samples and one over the weights."""
        (n, d), scores = self.X.shape, self.X @ W.T + b
        sizes = (d + 2) * EPS * (np.abs(self.X) @ np.abs(W).T + np.abs(b))
        moved = self.risk.moved(scores.ravel(), sizes.ravel())
        penalty = (W.size + 2) * EPS * self.reg_lambda * self.omega.terms(W)
        return float(moved + (n + 2) * EPS * abs(self.risk.value(scores.ravel())) + penalty)

    def unknown(self, W, b):
        """Rounding of the objective in long double."""
        return LONG_EPS / EPS * self._rounding(W, b)

    def optimum(self):
        """By the cone programme, in units of the features, centered if the intercept is free."""
        K, (n, d) = len(self.point[0]), self.X.shape
        center = self.X.mean(axis=0) if self.free else np.zeros(d, LONG)
        programme = programmes.Programme()
        w = self.omega.variables(programme, (K, d), self.reg_lambda)
        centered = np.asarray(self.X - center, float)
        widths = np.abs(centered).max(axis=0)
        programme.measure(w, np.tile(1.0 / np.where(widths > 0.0, widths, 1.0), K))
        rows = sp.kron(sp.identity(K), centered).tocsr()
        scores = [(w, rows[np.arange(K * n).reshape(K, n).T.ravel()])]  # by samples
        if self.free:
            b = programme.variables(K)
            scores.append((b, sp.kron(np.ones((n, 1)), sp.identity(K))))
        self.risk.require(programme, scores)
        nothing = self.objective((np.full((K, d), LONG(1) / d / K), np.zeros(K, LONG)))
        size = float(max(abs(self.objective(self.point)), 1e-6 * abs(nothing)))
        size = size or 1.0  # all losses may be 0
        x = programme.solve(size).astype(LONG)
        W = x[w].reshape(K, d)
        if hasattr(self.omega, "into_domain"):
            W = self.omega.into_domain(W)
        point = W, x[b] - W @ center if self.free else np.zeros(K, LONG)
        if self.is_smooth:
            return self._proved(*point)
        value = self.objective(point)
        return Optimum(value, CLARABEL * float(abs(value)), point)

    def scores(self, best, off):
        """Between what the optimum's scores are, its w known to ``off``."""
        return linear_scores(self, best, off)

    @property
    def modulus(self):
        """Of strong convexity in w."""
        return self.reg_lambda * self.omega.modulus

    @property
    def is_smooth(self):
        """And known to all digits: a loss of one score, and a quadratic regularizer."""
        omega = isinstance(self.omega, regularizers.Quadratic) and self.omega.modulus > 0.0
        return omega and hasattr(self.risk, "derivatives") and len(self.point[0]) == 1

    def _proved(self, W, b):
        """From a point near the optimum, which may be no number at all."""
        digits = Digits(self.X, self.risk, self.omega.B, self.reg_lambda, self.free)
        found = digits.optimum(W[0], b)
        point = found.w[None], np.array([found.b])
        error = found.missing + self.unknown(*point)
        return Optimum(self.objective(point), error, point, found.apart, found.shift)

    def dual(self, bound):
        """The dual point is not exposed."""
        return True, ""


class HingeDual(Linear):
    """PragamSVC, which has the dual point of its bound: D there is the bound."""

    def expose(self, signed, y, weights):
        self.signed, self.y, self.weights = signed.astype(LONG), y, weights

    def dual(self, bound):
        alpha, n = self.signed * self.y, len(self.y)
        inside = (alpha >= 0).all() and (alpha <= self.weights * (1 + 4 * EPS)).all()
        balance = n * EPS * np.abs(self.signed).sum()
        if not inside or (self.free and abs(self.signed.sum()) > balance):
            return False, "dual_coef_ is no dual point"
        centered = self.X - self.X.mean(axis=0) if self.free else self.X
        w = self.signed @ centered / self.reg_lambda
        value = alpha.sum() - self.reg_lambda * (w @ w) / 2
        # Rounding takes off what it may have added; test_pragam.py sees that this is not more.
        holds = bound <= value * (1 + 4 * EPS) or bound == 0.0
        return holds, f"lower_bound_ {bound} is above {value}, that of dual_coef_"


def _omega(model, d):
    return _reference(getattr(model, "regularizer", "l2"), model, d)


def _reference(given, model, d):
    name = (given if isinstance(given, str) else type(given).__name__).lower()
    if name == "nonnegative":
        return regularizers.Nonnegative(_reference(given.omega, model, d))
    if name == "quadratic":
        B = given.B.toarray() if sp.issparse(given.B) else np.asarray(given.B, float)
        return regularizers.Quadratic(np.diag(B) if B.ndim == 1 else B)
    if name == "weightedl1":
        return regularizers.L1(given.weights)
    if name == "elasticnet":
        ratio = getattr(given, "l1_ratio", getattr(model, "l1_ratio", 0.5))
        return regularizers.L1(ratio, 1.0 - ratio)
    return {"l2": lambda: regularizers.Quadratic(np.eye(d)), "l1": regularizers.L1}[name]()


def fitted(model, name, k=0):
    """What the k-th subproblem has for a parameter whose default depends on the data."""
    value = getattr(model, f"{name}_", None)
    value = getattr(model, name) if value is None else value
    return float(np.ravel(value)[k if np.ndim(value) else 0])


def linear_models(model, X, y, sample_weight, group):
    """A subproblem for each of the estimator's certificates."""
    omega = _omega(model, X.shape[1])
    free = getattr(model, "fit_intercept", False)
    loss = getattr(model, "loss", "hinge")  # PragamSVC has no other
    loss = loss if isinstance(loss, str) else type(loss).__name__
    free = free and loss != "roc_auc"  # which has no intercept
    weights = merged_weights(model, len(X), y, sample_weight)
    weights = weights / weights.sum()
    points = np.atleast_2d(model.coef_), np.ravel(getattr(model, "intercept_", 0.0))

    def linear(risk, point, kind=Linear, k=0):
        return kind(X, risk, omega, fitted(model, "reg_lambda", k), point, free)

    if loss == "nu_novelty":
        tail = programmes.Tail(weights, model.nu)
        return [linear(tail, (points[0], 0.0))]
    y = np.asarray(y)
    if loss in _RANKED:
        s = np.ones(len(X), LONG) if sample_weight is None else np.asarray(sample_weight, LONG)
        return [linear(_RANKED[loss](model, y, s, group), (points[0], 0.0))]
    if loss in _REGRESSION:
        y, risk = y.astype(LONG), _REGRESSION[loss]
        if y.ndim == 1 or loss == "squared_error":
            return [linear(risk(model, weights, y), points)]
        columns, out = zip(y.T, *points, strict=True), []
        for k, (column, w, b) in enumerate(columns):
            which = (k,) if loss in _OF_SPREAD else ()
            out.append(linear(risk(model, weights, column, *which), (w, b), k=k))
        return out
    # Labels of weight 0 alone are no classes of the model: any class will do for these rows.
    labels = np.minimum(np.searchsorted(model.classes_, y), len(model.classes_) - 1)
    if loss in ("softmax", "multiclass_hinge"):
        risk = _joint(model, weights, labels)
        if len(model.classes_) == 2:  # what the model has is the difference of the two
            points = [np.concatenate([-0.5 * part, 0.5 * part]) for part in points]
        return [linear(risk, points)]
    positives = [1] if len(model.classes_) == 2 else range(len(model.classes_))
    out = []
    for row, (k, w, b) in enumerate(zip(positives, *points, strict=True)):
        signs = np.where(labels == k, LONG(1), LONG(-1))
        kind = HingeDual if hasattr(model, "dual_coef_") else Linear
        out.append(linear(_BINARY[loss](model, weights, signs), (w, b), kind))
        if kind is HingeDual:
            signed = np.zeros(len(X))
            signed[model.support_] = model.dual_coef_[row]
            out[-1].expose(signed, signs, weights)
    return out


def _below(weights, y, margin):
    """``sum_i s_i max(0, margin - y_i f_i)``."""
    n = len(y)
    rows = sp.vstack([sp.diags(-np.asarray(y, float)), sp.csr_matrix((n, n))])
    offsets = np.r_[np.full(n, float(margin)), np.zeros(n)]
    return programmes.Pieces(weights, np.tile(np.arange(n), 2), rows, offsets)


def _lines(weights, y, pieces):
    """``sum_i s_i max over (slope, constant) of slope (f_i - y_i) + constant``."""
    n, y = len(y), np.asarray(y)
    rows = sp.vstack([slope * sp.identity(n) for slope, _ in pieces])
    offsets = np.concatenate([constant - LONG(slope) * y for slope, constant in pieces])
    return programmes.Pieces(weights, np.tile(np.arange(n), len(pieces)), rows, offsets)


def _blocks(blocks):
    """From what tests/reference_measures.py makes."""
    owner = np.repeat(np.arange(len(blocks)), [len(c) for _, _, c in blocks])
    rows, offsets = np.vstack([G for _, G, _ in blocks]), np.concatenate([c for *_, c in blocks])
    return programmes.Pieces([share for share, _, _ in blocks], owner, rows, offsets)


def _roc_auc(model, weights, y):
    return _blocks(reference_measures.roc_auc(y, weights))


def _absolute_margin(model, weights, y):
    """``|1 - y f|``."""
    n, signs = len(y), np.asarray(y, float)
    rows = sp.vstack([sp.diags(-signs), sp.diags(signs)])
    offsets = np.r_[np.ones(n), -np.ones(n)]
    return programmes.Pieces(weights, np.tile(np.arange(n), 2), rows, offsets)


_BINARY = {
    "AbsoluteMargin": _absolute_margin,
    "hinge": lambda model, s, y: _below(s, y, 1.0),
    "squared_hinge": lambda model, s, y: programmes.SquaredHinge(s, y),
    "log_loss": lambda model, s, y: programmes.Logistic(s, y),
    "roc_auc": _roc_auc,
    "fbeta": lambda model, s, y: _blocks(reference_measures.f_beta(y, model.beta)),
}
_REGRESSION = {
    "LogCosh": lambda model, s, y: programmes.LogCosh(s, y),
    "squared_error": lambda model, s, y: programmes.Squared(s, y),
    "absolute_error": lambda model, s, y: _lines(s, y, [(-1.0, 0.0), (1.0, 0.0)]),
    "quantile": lambda model, s, y: _lines(
        s, y, [(-model.quantile, 0.0), (1.0 - model.quantile, 0.0)]
    ),
    "epsilon_insensitive": lambda model, s, y, k=0: _lines(
        s,
        y,
        [(-1.0, -fitted(model, "epsilon", k)), (0.0, 0.0), (1.0, -fitted(model, "epsilon", k))],
    ),
    "squared_epsilon_insensitive": lambda model, s, y, k=0: programmes.SquaredTube(
        s, y, fitted(model, "epsilon", k)
    ),
    "huber": lambda model, s, y, k=0: programmes.Huber(s, y, fitted(model, "delta", k)),
    "poisson": lambda model, s, y: programmes.Poisson(s, y),
}
_OF_SPREAD = "epsilon_insensitive", "squared_epsilon_insensitive", "huber"


def _ordinal(model, y, s, group):
    price = reference_measures.COSTS[model.cost]
    group = np.zeros(len(y)) if group is None else group
    return _blocks(reference_measures.ordinal(y, s, price, group))


def _ndcg(model, y, s, group):
    return _blocks(reference_measures.ndcg(y, group, s, model.k))


_RANKED = {"ordinal": _ordinal, "ndcg": _ndcg}


def _joint(model, weights, labels):
    """The risk of a joint loss."""
    n, K = len(labels), len(model.classes_)
    if model.loss == "softmax":
        return programmes.Softmax(weights, labels, K)
    cost = 1.0 - np.eye(K) if model.cost is None else np.asarray(model.cost, float)
    rows = sp.block_diag([sp.csr_matrix(np.eye(K) - np.eye(K)[label]) for label in labels])
    owner = np.repeat(np.arange(n), K)
    return programmes.Pieces(weights, owner, rows, cost[labels].ravel())
