"""The instances of ``fingerprints.py`` with a user's own parts, and fits that are interrupted."""

from contextlib import suppress

import numpy as np
from _fingerprints import Case, Found, computed, found
from _fingerprints_data import task
from sklearn.base import clone

from sklearn_bundle import SDCACRF, BMRMClassifier, BMRMClassifierCV, BMRMRanker, BMRMRegressor
from sklearn_bundle.losses import (
    BinaryLoss,
    MeasureLoss,
    MulticlassLoss,
    RankingLoss,
    RegressionLoss,
)
from sklearn_bundle.projection import project
from tests.contract.user_losses import ElasticNetPenalty


class SmoothedHinge(BinaryLoss):
    """The hinge loss with a parabola in place of its kink."""

    def __init__(self, width=0.5):
        self.width = width

    def value(self, scores, y):
        slack = np.maximum(0.0, 1.0 - y * scores)
        return np.where(slack < self.width, slack**2 / (2 * self.width), slack - self.width / 2)

    def gradient(self, scores, y):
        slack = np.maximum(0.0, 1.0 - y * scores)
        return -y * np.minimum(slack / self.width, 1.0)


class Logistic(BinaryLoss):
    """The logistic loss, with the optional methods."""

    def value(self, scores, y):
        return np.logaddexp(0.0, -y * scores)

    def gradient(self, scores, y):
        return -y * self.probability(-y * scores)

    def curvature(self, scores, y):
        p = self.probability(scores)
        return p * (1.0 - p)

    def probability(self, scores):
        return np.exp(-np.logaddexp(0.0, -scores))


class SquaredMargins(MulticlassLoss):
    """Sum over the wrong classes of max(0, 1 - (f_y - f_k))^2."""

    def _slacks(self, scores, y):
        own = np.take_along_axis(scores, y[:, None], axis=1)
        slacks = np.maximum(0.0, 1.0 - (own - scores))
        slacks[np.arange(len(y)), y] = 0.0
        return slacks

    def value(self, scores, y):
        return np.sum(self._slacks(scores, y) ** 2, axis=1)

    def gradient(self, scores, y):
        gradient = 2.0 * self._slacks(scores, y)
        gradient[np.arange(len(y)), y] = -gradient.sum(axis=1)
        return gradient


class Expectile(RegressionLoss):
    """Squared error, where to predict too little costs more."""

    def __init__(self, share=0.9):
        self.share = share

    def _factors(self, scores, y):
        return np.where(scores < y, self.share, 1.0 - self.share)

    def value(self, scores, y):
        return self._factors(scores, y) * (scores - y) ** 2

    def gradient(self, scores, y):
        return 2.0 * self._factors(scores, y) * (scores - y)


class WorstSample(MeasureLoss):
    """The hinge loss of the worst sample."""

    free_intercept = "joint"

    def plane(self, scores, y, weights, out):
        worst = np.argmin(y * scores)
        wrong = float(y[worst] * scores[worst] < 1.0)
        out[:] = 0.0
        out[worst] = -wrong * y[worst]
        return wrong


class WorstPair(RankingLoss):
    """Hinge loss of the one worst pair of the best and the other samples."""

    def prepare(self, y, group, n_samples):
        return np.asarray(y) == np.max(y)

    def plane(self, scores, y, weights, out):
        low, high = np.where(y, scores, np.inf).argmin(), np.where(y, -np.inf, scores).argmax()
        wrong = 1.0 if scores[low] - scores[high] < 1.0 else 0.0
        out[:] = 0.0
        out[low], out[high] = -wrong, wrong
        return wrong

    def score(self, scores, y, weights):
        return float(scores[y].min() > scores[~y].max())


class Watch:
    """One of scikit-learn's callbacks: keeps the models that it is shown, and ends the fit."""

    def __init__(self, most=4, interrupt=False):
        self.most, self.interrupt = most, interrupt
        self.seen: list = []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **further):
        pass

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None, **further):
        if fitted_estimator is not None:
            coef = fitted_estimator.coef_
            self.seen.append([coef, fitted_estimator.intercept_, fitted_estimator.predict(X)])
        if len(self.seen) < self.most:
            return False
        if self.interrupt:
            raise KeyboardInterrupt
        return True


