"""Losses: formulas on scores.

Derive your own loss from :class:`BinaryLoss`, :class:`MulticlassLoss`, :class:`MeasureLoss`,
:class:`RegressionLoss` or :class:`RankingLoss`.
"""

from sklearn_bundle.linear.losses.base import Loss, Prepared, SampleLoss, Target
from sklearn_bundle.linear.losses.hinge import Hinge, SquaredHinge
from sklearn_bundle.linear.losses.logistic import LogLoss
from sklearn_bundle.linear.losses.measures import ROCAUC, FBeta
from sklearn_bundle.linear.losses.multiclass import MulticlassHinge, MulticlassLoss
from sklearn_bundle.linear.losses.novelty import NuNovelty
from sklearn_bundle.linear.losses.one_score import BinaryLoss, RegressionLoss
from sklearn_bundle.linear.losses.pairs import Ordinal
from sklearn_bundle.linear.losses.planes import MeasureLoss, RankingLoss
from sklearn_bundle.linear.losses.poisson import Poisson
from sklearn_bundle.linear.losses.positions import NDCG
from sklearn_bundle.linear.losses.regression import (
    AbsoluteError,
    EpsilonInsensitive,
    Huber,
    Quantile,
    SquaredEpsilonInsensitive,
    SquaredError,
)
from sklearn_bundle.linear.losses.softmax import Softmax

# By the names that the parameter `loss` of an estimator accepts.
BINARY_LOSSES: dict[str, type[BinaryLoss]] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "log_loss": LogLoss,
}
MULTICLASS_LOSSES: dict[str, type[MulticlassLoss]] = {
    "multiclass_hinge": MulticlassHinge,
    "softmax": Softmax,
}
MEASURES: dict[str, type[MeasureLoss]] = {"roc_auc": ROCAUC, "fbeta": FBeta}
REGRESSION_LOSSES: dict[str, type[RegressionLoss]] = {
    "squared_error": SquaredError,
    "absolute_error": AbsoluteError,
    "quantile": Quantile,
    "epsilon_insensitive": EpsilonInsensitive,
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive,
    "huber": Huber,
    "poisson": Poisson,
}
RANKING_LOSSES: dict[str, type[RankingLoss]] = {
    "ordinal": Ordinal,
    "ndcg": NDCG,
}

# fmt: off
__all__ = [
    "BINARY_LOSSES", "MEASURES", "MULTICLASS_LOSSES", "NDCG", "RANKING_LOSSES", "REGRESSION_LOSSES",
    "ROCAUC", "AbsoluteError", "BinaryLoss", "EpsilonInsensitive", "FBeta", "Hinge",
    "Huber", "LogLoss", "Loss", "MeasureLoss", "MulticlassHinge", "MulticlassLoss",
    "NuNovelty", "Ordinal", "Poisson",
    "Prepared", "Quantile", "RankingLoss",
    "RegressionLoss", "SampleLoss", "Softmax", "SquaredEpsilonInsensitive", "SquaredError",
    "SquaredHinge", "Target",
]
# fmt: on
