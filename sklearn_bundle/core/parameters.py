"""Parameters: what each may be, written as data, and their check, whose messages say it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cache
from inspect import Parameter, getattr_static, signature
from numbers import Integral, Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator

from sklearn_bundle.core.values import as_float, plain, shown, warn

# Values that other libraries have for what is offered here.
_ALIASES = {
    **dict.fromkeys(("log", "logistic", "cross_entropy", "crossentropy"), "log_loss"),
    **dict.fromkeys(("mse", "l2_loss", "least_squares", "squared_loss"), "squared_error"),
    **dict.fromkeys(("mae", "l1_loss"), "absolute_error"),
    **dict.fromkeys(("l-bfgs", "l-bfgs-b"), "lbfgs"),
    **dict.fromkeys(("newton-cg", "newton-cholesky"), "newton"),
    **{"pinball": "quantile", "auc": "roc_auc", "lasso": "l1", "ridge": "l2"},
    **{"gaussian": "rbf", "polynomial": "poly", "liblinear": "dual-coordinate"},
    **{"libsvm": "decomposition", "smo": "decomposition", "cd": "coordinate-descent"},
}
# Parameters of other libraries, and in order of preference what an estimator may have instead.
_STRENGTHS = "reg_lambda", "reg_lambdas", "C", "Cs"
_INSTEAD = {
    **dict.fromkeys(("alpha", "C", "reg_lambda", "c2"), _STRENGTHS),
    **{"nu": ("contamination", *_STRENGTHS), "penalty": ("regularizer", "l1_ratio")},
    **{"c1": ("l1_ratio",), "probability": ("loss",)},
}
# How values of those are converted. The names of values that a search tries end in "s".
_MEANINGS = {
    "reg_lambda": "which is 1 / (C * n) for n samples, the alpha of SGDClassifier and Lasso, the "
    "alpha of Ridge over n, and 2 * c2 / n or, with c1, (c1 + 2 * c2) / n",
    "C": "which is 1 / (n * reg_lambda) for n samples, and 1 / alpha for KernelRidge's alpha",
    "l1_ratio": "the share of L1, which is c1 / (c1 + 2 * c2)",
    "loss": "'log_loss' or another loss that has predict_proba",
}


@cache
def parameters_of(kind: type) -> MappingProxyType[str, Parameter]:
    """The parameters of a class's constructor."""
    return MappingProxyType(signature(kind).parameters)


def similar(value: str, offered: list[str]) -> str:
    """A question with the offered name most similar to ``value``; empty if none is similar."""
    names = {name.casefold(): name for name in offered}  # "L2" is "l2"
    alias = _ALIASES.get(value.casefold())
    known = [name for name in (alias, f"neg_mean_{alias}") if name in names]  # loss, or score
    like = known or get_close_matches(value.casefold(), names, n=1)
    return f" Did you mean {names[like[0]]!r}?" if like else ""


