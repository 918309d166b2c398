"""Start of the fit for the next value of a path of chain CRFs."""

from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.chain._compiled.chain_dual import Blocks, Potentials

# Share of the last change between values that is added for the next start. The full change takes
# the fewest epochs at a tol of 1e-3, but at 1e-2 it doubles the error of the last fit.
_SHARE = 0.7


class PathState(NamedTuple):
    """The solver's state at the last value of reg_lambda and at the one before it."""

    reg_lambda: float
    kept: Any
    before: tuple[float, Any] | None = None

    def start(self, reg_lambda: float) -> Any:
        """A copy of the state, extrapolated on a logarithmic scale.

        Any log-potentials are a dual point, and so are points on the line through two of them.
        Marginals are not extrapolated, since they could become negative.
        """
        share, other = 0.0, self.kept
        if self.before is not None and type(self.before[1]) is type(self.kept):
            step = log(self.before[0] / self.reg_lambda)
            if step > 0.0:
                share = _SHARE * min(1.0, log(self.reg_lambda / reg_lambda) / step)
                other = self.before[1]
        if isinstance(self.kept, np.ndarray):
            return _extrapolated(other, self.kept, share)
        if isinstance(self.kept, Blocks):
            share *= isinstance(self.kept, Potentials)
            nodes = _extrapolated(other.nodes, self.kept.nodes, share)
            return self.kept._replace(
                nodes=nodes, pairs=_extrapolated(other.pairs, self.kept.pairs, share)
            )
        return self.kept


def _extrapolated(before: NDArray, last: NDArray, share: float) -> NDArray:
    """The last state plus a share of the change, in its own precision."""
    result = last - before
    result *= share
    result += last
    return result
