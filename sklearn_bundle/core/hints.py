"""What to write here for parameters that other libraries have."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

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


def hint(kind: type, name: str) -> str | None:
    """What to write for a parameter that the class does not have, as a sentence."""
    by_class = _HINTS.get(name, {})
    found = next(
        (by_class[base.__name__] for base in kind.__mro__ if base.__name__ in by_class), None
    )
    if found is None:
        return None
    own = signature(kind).parameters
    here = {one: f"{one}s" if f"{one}s" in own else one for one in ("reg_lambda", "C")}
    return f"In place of {name}, write {found.format(**here)}."


class Hinted:
    """Ends Python's TypeError about an unknown argument of the constructor or of ``fit`` by a hint.

    Both are wrapped for each subclass that defines them.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("__init__", "fit"):
            if name in vars(cls):
                setattr(cls, name, _hinted(vars(cls)[name]))


def _hinted(method: Callable[..., Any]) -> Callable[..., Any]:
    own = signature(method).parameters

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        unknown = next((name for name in kwargs if name not in own), None)
        advice = None if unknown is None else hint(type(self), unknown)
        if advice is None:
            return method(self, *args, **kwargs)
        try:
            return method(self, *args, **kwargs)
        except TypeError as error:  # of the call itself
            raise TypeError(f"{error}\n{advice}") from None

    return call
