"""Losses: formulas on scores.

Derive your own loss from :class:`BinaryLoss`, :class:`MulticlassLoss`, :class:`MeasureLoss`,
:class:`RegressionLoss` or :class:`RankingLoss`.
"""

from sklearn_bundle.linear import losses as _losses
from sklearn_bundle.linear.losses import *  # noqa: F403

__all__: list[str] = []
__all__ += _losses.__all__
