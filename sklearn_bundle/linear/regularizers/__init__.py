"""Regularizers: Omega, its conjugate and the conjugate's derivatives."""

from sklearn_bundle.linear.regularizers.base import Regularizer
from sklearn_bundle.linear.regularizers.nonnegative import Nonnegative
from sklearn_bundle.linear.regularizers.quadratic import L2, Quadratic
from sklearn_bundle.linear.regularizers.sparse import L1, ElasticNet, WeightedL1

# fmt: off
__all__ = [
    "L1", "L2", "REGULARIZERS", "ElasticNet", "Nonnegative",
    "Quadratic", "Regularizer", "WeightedL1",
]
# fmt: on

REGULARIZERS: dict[str, type[Regularizer]] = {
    "l2": L2,
    "quadratic": Quadratic,
    "l1": L1,
    "weighted_l1": WeightedL1,
    "elasticnet": ElasticNet,
}
