"""What losses and regularizers have in common: parameters, and what subclasses may inherit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from inspect import getattr_static, signature
from typing import Any, Self


class Parameters:
    """Parameters as scikit-learn's estimators have them.

    They are the arguments of the constructor, kept in attributes of the same names. So
    :func:`sklearn.base.clone` works, and names such as ``loss__quantile`` in a grid search.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether those of parameters that have some are there too, as ``name__parameter``.

        Returns
        -------
        params : dict
            Values by name.
        """
        init = type(self).__init__
        own = [] if init is object.__init__ else list(signature(init).parameters)[1:]
        params = {name: getattr(self, name) for name in own}
        nested = {
            f"{name}__{key}": of_it
            for name, value in params.items()
            if deep and hasattr(value, "get_params") and not isinstance(value, type)
            for key, of_it in value.get_params().items()
        }
        return params | nested

    def set_params(self, **params: Any) -> Self:
        """Set some of the parameters.

        Parameters
        ----------
        **params : object
            Values by name, also ``name__parameter``.

        Returns
        -------
        self : object
            The same object.

        Raises
        ------
        ValueError
            For a name that is not a parameter.
        """
        own, nested = self.get_params(deep=False), defaultdict[str, dict[str, Any]](dict)
        for key, value in params.items():
            name, _, of_it = key.partition("__")
            if name not in own:
                raise ValueError(
                    f"Invalid parameter {name!r} for {self!r}. Valid parameters are: {list(own)!r}."
                )
            if of_it:
                nested[name][of_it] = value
            else:
                own[name] = value
        type(self).__init__(self, **own)
        for name, of_it in nested.items():
            own[name].set_params(**of_it)
        return self

    def __repr__(self) -> str:
        params = self.get_params(deep=False).items()
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in params)})"


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
