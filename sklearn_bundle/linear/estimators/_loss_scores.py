"""Scores that match the loss of a model, for losses that the usual score does not match."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import d2_pinball_score, d2_tweedie_score, fbeta_score, roc_auc_score

from sklearn_bundle.linear.losses import ROCAUC, AbsoluteError, FBeta, Loss, Poisson, Quantile

LossScorer = Callable[..., float]  # (model, X, y, sample_weight=None) -> score, larger is better


def loss_scorer(loss: Loss) -> LossScorer | None:
    """The default score of a search; None means the estimator's own ``score``."""
    make = _SCORERS.get(type(loss))
    return None if make is None else make(loss)


def _pinball(quantile: float) -> LossScorer:
    def score(model: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        return d2_pinball_score(y, model.predict(X), sample_weight=sample_weight, alpha=quantile)

    return score


def _deviance(model: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Mean over the targets; exp(f) may round to 0, where the deviance is undefined."""
    means = np.maximum(model.predict(X), np.finfo(np.float64).tiny)
    counts = np.asarray(y, dtype=np.float64)
    targets = zip(counts.reshape(len(counts), -1).T, means.reshape(len(means), -1).T, strict=True)
    return float(np.mean([_d2_of_counts(t, p, sample_weight) for t, p in targets]))


def _d2_of_counts(counts: NDArray, means: NDArray, weights: ArrayLike | None) -> float:
    """0 if all counts are equal, as with R^2: there is no deviance to explain."""
    if np.ptp(counts) == 0.0:
        return 0.0
    return d2_tweedie_score(counts, means, sample_weight=weights, power=1)


def _fbeta(beta: float) -> LossScorer:
    def score(model: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        if len(model.classes_) > 2:
            return model.score(X, y, sample_weight)
        return fbeta_score(
            y,
            model.predict(X),
            beta=beta,
            pos_label=model.classes_[1],
            sample_weight=sample_weight,
            zero_division=0.0,
        )

    return score


def _auc(model: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    if len(model.classes_) > 2:
        return model.score(X, y, sample_weight)
    positive = np.asarray(y) == model.classes_[1]
    return roc_auc_score(positive, model.decision_function(X), sample_weight=sample_weight)


_SCORERS: dict[type[Loss], Callable[[Any], LossScorer]] = {
    AbsoluteError: lambda _: _pinball(0.5),
    Quantile: lambda loss: _pinball(loss.quantile),
    Poisson: lambda _: _deviance,
    FBeta: lambda loss: _fbeta(loss.beta),
    ROCAUC: lambda _: _auc,
}
