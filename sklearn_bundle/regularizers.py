"""Regularizers: Omega, its conjugate and the conjugate's derivatives."""

from sklearn_bundle.linear import regularizers as _regularizers
from sklearn_bundle.linear.regularizers import *  # noqa: F403

__all__: list[str] = []
__all__ += _regularizers.__all__