def watched(model, name: str, **params) -> list[Found]:
    """A fit that a callback ends, by its answer or as Ctrl-C does."""
    (X, y), watch, model = task(name), Watch(**params), clone(model)
    with suppress(KeyboardInterrupt):
        model.set_callbacks(watch).fit(X, y)
    return [computed(seen=watch.seen), found(model, X)]


def projections() -> list[Found]:
    """The projection on a box cut by a hyperplane."""
    rng = np.random.default_rng(20)
    m, upper = rng.normal(size=2000), rng.uniform(0.001, 0.01, size=2000)
    sigma = np.where(rng.random(2000) < 0.5, -1.0, 1.0)
    return [
        computed(
            simplex=project(m),
            few=project(m[:5]),
            box=project(m, upper=upper, z=2.0),
            hyperplane=project(m, d=1.0 + upper, sigma=sigma, lower=-upper, upper=upper, z=0.3),
            far=project(1e12 * m, sigma=sigma, d=1e-6 + upper, lower=-upper, upper=upper, z=0.1),
            clipped=project(m, lower=-0.5, upper=0.5, z=None),
        )
    ]


def own(loss, **params) -> BMRMClassifier:
    """One that ends soon where it does not converge."""
    return BMRMClassifier(loss, **{"reg_lambda": 1e-2, "max_iter": 150} | params)


LINE_SEARCH = own("log_loss", tol=1e-10, solver="line-search")

CASES = [
    Case("own loss", own(SmoothedHinge()), "binary"),
    Case("own loss, cutting-plane", own(SmoothedHinge(0.1), solver="cutting-plane"), "binary"),
    Case("own loss, three classes", own(SmoothedHinge(), n_jobs=2), "three", "CSR"),
    Case("own loss, wide", own(SmoothedHinge()), "wide"),
    Case("own loss, L1", own(SmoothedHinge(), regularizer="l1"), "binary", "float32"),
    Case("own loss, no intercept", own(SmoothedHinge(), fit_intercept=False), "binary", "mapped"),
    Case("own loss, all methods", own(Logistic(), tol=1e-6), "binary"),
    Case("own multiclass loss", own(SquaredMargins()), "three"),
    Case("own measure", own(WorstSample()), "binary"),
    Case("own regression loss", BMRMRegressor(Expectile(), reg_lambda=1e-3), "regression"),
    Case("own ranking loss", BMRMRanker(WorstPair(), reg_lambda=1e-2), "grades"),
    Case(
        "own loss, CV",
        BMRMClassifierCV(SmoothedHinge(), reg_lambdas=[0.1, 0.01], cv=3, n_jobs=2),
        "binary",
    ),
    Case(
        "own loss, warm start",
        own(SmoothedHinge(), warm_start=True, max_iter=4),
        "binary",
        then=({"max_iter": 150}, {"tol": 1e-5}, {"reg_lambda": 1e-3}),
    ),
    Case(
        "own regularizer",
        BMRMRegressor(regularizer=ElasticNetPenalty(), reg_lambda=0.05, tol=1e-6),
        "regression",
    ),
    Case("own regularizer, hinge", own("hinge", regularizer=ElasticNetPenalty(0.5)), "binary"),
    Case("own regularizer, softmax", own("softmax", regularizer=ElasticNetPenalty()), "three"),
    ("stopped by a callback", lambda: watched(LINE_SEARCH, "binary")),
    ("interrupted", lambda: watched(LINE_SEARCH, "binary", interrupt=True)),
    ("interrupted, three classes", lambda: watched(LINE_SEARCH, "three", interrupt=True)),
    (
        "interrupted, CRF",
        lambda: watched(SDCACRF(tol=1e-8, random_state=0), "chains", most=5, interrupt=True),
    ),
    ("projection", projections),
]
