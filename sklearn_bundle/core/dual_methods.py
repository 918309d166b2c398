"""What dual methods share: when the certificate is computed from the data, when nothing is left
to gain, and acceleration by a proximal term with a moving center.
"""

from collections import deque
from math import inf, log, log1p, sqrt

import numpy as np

from sklearn_bundle.core.certificate import Best
from sklearn_bundle.core.limits import TINY

_PROGRESS = 1e-6  # of the gap: the least gain of gap or bound that counts as progress
# Of kappa per pass: too large a kappa does more harm than a small one.
_KAPPA_RISE, _KAPPA_FALL = 1.05, 1.2
# Of kappa per move of the center, however many passes that is. With 1.2 ** 3 in its place CRFs of
# CoNLL-2000 at c2 = .001 took a third more epochs with 800 sentences, and more than 100 in place of
# 71 with 3,000; those of Dutch NER took a tenth fewer.
_MOST_FALL = 1.5
_WINDOW = 8  # moves over which the rate is measured: single ones fluctuate


class Checks:
    """The estimate of the gap between checks, and whether a check is due.

    A method knows parts of the gap, one per block, as they were when it last visited the blocks.
    Their sum, times the ratio that earlier checks found, is the estimate.

    Parameters
    ----------
    tol : float or None
        The requested relative gap; without it checks are more frequent.
    cost : float
        Of a check, in the unit of the work.
    ratio : float
        A first guess of the ratio.
    pause : float
        Of all work so far: as long is the pause before a check that the estimate does not call for.

    Attributes
    ----------
    estimate : float
        About the relative gap.
    at_check : float
        The relative gap that the last check found for its dual point.
    work : float
        Since the last check.
    """

    def __init__(self, tol: float | None, cost: float, ratio: float = 1.0, pause: float = 0.0):
        self.estimate = self.at_check = inf
        self.work = self._work_so_far = 0.0
        self._tol, self._cost, self._pause = tol, cost, pause
        self._first_ratio = self._ratio = ratio

    def note(self, gap: float, dual: float, work: float = 0.0) -> None:
        """Note the sum of the parts, about the dual's value, and the work that was done."""
        gap = self._ratio * max(gap, 0.0)
        self.estimate = gap / max(dual + gap, TINY)
        self.work += work
        self._work_so_far += work

    @property
    def target(self) -> float:
        """The estimate that triggers a check."""
        if self._tol is not None and self.at_check > self._tol:
            # a check is made once the estimate of the gap is a little below tol
            return 0.9 * self._tol
        # the same without a tol, or once tol was met
        return 0.25 * self.at_check

    @property
    def is_within(self) -> bool:
        """Whether the estimate says that ``tol`` is reached."""
        return self.estimate <= self.target

    @property
    def is_due(self) -> bool:
        """Whether a check is due."""
        # if the estimate stays above, checks may cost a tenth of the work
        waited = self._cost <= 0.1 * self.work and self.work >= self._pause * self._work_so_far
        return self.work > 0.0 and (self.is_within or waited)

    def made(self, primal: float, bound: float, *, calibrates: bool = True) -> None:
        """Note what a check found for the dual point to which the estimate belongs.

        The ratio moves halfway, in logarithms: single checks fluctuate.
        """
        self.at_check = max(primal - bound, 0.0) / max(primal, TINY)
        if calibrates and 0.0 < self.estimate < inf and self.at_check > 0.0:
            self._ratio *= sqrt(self.at_check / self.estimate)
        self.work = 0.0

    def forget(self) -> None:
        """Forget the ratio: the parts are now those of other steps."""
        self._ratio = self._first_ratio


class Idling:
    """Counts checks in a row after which gap, bound and dual have not changed.

    Then only rounding errors are left.

    Parameters
    ----------
    limit : int
        The number of such checks that is enough.
    """

    def __init__(self, limit: int):
        self._limit, self._count = limit, 0
        self._gap: float | None = None  # None before the first check
        self._bound = -np.inf

    @property
    def enough(self) -> bool:
        """Whether there were ``limit`` such checks in a row."""
        return self._count >= self._limit

    def note(self, best: Best, gained: float = 0.0) -> None:
        """Record a check; ``gained`` is the rise of the method's dual since the last check."""
        gap, bound = best.gap, best.bound
        moved = self._gap is None or gap < (1.0 - _PROGRESS) * self._gap
        moved = moved or bound > self._bound + _PROGRESS * gap
        # a dual that rises by less may do so by rounding
        moved = moved or gained > 1e-13 * abs(best.primal)
        self._count = 0 if moved else self._count + 1
        self._gap, self._bound = gap, bound


class Catalyst:
    """The strength kappa of the proximal term, adapted to its effect, and the momentum.

    The objective gets a term ``kappa/2 ||w - z||^2``, whose center z follows w with momentum:
    Catalyst, algorithm 1 of Lin, Mairal and Harchaoui (2015). The steps are those of the dual of
    the sum; bounds are those of the problem itself, at the same dual point.

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
        self._rise, self._fall = _KAPPA_RISE**passes, min(_KAPPA_FALL**passes, _MOST_FALL)
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
        # kappa stays where the blocks' part of the gap is 3 times the center's
        factor = sqrt(blocks / (3.0 * center)) if center > 0.0 else self._rise
        self._gaps.append(max(blocks + center, TINY))
        # where the center's part is a thousandth of the blocks', it is at rest
        if self._relative_rate < self._least_rate and blocks < 1e3 * center:
            factor = 0.0
        factor = min(max(factor, 1.0 / self._fall), self._rise)
        # not smaller than a tenth of the ridge, so that it can rise again
        self.kappa = max(factor * self.kappa, 0.1 * self._ridge)

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