class ForCallers:
    """Says what to write in place of parameters and methods that other libraries have."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        own = parameters_of(cls) if kwargs.keys() & _INSTEAD.keys() else kwargs
        for name in kwargs.keys() - own.keys():
            found = next((one for one in _INSTEAD.get(name, ()) if one in own), None)
            if found is not None:
                meaning = _MEANINGS.get(found.removesuffix("s"), _MEANINGS.get(found, ""))
                raise TypeError(
                    f"{cls.__name__}.__init__() got an unexpected keyword argument {name!r}. Write "
                    f"{found}{meaning and f', {meaning}'}."
                )
        return super().__new__(cls)

    if not TYPE_CHECKING:  # type checkers would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            if name not in ("predict_proba", "predict_log_proba"):
                return self.__getattribute__(name)  # raises its error again
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}. Wrap a classifier in "
                "CalibratedClassifierCV, or take a loss with probabilities, such as 'log_loss'.",
                name=name,
                obj=self,
            )


_LARGEST_INT = np.iinfo(np.int64).max  # for compiled code
# Where classes are that users import from sklearn_bundle.losses or sklearn_bundle.regularizers.
_INSIDE = re.compile(r"^sklearn_bundle\.\w+\.(losses|regularizers)\b.*")


class Interval:
    """Numbers of a kind between two ends, each None if there is none; ``closed`` as in pandas."""

    def __init__(self, kind: type, low: float | None, high: float | None, *, closed: str):
        self.kind = kind
        self._low, self._high = -np.inf if low is None else low, np.inf if high is None else high
        self._closed = closed in ("left", "both"), closed in ("right", "both")

    def holds(self, value: Any) -> bool:
        if not isinstance(value, self.kind) or value != value:
            return False
        low, high = self._closed
        above = value >= self._low if low else value > self._low
        return bool(above and (value <= self._high if high else value < self._high))

    def __str__(self) -> str:
        real = self.kind is Real
        low, high = (float(end) if real else end for end in (self._low, self._high))
        left, right = "[" if self._closed[0] else "(", "]" if self._closed[1] else ")"
        return f"{'a float' if real else 'an int'} in the range {left}{low}, {high}{right}"


class Names:
    """Strings that a parameter accepts, listed in alphabetical order."""

    def __init__(self, options: Iterable[str]) -> None:
        self.options = sorted(set(options))

    def holds(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.options

    def __str__(self) -> str:
        return f"a str among {{{', '.join(map(repr, self.options))}}}"


class _Kind(NamedTuple):
    """A test, and its words."""

    text: str
    holds: Callable[[Any], bool]

    def __str__(self) -> str:
        return self.text


def _is_array(value: Any) -> bool:
    sized = any(hasattr(value, name) for name in ("__len__", "shape", "__array__"))
    return sized and not isinstance(value, str | bytes) and getattr(value, "shape", None) != ()


_BOOL = _Kind("a bool", lambda value: isinstance(value, bool | np.bool_))
_NONE = _Kind("None", lambda value: value is None)
_KINDS: dict[Any, list[Any]] = {
    None: [_NONE],
    callable: [_Kind("a callable", callable)],
    Integral: [_Kind("an int", lambda value: isinstance(value, Integral))],
    "array-like": [_Kind("an array-like", _is_array)],
    "boolean": [_BOOL],
    "verbose": [Interval(Integral, 0, None, closed="left"), _BOOL],
    "random_state": [
        Interval(Integral, 0, 2**32 - 1, closed="both"),
        _Kind("a RandomState", lambda value: isinstance(value, np.random.RandomState)),
        _NONE,
    ],
    "cv_object": [
        Interval(Integral, 2, None, closed="left"),
        _Kind(
            "an object implementing 'split' and 'get_n_splits'",
            lambda value: hasattr(value, "split") and hasattr(value, "get_n_splits"),
        ),
        _Kind("an iterable", lambda v: isinstance(v, Iterable) and not isinstance(v, str)),
        _NONE,
    ],
}

POSITIVE = Interval(Real, 0, None, closed="neither")
RELATIVE_GAP = Interval(Real, 0, 1, closed="right")  # for `tol`; w = 0 may already meet 1
#: What the parameters of a fit may be, whatever it minimizes.
OF_FITS: dict[str, list[Any]] = {
    "tol": [RELATIVE_GAP],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "max_time": [Interval(Real, 0, None, closed="neither"), None],
    "warm_start": ["boolean"],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
}

# Advice by parameter and unsupported value.
_AT_LIMITS = {
    ("reg_lambda", 0): " Without regularization there may be no optimum and no lower bound: use a "
    "small positive value such as 1e-6.",
    ("C", 0): " Then w = 0 is the optimum: use a small positive value such as 1e-6.",
    ("C", np.inf): " Without slack there may be no optimum: use a large value such as 1e6.",
}


def checked(estimator: Any, hints: Callable[[str, Any], str] | None = None) -> Any:
    """A copy to work on, with checked parameters and Python's own numbers.

    Parameters are read only here. The caller's estimator stays unchanged. ``hints(name, value)``
    may say more about a wrong value.
    """
    kind = type(estimator)
    copied = object.__new__(kind)
    own = vars(estimator)
    vars(copied).update(own)
    for name, allowed in kind._allowed.items():
        if name in own:
            vars(copied)[name] = _checked(kind.__name__, name, allowed, own[name], hints)
    return copied


def checked_parameters(caller: str, allowed: dict[str, Any], **given: Any) -> list[Any]:
    """The values in order, with numbers as Python's own; ValueError names what is wrong."""
    return [_checked(caller, name, allowed[name], value) for name, value in given.items()]


