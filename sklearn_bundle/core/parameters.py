"""Users' parameters: checked by scikit-learn's constraints, converted to plain numbers."""

from collections.abc import Iterable, Set
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import numpy as np

from sklearn_bundle.core.sklearn_internals import (
    Interval,
    StrOptions,
    validate_parameter_constraints,
)
from sklearn_bundle.core.values import plain, shown

_LARGEST_INT = np.iinfo(np.int64).max  # for compiled code
RELATIVE_GAP = Interval(Real, 0, 1, closed="right")  # for `tol`; w = 0 may already meet 1
#: Constraints on the parameters of a fit, whatever it minimizes.
OF_FITS: dict[str, list[Any]] = {
    "tol": [RELATIVE_GAP],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "max_time": [Interval(Real, 0, None, closed="neither"), None],
    "warm_start": ["boolean"],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
}

# Names that other libraries have for what is offered here.
_ALIASES = {
    **dict.fromkeys(("log", "logistic", "cross_entropy", "crossentropy"), "log_loss"),
    **dict.fromkeys(("mse", "l2_loss", "least_squares", "squared_loss"), "squared_error"),
    **dict.fromkeys(("mae", "l1_loss"), "absolute_error"),
    **{"pinball": "quantile", "auc": "roc_auc", "lasso": "l1", "ridge": "l2"},
    **{"gaussian": "rbf", "polynomial": "poly"},
}
# The same for solvers; None has no counterpart here.
_SOLVERS: dict[str, str | None] = {
    **{"liblinear": "dual-coordinate", "libsvm": "decomposition", "smo": "decomposition"},
    **{"cd": "coordinate-descent", "cyclic": "coordinate-descent", "l-bfgs": "lbfgs"},
    **{"lbfgs": "lbfgs", "l-bfgs-b": "lbfgs", "newton-cg": "newton", "newton-cholesky": "newton"},
    **{"cg": "conjugate-gradient", "sparse_cg": "conjugate-gradient"},
    **dict.fromkeys(("sag", "saga", "sgd", "adam", "svd", "cholesky", "lsqr", "highs")),
}


class Names(StrOptions):
    """Strings that a parameter accepts; messages list them in alphabetical order.

    ``by_instance`` are strings that are refused later, with a hint to pass an instance: messages do
    not offer them.
    """

    def __init__(self, options: Iterable[str], *, by_instance: Set[str] = frozenset()) -> None:
        super().__init__(set(options))
        self.offered = sorted(self.options - by_instance)

    def __str__(self) -> str:
        return f"a str among {{{', '.join(map(repr, self.offered))}}}"


def suggestion(allowed: Iterable, value: Any) -> str:
    """A question with the offered name most similar to ``value``; empty if none is similar.

    For a class whose instances are allowed, it is how to make one.
    """
    if isinstance(value, type):
        return f" Pass an instance: {value.__name__}(...)." if _takes(allowed, value) else ""
    if not isinstance(value, str):
        return ""
    offered = (name for kind in allowed if isinstance(kind, Names) for name in kind.offered)
    names = {name.casefold(): name for name in offered}  # "L2" is "l2"
    alias = (_ALIASES | _SOLVERS).get(value.casefold())
    if value.casefold() in _SOLVERS and "auto" in names and alias not in names:
        return f" No solver here is called {value!r}; 'auto' chooses one of them."
    known = [name for name in (alias, f"neg_mean_{alias}") if name in names]  # loss, or score
    like = known or get_close_matches(value.casefold(), names, n=1)
    return f" Did you mean {names[like[0]]!r}?" if like else ""


def _takes(allowed: Iterable, kind: type) -> bool:
    return any(isinstance(base, type) and issubclass(kind, base) for base in allowed)


def checked_parameters(caller: str, allowed: dict[str, list], **given: Any) -> list[Any]:
    """The values in order, with numbers as Python's own; ValueError names what is wrong."""
    values = {name: plain(value) for name, value in given.items()}
    validate_parameter_constraints(allowed, values, caller)
    return [in_range(caller, name, allowed[name], value) for name, value in values.items()]


def in_range(caller: str, name: str, allowed: Iterable, value: Any) -> Any:
    """A float if fractions are allowed, an int if compiled code can take it; or the value as is."""
    if not isinstance(value, Real):
        return value
    real = any(getattr(kind, "type", None) is Real for kind in allowed)
    try:
        if real:
            return float(value)
        if not isinstance(value, int) or abs(int(value)) <= _LARGEST_INT:
            return value
    except OverflowError:
        pass
    raise ValueError(
        f"The {name!r} parameter of {caller} must be within the range of "
        f"{'float64' if real else 'int64'}. Got {shown(value)} instead."
    )
