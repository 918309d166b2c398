"""Acceleration of dual steps: a proximal term with a moving center.

The objective gets a term ``kappa/2 ||w - z||^2``, whose center z follows w with momentum: Catalyst,
algorithm 1 of Lin, Mairal and Harchaoui (2015). The steps are those of the dual of the sum; bounds
are those of the problem itself, at the same dual point.
"""

from collections import deque
from math import log, log1p, sqrt

from sklearn_bundle.core.limits import TINY

_BALANCE = 3.0  # the blocks' part of the gap over the center's at which kappa stays
_RISE, _FALL = 1.05, 1.2  # of kappa per pass: too large a kappa does more harm than a small one
_WEAKEST = 0.1  # times the ridge: the smallest kappa, so that it can rise again
_FAR = 1e3  # the blocks' part over the center's: above this the center is at rest
_WINDOW = 8  # moves over which the rate is measured: single ones fluctuate


class Catalyst:
    """The strength kappa of the proximal term, adapted to its effect, and the momentum.

    Parameters
    ----------
    ridge : float
        Of the problem itself: its objective is as strongly convex.
    kappa : float
        The first strength.
    passes : float
        Over the data, from one move of the center to the next.
    least_rate : float
        Of what the center allows: kappa falls if the gap falls more slowly.
    """

    def __init__(self, ridge: float, kappa: float, *, passes: float = 1.0, least_rate: float = 0.0):
        self.kappa = kappa
        self._ridge = ridge
        self._least_rate = least_rate
        self._rise, self._fall = _RISE**passes, _FALL**passes
        self._gaps: deque[float] = deque(maxlen=_WINDOW + 1)

    @property
    def momentum(self) -> float:
        """How far the center moves beyond w, see :func:`momentum`."""
        return momentum(self._ridge, self.kappa)

    def adapt(self, blocks: float, center: float) -> None:
        """Adapt kappa to the parts of the gap, of the blocks and of the center, before a move.

        The gaps of the blocks are easier to close with a larger kappa. The center's part falls as
        the center comes to rest, more slowly with a larger kappa. So kappa falls if the center's
        part is more than a third of the blocks', otherwise it rises. With a ``least_rate`` it also
        falls if the gap falls much more slowly than a moving center would allow: then the blocks
        cannot follow the center.
        """
        factor = sqrt(blocks / (_BALANCE * center)) if center > 0.0 else self._rise
        self._gaps.append(max(blocks + center, TINY))
        if self._relative_rate < self._least_rate and blocks < _FAR * center:
            factor = 0.0
        factor = min(max(factor, 1.0 / self._fall), self._rise)
        self.kappa = max(factor * self.kappa, _WEAKEST * self._ridge)

    @property
    def _relative_rate(self) -> float:
        """The rate at which the gap has fallen, over that of the center; 1 if not known yet.

        The center's is ``-log(1 - sqrt(q))``, q the share of the ridge in its sum with kappa.
        """
        root = sqrt(self._ridge / (self._ridge + self.kappa))
        if len(self._gaps) <= _WINDOW or root == 1.0:
            return 1.0
        return log(self._gaps[0] / self._gaps[-1]) / _WINDOW / -log1p(-root)


def momentum(ridge: float, kappa: float) -> float:
    """How far the center moves beyond w, over the last move of w."""
    root = sqrt(ridge / (ridge + kappa))
    return (1.0 - root) / (1.0 + root)


def first_kappa(ridge: float, curvature: float, share: float) -> float:
    """The first strength: with the ridge it is a share of the blocks' mean curvature.

    It follows the gap from then on. Acceleration pays if it is above the ridge.
    """
    return share * curvature - ridge
