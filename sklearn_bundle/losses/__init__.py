"""Losses: formulas on scores. A user's own loss derives from :class:`BinaryLoss`."""

from sklearn_bundle.losses.base import BinaryLoss, Cut
from sklearn_bundle.losses.binary import Exponential, Hinge, LogLoss, SquaredHinge

BINARY_LOSSES: dict[str, type[BinaryLoss]] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "log_loss": LogLoss,
    "exponential": Exponential,
}

__all__ = ["BINARY_LOSSES", "BinaryLoss", "Cut", "Exponential", "Hinge", "LogLoss", "SquaredHinge"]
