"""What the solver of a linear problem leaves for the next one on the same data and loss."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.linear.problems.normal_equations import NormalEquations
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers._sweeps import Sweep
from sklearn_bundle.linear.solvers._working_set import WorkingSet
from sklearn_bundle.linear.solvers.inner.planes import Bundle, SampleBundle

Array = NDArray[np.float64]
PointToStart = tuple[Array, float | Array | None]  # w and the intercept


class DualCertificate(NamedTuple):
    """The bound ``c - reg_lambda Omega*(-a/reg_lambda) - shortfall`` that a plane (a, c) proves.

    The shortfall is the possible cost of an intercept's coefficient that is not quite 0.
    """

    reg_lambda: float
    plane: tuple[Array, float]
    shortfall: float = 0.0

    def bound(self, omega: Regularizer) -> float:
        """The bound that it proves, without sums accumulated on the way."""
        gradient, offset = self.plane
        bound = offset - self.reg_lambda * omega.conjugate(-gradient / self.reg_lambda)
        return bound - self.shortfall

    def lowered(self, bound: float, omega: Regularizer) -> "DualCertificate":
        """A dual certificate by the same plane that claims at most this bound."""
        return self._replace(shortfall=self._replace(shortfall=0.0).bound(omega) - bound)


class Evaluation(NamedTuple):
    """What is known about the weights w from all rows and features, for any reg_lambda.

    ``scores`` are those without b, ``g`` has the derivatives ``s_i l'(f_i)`` at the best b, and
    ``gradient`` is ``X'g``.
    """

    w: Array
    scores: Array
    g: Array
    gradient: Array
    risk: float
    b: float


@dataclass
class LinearStart:
    """A point with its intercept, and what else a solver may reuse; reg_lambda may differ."""

    point: PointToStart | None = None
    dual_certificate: DualCertificate | None = None
    bundle: Bundle | None = None
    sample_bundle: SampleBundle | None = None
    alpha: Array | None = None
    width: float | None = None
    normal_equations: NormalEquations | None = None
    working_set: WorkingSet | None = None
    sweep: Sweep | None = None
    evaluation: Evaluation | None = None

    def certificate_of(self, dimension: int) -> DualCertificate | None:
        """The dual certificate, if its plane has this length: in sample space it has another."""
        dual_certificate = self.dual_certificate
        return (
            dual_certificate
            if dual_certificate is not None and len(dual_certificate.plane[0]) == dimension
            else None
        )
