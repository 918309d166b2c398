"""What losses and regularizers have in common: parameters, and what subclasses may inherit."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import getattr_static
from typing import Any, Self

from sklearn.base import BaseEstimator


class Parameters(BaseEstimator):
    """Parameters as scikit-learn's estimators have them.

    They are the arguments of the constructor, kept in attributes of the same names. So
    :func:`sklearn.base.clone` works, and names such as ``loss__quantile`` in a grid search.
    """

    def set_params(self, **params: Any) -> Self:
        """Set some of the parameters, also ``name__parameter``; they are checked as at first."""
        super().set_params(**params)
        type(self).__init__(self, **self.get_params(deep=False))
        return self


def forget_inherited(
    kind: type, contract: type, stated: Iterable[str], following: Iterable[str]
) -> None:
    """Give a class that states something anew the contract's answer to what follows from it.

    Where a subclass overrides one of the ``stated`` methods, what its bases say in ``following``
    is true of another function.
    """

    def place(name: str) -> int:
        return next(i for i, base in enumerate(kind.__mro__) if name in vars(base))

    first = min(map(place, stated))
    for name in following:
        if place(name) > first:
            setattr(kind, name, getattr_static(contract, name))
