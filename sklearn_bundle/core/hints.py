"""What to write in place of names that other libraries have, and of names that are misspelled."""

from difflib import get_close_matches
from functools import cache
from inspect import Parameter, signature
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

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
