"""Objective, bound and gap over the iterations of a fit; what all displays share."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
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


# Quantity on an axis -> its label.
_X = {
    "iteration": "iterations",
    "passes": "passes over the data, or rows of the kernel matrix",
    "seconds": "time in seconds",
}
_Y = {
    "gap": "relative gap: (objective - lower bound) / |objective|",
    "objective": "objective, and lower bound (dashed)",
}
_RESOLUTION = np.finfo(np.float64).eps  # a smaller relative gap is drawn as this, on a log axis


class ConvergenceDisplay:
    """Objective, lower bound or relative gap over the iterations of a fit.

    Create it with :meth:`from_estimator` or :meth:`from_estimators`; this constructor takes arrays.

    Parameters
    ----------
    histories : list of (structured ndarray or list of them)
        ``history_`` of each estimator; a list has one entry per subproblem.
    labels : list of str
        Name of each estimator, for the legend.
    tols : list of (float or None), default=None
        Target for the relative gap of each fit; None draws no line.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the lines.
    figure_ : matplotlib Figure
        Figure of the axes.
    lines_ : list of matplotlib Line2D
        One line per subproblem; for y="objective" two: the objective and the lower bound. Those of
        one estimator have one color.
    tol_lines_ : list of matplotlib Line2D
        A dashed line for each `tol`, for y="gap".

    Raises
    ------
    TypeError
        For a single history or tol instead of a list.

    See Also
    --------
    RegularizationPathDisplay : Coefficients and scores for many values of reg_lambda.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn_bundle import BMRMClassifier
    >>> from sklearn_bundle.plotting import ConvergenceDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BMRMClassifier(solver="line-search", reg_lambda=1e-2).fit(X / X.max(axis=0), y)
    >>> display = ConvergenceDisplay([model.history_], ["hinge"], [model.tol])
    >>> display.histories[0]["iteration"][:3]
    array([1, 2, 3])
    """

    def __init__(
        self,
        histories: Sequence[NDArray | list[NDArray]],
        labels: Sequence[str],
        tols: Sequence[float | None] | None = None,
    ):
        self.histories, self.labels = list(histories), list(labels)
        self.tols = [None] * len(self.labels) if tols is None else list(tols)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        x: str = "iteration",
        y: str = "gap",
        label: str | None = None,
        ax: Any = None,
        **line_kw: Any,
    ) -> Self:
        """Draw the convergence of an estimator's fit.

        Parameters
        ----------
        estimator : estimator of this package, Pipeline or search
            Fitted. For a pipeline the last step is drawn, for a search ``best_estimator_``, and for
            a cross-validated estimator the final fit.
        x : {"iteration", "passes", "seconds"}, default="iteration"
            Quantity on the horizontal axis. Each subproblem counts from its own start.

            * "iteration": as in ``n_iter_``; steps for :class:`~sklearn_bundle.SwapSVC`.
            * "passes": a measure of work that does not depend on the machine. For linear
              estimators, including :class:`~sklearn_bundle.PragamSVC`, products of X or its
              transpose with a vector, or their equivalent if a solver uses only some rows; for
              :class:`~sklearn_bundle.SDCACRF`, calls of the oracle divided by the number of
              sequences; for :class:`~sklearn_bundle.SwapSVC`, computed rows of the kernel matrix.
            * "seconds": since the start of the solver, without input checks. The first fit of its
              kind in a process includes the time to compile or load code.
        y : {"gap", "objective"}, default="gap"
            Quantity on the vertical axis.

            * "gap": ``(objective - lower_bound) / abs(objective)``, which is compared with `tol`,
              on a logarithmic axis, with `tol` as a dashed line. Gaps below 2.2e-16, including
              zero, are drawn at 2.2e-16: in double precision they equal zero.
            * "objective": the best objective so far, the lower bound dashed, and the band between
              them, which contains the minimum.
        label : str, default=None
            Name in the legend; None means the name of the class.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **line_kw
            Passed to matplotlib's `plot`, for all lines.

        Returns
        -------
        display : ConvergenceDisplay
            The display with its lines.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            For another `x` or `y`.
        TypeError
            For an estimator without ``history_``.
        ImportError
            If matplotlib is missing.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn_bundle import BMRMClassifier
        >>> from sklearn_bundle.plotting import ConvergenceDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = BMRMClassifier(reg_lambda=1e-2).fit(X / X.max(axis=0), y)
        >>> display = ConvergenceDisplay.from_estimator(model, x="passes")
        >>> len(display.lines_)
        1
        """
        label = type(model_in(estimator, "history_")).__name__ if label is None else label
        return cls.from_estimators({label: estimator}, x=x, y=y, ax=ax, **line_kw)

    @classmethod
    def from_estimators(
        cls,
        estimators: Mapping[str, BaseEstimator],
        *,
        x: str = "iteration",
        y: str = "gap",
        ax: Any = None,
        **line_kw: Any,
    ) -> Self:
        """Draw the convergence of several estimators in the same axes.

        Parameters
        ----------
        estimators : dict of str to estimator
            Names for the legend, and fitted estimators.
        x : {"iteration", "passes", "seconds"}, default="iteration"
            Horizontal axis, as in :meth:`from_estimator`; "passes" of different estimators may not
            be comparable.
        y : {"gap", "objective"}, default="gap"
            Vertical axis, as in :meth:`from_estimator`.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **line_kw
            Passed to matplotlib's `plot`, for all lines.

        Returns
        -------
        display : ConvergenceDisplay
            The display with its lines.

        Raises
        ------
        NotFittedError
            If an estimator is not fitted.
        ValueError
            For another `x` or `y`.
        TypeError
            For anything but a dict, and an estimator without ``history_``.
        ImportError
            If matplotlib is missing.
        """
        if not isinstance(estimators, Mapping):
            raise TypeError(
                "estimators must be a dict of names and fitted estimators, got a "
                f"{type(estimators).__name__}; from_estimator draws a single one."
            )
        fitted = [model_in(estimator, "history_") for estimator in estimators.values()]
        histories = [model.history_ for model in fitted]
        tols = [getattr(model, "tol", None) for model in fitted]
        return cls(histories, list(map(str, estimators)), tols).plot(x=x, y=y, ax=ax, **line_kw)

    def plot(self, *, x: str = "iteration", y: str = "gap", ax: Any = None, **line_kw: Any) -> Self:
        """Draw the lines.

        Parameters
        ----------
        x : {"iteration", "passes", "seconds"}, default="iteration"
            Horizontal axis, as in :meth:`from_estimator`.
        y : {"gap", "objective"}, default="gap"
            Vertical axis, as in :meth:`from_estimator`.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **line_kw
            Passed to matplotlib's `plot`, for all lines.

        Returns
        -------
        self : ConvergenceDisplay
            With ``ax_``, ``figure_``, ``lines_`` and ``tol_lines_``.

        Raises
        ------
        ValueError
            For another `x` or `y`.
        ImportError
            If matplotlib is missing.
        """
        one_of("x", x, _X)
        one_of("y", y, _Y)
        self.ax_, line_kw = axes_and_keywords(ax, line_kw)
        self.figure_, self.lines_, self.tol_lines_ = self.ax_.figure, [], []
        for history, label in zip(self.histories, self.labels, strict=True):
            own: dict[str, Any] = {"label": label}
            for part in history if isinstance(history, list) else [history]:
                lines = self._draw(part, x, y, line_kw | own)
                self.lines_ += lines
                own = {"label": None, "color": lines[0].get_color()}
        for tol in sorted({tol for tol in self.tols if tol is not None}) if y == "gap" else ():
            line = self.ax_.axhline(tol, color="0.3", linestyle="--", label=f"tol = {tol:g}")
            self.tol_lines_.append(line)
        scale = "log" if y == "gap" else "linear"
        self.ax_.set(xlabel=_X[x], ylabel=_Y[y], yscale=scale)
        self.ax_.legend()
        return self

    def _draw(self, history: NDArray, x: str, y: str, line_kw: dict) -> list:
        """The gap of a subproblem, or objective and bound with the band between them."""
        known = np.isfinite(history["objective"]) & np.isfinite(history["lower_bound"])
        at, high, low = (history[name][known] for name in (x, "objective", "lower_bound"))
        if y == "gap":
            with np.errstate(divide="ignore"):
                gap = np.divide(high - low, np.abs(high), out=np.zeros(len(at)), where=high > low)
            return self.ax_.plot(at, np.maximum(gap, _RESOLUTION), **line_kw)
        (upper,) = self.ax_.plot(history[x], history["objective"], **line_kw)
        dashed = {"label": None, "color": upper.get_color(), "linestyle": "--"}
        (lower,) = self.ax_.plot(at, low, **line_kw | dashed)
        self.ax_.fill_between(at, low, high, color=upper.get_color(), alpha=0.15, lw=0)
        return [upper, lower]
