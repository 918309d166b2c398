"""Common parts of every fit: parameters, the certificate, the warning, callbacks' mixin."""

import re
import warnings
from collections.abc import Callable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn import base
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle.core.contract import MISSES, SolverResult, Status
from sklearn_bundle.core.misread import refuse_misread
from sklearn_bundle.core.parameters import in_range, suggestion
from sklearn_bundle.core.sklearn_internals import InvalidParameterError, num_samples
from sklearn_bundle.core.values import as_numbers, plain, require_y, shown
from sklearn_bundle.core.weights import check_sample_weight

Method = TypeVar("Method", bound=Callable[..., Any])

if TYPE_CHECKING:  # scikit-learn has no types; public methods get them here

    class CallbackSupportMixin:
        def set_callbacks(self, *callbacks: Any) -> Self: ...

    def with_callbacks(method: Method) -> Method: ...
else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:  # scikit-learn before 1.9: callbacks are accepted and not called

        class CallbackSupportMixin:
            def set_callbacks(self, *callbacks):
                return self

        def with_callbacks(method):
            return method


__all__ = [
    "CallbackSupportMixin",
    "ClassifierMixin",
    "RegressorMixin",
    "certificate",
    "checked",
    "features_of",
    "warn_if_missed",
    "with_callbacks",
]

# Where classes are that users import from sklearn_bundle.losses or sklearn_bundle.regularizers.
_INSIDE = re.compile(r"(an instance of 'sklearn_bundle\.)\w+\.(losses|regularizers)\.\w+\.")
# Advice by parameter and unsupported value.
_AT_LIMITS = {
    ("reg_lambda", 0): "Without regularization there may be no optimum and no lower bound: use a "
    "small positive value such as 1e-6, or an estimator without regularization, such as "
    "LinearRegression or LogisticRegression without a penalty.",
    (
        "C",
        0,
    ): "The losses then have no weight, and w = 0 is the optimum: use a small positive value "
    "such as 1e-6, or for little regularization a large one such as 1e6.",
    ("C", float("inf")): "Without slack there may be no optimum: use a large value such as 1e6.",
}
_ABOUT_TOL = (
    " It limits the relative gap, dual_gap_ / abs(objective_): 1e-2 is within one percent of the "
    "optimum."
)
_FEATURES = "n_features_in_", "feature_names_in_"  # of scikit-learn, on any estimator


def checked_for_score(estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any) -> Any:
    """The weights of a score, None or checked; all may be 0, as in a fold of a search."""
    require_y(f"score of {type(estimator).__name__}", y)
    if sample_weight is None:
        return None
    return check_sample_weight(sample_weight, num_samples(X), all_zero=True)


class ClassifierMixin(base.ClassifierMixin):
    """scikit-learn's, with a check of y and of the weights of the score."""

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy of the predictions.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        score : float
            Between 0 and 1.
        """
        refuse_misread("y", y, dates=True)
        return super().score(X, y, checked_for_score(self, X, y, sample_weight))


class RegressorMixin(base.RegressorMixin):
    """scikit-learn's, with a check of y and of the weights of the score."""

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R^2 of the predictions, as scikit-learn's ``r2_score``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            True targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        score : float
            At most 1; the mean over several targets.
        """
        weights = checked_for_score(self, X, y, sample_weight)
        as_numbers("y", y)  # for an error that names y
        return super().score(X, y, weights)


def checked(estimator: BaseEstimator) -> BaseEstimator:
    """A copy to work on, with checked parameters and Python's own numbers.

    Parameters are read only here. The caller's estimator stays unchanged.
    """
    copied = object.__new__(type(estimator))
    vars(copied).update(vars(estimator))
    given = estimator.get_params(deep=False)
    for name, value in given.items():
        setattr(copied, name, plain(value))
    caller, constraints = type(estimator).__name__, estimator._parameter_constraints
    try:
        copied._validate_params()
    except InvalidParameterError as error:
        message = _INSIDE.sub(r"\1\2.", str(error))
        for (name, value), advice in _AT_LIMITS.items():
            own = getattr(copied, name, None)
            if isinstance(own, Real) and own == value and f"'{name}' parameter" in message:
                raise InvalidParameterError(f"{message} {advice}") from None
        wrong = next((name for name in given if f"The {name!r} parameter" in message), None)
        hint = suggestion(constraints.get(wrong, ()), given.get(wrong))
        if wrong == "loss":
            takers = getattr(copied, "_takers_of", lambda _: ())(given[wrong])
            hint = _who_takes(given[wrong], takers, caller) or hint
        elif wrong == "tol":
            hint = _ABOUT_TOL
        raise InvalidParameterError(f"{message}{hint}") from None
    for name in given:
        value = in_range(caller, name, constraints.get(name, ()), getattr(copied, name))
        setattr(copied, name, value)
    return copied


def _who_takes(loss: Any, takers: Sequence[str], caller: str) -> str:
    """Which estimators have a loss that this one lacks; empty if none has it."""
    takers = [name for name in takers if name != caller]
    if not takers:
        return ""
    single, *searches = takers
    name = searches[0] if searches and caller.endswith("CV") else single
    return f" {shown(loss)} is a loss of {name}."


def features_of(estimator: BaseEstimator) -> dict[str, Any]:
    """The attributes that scikit-learn's ``validate_data`` has set on an estimator."""
    return {name: vars(estimator)[name] for name in _FEATURES if name in vars(estimator)}


def certificate(results: list[SolverResult]) -> dict[str, Any]:
    """Fitted attributes: scalars for one problem, one entry per subproblem for several.

    Attributes of the fit as a whole are always scalars.
    """
    names = "objective_", "lower_bound_", "dual_gap_", "n_iter_", "status_", "history_"
    rows = [(r.primal, r.lower_bound, r.gap, r.n_iter, str(r.status), r.history) for r in results]
    values = rows[0]
    if len(rows) > 1:
        *numbers, statuses, histories = map(list, zip(*rows, strict=True))
        values = *map(np.array, numbers), statuses, histories
    return dict(zip(names, values, strict=True)) | {
        "converged_": all(r.status is Status.CONVERGED for r in results),
        "relative_gap_": float(max(r.relative_gap for r in results)),
    }


def warn_if_missed(
    name: str,
    results: list[SolverResult],
    tol: float,
    advice: dict[Status, str],
    *,
    names: list[str] | None = None,
    caveat: str | None = None,
    depth: int,
) -> bool:
    """One ConvergenceWarning, with the reached gap and tol in the same unit; whether there was one.

    With ``names`` of the results it names the worst. It begins with ``caveat``, and points
    ``depth`` calls above the function that calls this one.
    """
    missed = [k for k, r in enumerate(results) if r.status in MISSES]
    if not missed:
        return False
    place = max(missed, key=lambda k: results[k].relative_gap)
    worst = results[place]
    at = f" ({names[place]})" if names is not None and len(results) > 1 else ""
    of = f" in {len(missed)} of {len(results)} subproblems" if len(results) > 1 else ""
    steps = "1 iteration" if worst.n_iter == 1 else f"{worst.n_iter} iterations"
    advice_for = advice[worst.status]
    if worst.status is Status.STALLED and worst.primal == 0.0:
        advice_for = "No relative gap of an objective of 0 is finite."
    first = "" if caveat is None else f"{caveat} "
    warnings.warn(
        f"{first}{name} stopped{of} with status {str(worst.status)!r} after {steps} at "
        f"a relative duality gap of {worst.relative_gap:.2e}{at}, above tol={tol:.2e}. "
        f"{advice_for}",
        ConvergenceWarning,
        stacklevel=2 + depth,
    )
    return True
