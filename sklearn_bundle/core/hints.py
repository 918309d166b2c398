"""What to write in place of names that other libraries have, and of names that are misspelled."""

from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from inspect import getattr_static, isfunction, signature
from typing import TYPE_CHECKING, Any

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


def similar(value: str, offered: list[str]) -> str:
    """A question with the offered name most similar to ``value``; empty if none is similar."""
    names = {name.casefold(): name for name in offered}  # "L2" is "l2"
    alias = (_ALIASES | _SOLVERS).get(value.casefold())
    if value.casefold() in _SOLVERS and "auto" in names and alias not in names:
        return f" No solver here is called {value!r}; 'auto' chooses one of them."
    known = [name for name in (alias, f"neg_mean_{alias}") if name in names]  # loss, or score
    like = known or get_close_matches(value.casefold(), names, n=1)
    return f" Did you mean {names[like[0]]!r}?" if like else ""


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
