"""Users' parameters: checks, conversion to plain numbers, and what to write for other names."""

from collections.abc import Callable, Iterable, Set
from difflib import get_close_matches
from functools import wraps
from inspect import getattr_static, isfunction, signature
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

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
    if type(value) is float or not isinstance(value, Real):
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


# ---- parameters and methods that other libraries have ------------------------------------------

# For a name and the first class of an estimator's bases that is listed: what to write instead.
# {reg_lambda} and {C} become the names of a search over them, for which values are given.
_ONLY_L2 = "nothing for 'l2', the only one here"
_HINTS: dict[str, dict[str, str]] = {
    "alpha": {
        "BMRMRegressor": "{reg_lambda}: Ridge's alpha divided by the number of rows, or the alpha "
        "of Lasso, ElasticNet, QuantileRegressor and PoissonRegressor as it is",
        "CertifiedLinear": "{reg_lambda}, which is SGDClassifier's alpha",
        "SwapSVR": "{C}, 1 / alpha for KernelRidge's alpha, with epsilon=0",
        "KernelMachine": "{C}, which weighs the losses, not the penalty",
        "CertifiedEstimator": "{reg_lambda}",
    },
    "penalty": {
        "PragamSVC": f"{_ONLY_L2}; BMRMClassifier(regularizer=...) has others",
        "BundleEstimator": "regularizer: 'l2', 'l1' or 'elasticnet'",
        "SDCACRF": "l1_ratio: 0 for 'l2', between 0 and 1 for 'elasticnet'",
        "CertifiedEstimator": _ONLY_L2,
    },
    "nu": {
        "SwapNoveltyDetector": "C, and contamination for the share of samples that are new",
        "KernelMachine": "{C}: NuSVC and NuSVR have no counterpart",
        "CertifiedLinear": "{reg_lambda}: NuSVC and NuSVR have no counterpart",
        "CertifiedEstimator": "{reg_lambda}",
    },
    "c1": {
        "SDCACRF": "{reg_lambda}=(c1 + 2 * c2) / n and l1_ratio=c1 / (c1 + 2 * c2) for n sequences",
        "BundleEstimator": "regularizer='l1' or 'elasticnet', and {reg_lambda}=c1 / n for n rows",
        "CertifiedEstimator": "nothing for c1=0: there is no L1 here",
    },
    "c2": {
        "SDCACRF": "{reg_lambda}=2 * c2 / n for n sequences, or with c1 above 0 "
        "{reg_lambda}=(c1 + 2 * c2) / n and l1_ratio=c1 / (c1 + 2 * c2)",
        "KernelMachine": "{C}=1 / (2 * c2)",
        "CertifiedEstimator": "{reg_lambda}=2 * c2 / n for n samples",
    },
    "probability": {
        "SwapSVC": "CalibratedClassifierCV(SwapSVC(...)), which has predict_proba",
        "PragamSVC": "CalibratedClassifierCV(PragamSVC(...)), which has predict_proba",
        "BMRMClassifier": "loss='log_loss' or loss='softmax', which have predict_proba, or wrap "
        "the estimator in CalibratedClassifierCV",
        "StructuredSVM": "loss='log', which has predict_proba for models of classes",
        "SDCACRF": "nothing: predict_marginals is there after each fit",
        "CertifiedEstimator": "nothing: there are no classes with probabilities here",
    },
    "qid": {
        "BMRMRanker": "group, a query id per row, in fit and score",
        "CertifiedEstimator": "nothing; BMRMRanker takes a query id per row as group, in fit",
    },
    "C": {
        "SDCACRF": "{reg_lambda}=1 / (C * n) for n sequences",
        "PathSearch": "{C}",
        "KernelSearch": "{C}",
        "CertifiedEstimator": "{reg_lambda}=1 / (C * n), with n the sum of the weights",
    },
    "reg_lambda": {
        "KernelMachine": "{C}=1 / (n * reg_lambda) for n rows",
        "CertifiedEstimator": "{reg_lambda}",
    },
}
_HINTS |= dict.fromkeys(("predict_proba", "predict_log_proba"), _HINTS["probability"])


def hint(kind: type, name: str) -> str | None:
    """What to write for a parameter or method that the class does not have, as a sentence."""
    by_class = _HINTS.get(name, {})
    found = next(
        (by_class[base.__name__] for base in kind.__mro__ if base.__name__ in by_class), None
    )
    if found is None:
        return None
    own = signature(kind).parameters
    here = {one: f"{one}s" if f"{one}s" in own else one for one in ("reg_lambda", "C")}
    return f"In place of {name}, write {found.format(**here)}."


class ForCallers:
    """Says what to write in place of names that other libraries have.

    Python's TypeError about an unknown argument of the constructor or of ``fit`` ends with a hint,
    by a function around both, and so does its AttributeError about an unknown method.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("__init__", "fit"):
            method = getattr_static(cls, name, None)  # not what a descriptor makes of it
            if isfunction(method) and not hasattr(method, "_is_for_callers"):
                setattr(cls, name, _for_callers(method))

    if not TYPE_CHECKING:  # type checkers would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            advice = hint(type(self), name)
            if advice is None:
                return self.__getattribute__(name)  # raises its error again
            missing = f"{type(self).__name__!r} object has no attribute {name!r}."
            raise AttributeError(f"{missing} {advice}", name=name, obj=self)


def _for_callers(method: Callable[..., Any]) -> Callable[..., Any]:
    own = signature(method).parameters

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        unknown = next((name for name in kwargs if name not in own), None)
        advice = None if unknown is None else hint(type(self), unknown)
        try:
            return method(self, *args, **kwargs)
        except TypeError as error:
            if advice is None:
                raise
            raise TypeError(f"{error}\n{advice}") from None  # of the call itself

    # Types of functions have no attributes of one's own; this one says not to wrap it again.
    call._is_for_callers = True  # type: ignore[attr-defined]
    return call
