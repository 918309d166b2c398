"""What the displays share: axes, and the model in a pipeline or a search."""

from collections.abc import Iterable
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.core.values import shown


def axes_and_keywords(ax: Any, line_kw: dict) -> tuple[Any, dict]:
    """The given axes or those of a new figure, and keywords with their long names."""
    try:
        from matplotlib import cbook, lines, pyplot
    except ImportError as error:
        raise ImportError(
            "Displays require matplotlib. You can install it with `pip install matplotlib`."
        ) from error
    ax = pyplot.subplots(layout="constrained")[1] if ax is None else ax
    return ax, cbook.normalize_kwargs(line_kw, lines.Line2D)


def one_of(name: str, value: Any, allowed: Iterable[str]) -> None:
    """Raise ValueError if the value of a parameter is not allowed."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {list(allowed)}, got {shown(value)}.")


def model_in(estimator: Any, attribute: str) -> Any:
    """The object with the attribute: last step of a pipeline, best estimator of a search."""
    while isinstance(estimator, Pipeline) or hasattr(estimator, "best_estimator_"):
        pipeline = isinstance(estimator, Pipeline)
        estimator = estimator[-1] if pipeline else estimator.best_estimator_
    if not hasattr(estimator, attribute):
        check_is_fitted(estimator)
        raise TypeError(
            f"{type(estimator).__name__} has no {attribute}: it must be a fitted estimator of "
            "sklearn_bundle that keeps one, or a pipeline or a refitted search that ends in one."
        )
    return estimator
