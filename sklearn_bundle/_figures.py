"""What the displays share: colours, axes, and where in a pipeline a model is."""

from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

# Okabe and Ito's colours, which the colour-blind can tell apart, without the pale yellow; markers
# do the same in grey.
COLOURS = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"
_MARKERS = "os^Dv*X"


def style(k: int) -> dict[str, Any]:
    """Colour and marker of the k-th line."""
    return {
        "color": COLOURS[k % len(COLOURS)],
        "marker": _MARKERS[k % len(_MARKERS)],
        "markersize": 4.0,
    }


def axes_and_keywords(display: Any, ax: Any, line_kw: dict) -> tuple[Any, dict]:
    """The axes to draw on, and keywords by their long names."""
    try:
        from matplotlib import cbook, lines, pyplot
    except ImportError as error:
        raise ImportError(
            f"{type(display).__name__}.plot requires matplotlib. You can install it with "
            '`pip install "sklearn-bundle[plot]"`'
        ) from error
    ax = pyplot.subplots(layout="constrained")[1] if ax is None else ax
    return ax, cbook.normalize_kwargs(line_kw, lines.Line2D)


def model_in(estimator: Any, attribute: str = "history_") -> Any:
    """What has the attribute: the last step of a pipeline, the best estimator of a search."""
    while isinstance(estimator, Pipeline) or hasattr(estimator, "best_estimator_"):
        pipeline = isinstance(estimator, Pipeline)
        estimator = estimator[-1] if pipeline else estimator.best_estimator_
    if not hasattr(estimator, attribute):
        check_is_fitted(estimator)
        raise TypeError(
            f"{type(estimator).__name__} has no {attribute}: it is no estimator of sklearn_bundle "
            "that keeps one, nor a pipeline or refitted search that ends in one."
        )
    return estimator
