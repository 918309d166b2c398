"""Regularizers: Omega, its conjugate and the conjugate's derivatives."""

from sklearn_bundle.regularizers.base import Regularizer
from sklearn_bundle.regularizers.entropy import Entropy, EntropySimplex
from sklearn_bundle.regularizers.norms import L1, L2, Lp, Quadratic

__all__ = [
    "L1",
    "L2",
    "REGULARIZERS",
    "Entropy",
    "EntropySimplex",
    "Lp",
    "Quadratic",
    "Regularizer",
]

REGULARIZERS: dict[str, type[Regularizer]] = {
    "l2": L2,
    "lp": Lp,
    "quadratic": Quadratic,
    "entropy": Entropy,
    "entropy_simplex": EntropySimplex,
    "l1": L1,
}
