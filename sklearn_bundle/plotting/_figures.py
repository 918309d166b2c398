"""Shared code of the displays: colors, axes, and access to the model in a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.core.values import shown

# Okabe and Ito's colors, which are safe for color-blind readers, without the pale yellow; the
# markers distinguish the lines in gray.
COLORS = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"
_MARKERS = "os^Dv*X"  # as many as colors
_RESOLUTION = np.finfo(np.float64).eps  # a smaller relative gap is drawn as this, on a log axis
# Missing attribute -> explanation for the error message.
_INSTEAD = {
    "history_": "it must be an estimator of sklearn_bundle that keeps one, or a pipeline or "
    "refitted search that ends in one",
    "scores_": "use BMRMClassifierCV, BMRMRegressorCV, SwapSVCCV or SwapSVRCV, or a pipeline that "
    "ends in one; from_path draws coefficients",
}


def style(k: int) -> dict[str, Any]:
    """Color and marker of the k-th line."""
    return {
        "color": COLORS[k % len(COLORS)],
        "marker": _MARKERS[k % len(_MARKERS)],
        "markersize": 4.0,
    }


def next_style(ax: Any) -> int:
    """Number of the first style that is not used in the axes."""
    return len({line.get_color() for line in ax.get_lines()} & set(COLORS))


def named_once(ax: Any, label: str) -> str:
    """The label, or a hidden one if the legend already has it."""
    return f"_{label}" if label in ax.get_legend_handles_labels()[1] else label


def one_of(name: str, value: Any, allowed: Iterable[str]) -> None:
    """Raise ValueError if the value of a parameter is not allowed."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {list(allowed)}, got {shown(value)}.")


def check_shapes(
    reg_lambdas: ArrayLike,
    coefs: ArrayLike | None,
    scores: ArrayLike | None,
    feature_names: Sequence[str] | None,
) -> None:
    """Raise ValueError if the shapes of the arrays of a path do not match."""
    values = np.shape(reg_lambdas)
    if len(values) != 1:
        raise ValueError(f"reg_lambdas must have shape (n_lambdas,), got {values}.")
    for name, array, dimensions, allowed in (
        ("coefs", coefs, (2, 3), "([n_outputs, ]n_features, n_lambdas)"),
        ("scores", scores, (2,), "(n_folds, n_lambdas)"),
    ):
        if array is None:
            continue
        shape = np.shape(array)
        if len(shape) not in dimensions or shape[-1:] != values:
            raise ValueError(
                f"{name} must have shape {allowed} with n_lambdas={values[0]}, as reg_lambdas "
                f"has, got {shape}."
            )
    if coefs is not None and feature_names is not None:
        n_features = np.shape(coefs)[-2]
        if len(feature_names) != n_features:
            raise ValueError(
                f"feature_names must have one name for each of the {n_features} features of "
                f"coefs, got {len(feature_names)} names."
            )


def axes_and_keywords(display: Any, ax: Any, line_kw: dict) -> tuple[Any, dict]:
    """The axes to draw on, and keywords with their long names."""
    try:
        from matplotlib import cbook, lines, pyplot
    except ImportError as error:
        raise ImportError(
            f"{type(display).__name__}.plot requires matplotlib. You can install it with "
            "`pip install matplotlib`."
        ) from error
    ax = pyplot.subplots(layout="constrained")[1] if ax is None else ax
    return ax, cbook.normalize_kwargs(line_kw, lines.Line2D)


def model_in(estimator: Any, attribute: str = "history_") -> Any:
    """The object with the attribute: last step of a pipeline, best estimator of a search."""
    while isinstance(estimator, Pipeline) or hasattr(estimator, "best_estimator_"):
        pipeline = isinstance(estimator, Pipeline)
        estimator = estimator[-1] if pipeline else estimator.best_estimator_
    if not hasattr(estimator, attribute):
        check_is_fitted(estimator)
        name = type(estimator).__name__
        if hasattr(estimator, "cv_results_") and not getattr(estimator, "refit", True):
            raise TypeError(
                f"{name} has no best_estimator_: it was fitted with refit={estimator.refit!r}, and "
                "refit=True is needed."
            )
        raise TypeError(f"{name} has no {attribute}: {_INSTEAD[attribute]}.")
    return estimator


def relative_gaps(history: NDArray) -> NDArray[np.float64]:
    """``(objective - lower_bound) / abs(objective)`` of each row; at least 2.2e-16."""
    gap, objective = history["objective"] - history["lower_bound"], np.abs(history["objective"])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(gap <= 0.0, 0.0, gap / objective)
    return np.maximum(ratios, _RESOLUTION)