def _checked(caller: str, name: str, allowed: Any, value: Any, hints: Any = None) -> Any:
    value = plain(value)
    if allowed == "no_validation":
        return value
    if not any(kind.holds(value) for one in allowed for kind in _kinds_of(one)):
        *others, last = (str(kind) for one in allowed for kind in _kinds_of(one))
        texts = f"{', '.join(others)} or {last}" if others else last
        advice = _AT_LIMITS.get((name, value)) if isinstance(value, Real) else None
        advice = advice or (hints and hints(name, value)) or suggestion(allowed, value)
        raise ValueError(
            f"The {name!r} parameter of {caller} must be {texts}. Got {shown(value)} instead."
            f"{advice}"
        )
    return _in_range(caller, name, allowed, value)


def _kinds_of(allowed: Any) -> list[Any]:
    """What a value is compared with: objects with ``holds`` and a text."""
    if isinstance(allowed, Interval | Names):
        return [allowed]
    if allowed in _KINDS:
        return _KINDS[allowed]
    module = _INSIDE.sub(r"sklearn_bundle.\1", allowed.__module__)
    name = allowed.__qualname__ if module == "builtins" else f"{module}.{allowed.__qualname__}"
    return [_Kind(f"an instance of {name!r}", lambda value: isinstance(value, allowed))]


def suggestion(allowed: Iterable[Any], value: Any) -> str:
    """The offered name that is similar to ``value``, or how to make an instance of a class."""
    if isinstance(value, type):
        taken = any(isinstance(base, type) and issubclass(value, base) for base in allowed)
        return f" Pass an instance: {value.__name__}(...)." if taken else ""
    offered = [name for kind in allowed if isinstance(kind, Names) for name in kind.options]
    return similar(value, offered) if isinstance(value, str) else ""


def _in_range(caller: str, name: str, allowed: Iterable[Any], value: Any) -> Any:
    """A float if fractions are allowed, an int if compiled code can take it; or the value as is."""
    if type(value) is float or not isinstance(value, Real):
        return value
    real = any(isinstance(kind, Interval) and kind.kind is Real for kind in allowed)
    value = as_float(value) if real else value
    if isinstance(value, float) if real else abs(int(value)) <= _LARGEST_INT:
        return value
    raise ValueError(
        f"The {name!r} parameter of {caller} must be within the range of "
        f"{'float64' if real else 'int64'}. Got {shown(value)} instead."
    )


def warn_of_unused(estimator: Any) -> None:
    """One UserWarning for all parameters without effect that differ from their defaults."""
    kind = type(estimator)
    ignored, own = [], parameters_of(kind)
    for name, (role, values) in estimator._used_with.items():
        if name not in own:
            continue
        value, chosen = getattr(estimator, name), getattr(estimator, role)
        used = any(is_same(chosen, one) for one in values)
        if not used and not is_same(value, own[name].default):
            text = f"{name}={shown(value)}, which is for {role}={' or '.join(map(repr, values))}"
            text += f", not {role}={shown(chosen)}"
            if name in getattr(chosen, "__dict__", {}):
                text += f": set it there, {type(chosen).__name__}({name}={shown(value)})"
            ignored.append(text)
    if ignored:
        warn(f"{kind.__name__} ignores {'; and '.join(ignored)}.", UserWarning)


def is_same(value: Any, default: Any) -> bool:
    """Whether a parameter has this value; an array never does."""
    return value is default or (isinstance(value, str | Real) and value == default)


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
