"""Displays, in scikit-learn's manner: how fits converged, and what regularization does."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sklearn_bundle._figures import COLOURS, axes_and_keywords, model_in, style
from sklearn_bundle._path_display import RegularizationPathDisplay

__all__ = ["ConvergenceDisplay", "RegularizationPathDisplay"]

_X = {"iteration": "iterations", "passes": "passes over the data", "seconds": "time in seconds"}
_X_OF_SWAP = _X | {"iteration": "steps", "passes": "rows of the kernel matrix computed"}
_Y = {
    "gap": "relative gap: (objective - lower bound) / |objective|",
    "objective": "objective and lower bound",
    "lower_bound": "lower bound",
}
_RESOLUTION = np.finfo(np.float64).eps


class ConvergenceDisplay:
    """Objective, lower bound or relative gap as the iterations of a fit went on.

    Make it by :meth:`from_estimator` or :meth:`from_estimators`; this constructor takes the arrays.

    Parameters
    ----------
    histories : list of (structured ndarray or list of them)
        ``history_`` of each estimator; a list has an entry a subproblem.
    labels : list of str
        Name of each estimator, for the legend.
    tols : list of (float or None), default=None
        Relative gap that each fit was to reach; None draws none.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the lines.
    figure_ : matplotlib Figure
        Figure of the axes.
    lines_ : list of matplotlib Line2D
        A line a subproblem; for y="objective" two, the objective and the lower bound.
    tol_lines_ : list of matplotlib Line2D
        A dashed line for each `tol`, for y="gap".

    See Also
    --------
    RegularizationPathDisplay : What changes with reg_lambda.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn_bundle import BMRMClassifier
    >>> from sklearn_bundle.plotting import ConvergenceDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BMRMClassifier(reg_lambda=1e-2).fit(X / X.max(axis=0), y)
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
        """Draw how the fit of an estimator went.

        Parameters
        ----------
        estimator : estimator of this package, Pipeline or search
            Fitted. Of a pipeline the last step is taken, of a search ``best_estimator_``, of a
            cross-validated estimator its final fit.
        x : {"iteration", "passes", "seconds"}, default="iteration"
            What is on the horizontal axis. Each subproblem counts from its own start.

            * "iteration": as in ``n_iter_``, for :class:`~sklearn_bundle.SwapSVC` steps.
            * "passes": a measure of work that does not depend on the machine. In the linear
              family, :class:`~sklearn_bundle.PragamSVC` too, products of X or its transpose with a
              vector, and the equivalent of them where a solver takes some rows only; for
              :class:`~sklearn_bundle.SDCACRF` calls of the oracle over the number of sequences;
              for :class:`~sklearn_bundle.SwapSVC` rows of the kernel matrix that were computed.
            * "seconds": since the solver began, without the checks of the input; in a process's
              first fit of its kind with the time of compiling or loading code.
        y : {"gap", "objective", "lower_bound"}, default="gap"
            What is on the vertical axis.

            * "gap": ``(objective - lower_bound) / abs(objective)``, which `tol` is compared with,
              on a logarithmic axis, and `tol` as a dashed line. Gaps below 2.2e-16, zero too, are
              drawn there: a double cannot tell them from zero.
            * "objective": the best objective so far, the lower bound dashed, and the band between
              them, which has the minimum in it.
            * "lower_bound": the lower bound alone, dashed.
        label : str, default=None
            Name in the legend; None is that of the class.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **line_kw
            For matplotlib's `plot`, for all lines.

        Returns
        -------
        display : ConvergenceDisplay
            It has the lines.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            For another `x` or `y`.
        TypeError
            For an estimator that keeps no ``history_``.
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
        label = type(model_in(estimator)).__name__ if label is None else label
        return cls.from_estimators({label: estimator}, x=x, y=y, ax=ax, **line_kw)

    @classmethod
    def from_estimators(
        cls,
        estimators: Mapping[str, BaseEstimator] | Sequence[BaseEstimator],
        *,
        x: str = "iteration",
        y: str = "gap",
        ax: Any = None,
        **line_kw: Any,
    ) -> Self:
        """Draw how the fits of several estimators went, in one axes.

        Parameters
        ----------
        estimators : dict of str to estimator, or sequence of estimators
            Fitted; the labels of a sequence are the names of the classes, numbered if equal.
        x : {"iteration", "passes", "seconds"}, default="iteration"
            Horizontal axis, as in :meth:`from_estimator`; "passes" of different kinds do not
            compare.
        y : {"gap", "objective", "lower_bound"}, default="gap"
            Vertical axis, as in :meth:`from_estimator`.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **line_kw
            For matplotlib's `plot`, for all lines.

        Returns
        -------
        display : ConvergenceDisplay
            It has the lines.

        Raises
        ------
        TypeError
            For an estimator that is neither in a dict nor in a sequence; and as
            :meth:`from_estimator`, which also tells the other errors.
        """
        if isinstance(estimators, BaseEstimator):
            raise TypeError(
                f"estimators must be a dict or a sequence of fitted estimators, got a "
                f"{type(estimators).__name__}; from_estimator draws a single one."
            )
        if isinstance(estimators, Mapping):
            fitted = {str(label): model_in(estimator) for label, estimator in estimators.items()}
        else:
            last = [model_in(estimator) for estimator in estimators]
            names = [type(estimator).__name__ for estimator in last]
            places = [names[:k].count(name) + 1 for k, name in enumerate(names)]
            fitted = {
                f"{name} {place}" if names.count(name) > 1 else name: estimator
                for name, place, estimator in zip(names, places, last, strict=True)
            }
        histories = [estimator.history_ for estimator in fitted.values()]
        tols = [getattr(estimator, "tol", None) for estimator in fitted.values()]
        return cls(histories, list(fitted), tols).plot(x=x, y=y, ax=ax, **line_kw)

    def plot(self, *, x: str = "iteration", y: str = "gap", ax: Any = None, **line_kw: Any) -> Self:
        """Draw the lines.

        Parameters
        ----------
        x : {"iteration", "passes", "seconds"}, default="iteration"
            Horizontal axis, as in :meth:`from_estimator`.
        y : {"gap", "objective", "lower_bound"}, default="gap"
            Vertical axis, as in :meth:`from_estimator`.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **line_kw
            For matplotlib's `plot`, for all lines.

        Returns
        -------
        self : ConvergenceDisplay
            With ``ax_``, ``figure_``, ``lines_`` and ``tol_lines_``.
        """
        for name, value, allowed in (("x", x, _X), ("y", y, _Y)):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {list(allowed)}, got {value!r}.")
        self.ax_, line_kw = axes_and_keywords(self, ax, line_kw)
        self.figure_, self.lines_, self.tol_lines_ = self.ax_.figure, [], []
        first = len({line.get_color() for line in self.ax_.get_lines()} & set(COLOURS))
        for k, (history, label) in enumerate(zip(self.histories, self.labels, strict=True), first):
            for part in history if isinstance(history, list) else [history]:
                self._draw(part, x, y, label, style(k) | line_kw)
                label = "_" + label.lstrip("_")  # matplotlib leaves these out of the legend
        for tol in sorted({tol for tol in self.tols if tol is not None}) if y == "gap" else ():
            line = self.ax_.axhline(tol, color="0.3", linestyle="--", label=f"tol = {tol:g}")
            self.tol_lines_.append(line)
        scale = "log" if y == "gap" else "linear"
        self.ax_.set(xlabel=self._unit(x), ylabel=_Y[y], yscale=scale)
        self.ax_.legend()
        return self

    def _unit(self, x: str) -> str:
        """What the horizontal axis counts, the field's name where that differs."""
        firsts = [
            history[0] if isinstance(history, list) else history for history in self.histories
        ]
        units = {(_X_OF_SWAP if "fw" in first.dtype.names else _X)[x] for first in firsts}
        return units.pop() if len(units) == 1 else x

    def _draw(self, history: NDArray, x: str, y: str, label: str, style: dict) -> None:
        at, objective, bound = history[x], history["objective"], history["lower_bound"]
        if y == "gap":
            self._line(at, relative_gaps(history), label, style)
        if y == "objective":
            self._line(at, objective, f"{label}: objective", style)
        if y in ("objective", "lower_bound"):
            self._line(at, bound, f"{label}: lower bound", {"linestyle": "--"} | style)
        if y == "objective":
            known = np.isfinite(objective) & np.isfinite(bound)
            self.ax_.fill_between(
                at[known], bound[known], objective[known], color=style["color"], alpha=0.15, lw=0
            )

    def _line(self, at: NDArray, values: NDArray, label: str, style: dict) -> None:
        known = np.isfinite(values)
        # on long lines every tenth of the diagonal; matplotlib then leaves out a single point
        marks = {"markevery": 0.1 if known.sum() > 10 else 1}
        self.lines_ += self.ax_.plot(at[known], values[known], label=label, **marks | style)


def relative_gaps(history: NDArray) -> NDArray[np.float64]:
    """``(objective - lower_bound) / abs(objective)`` of each row; at least 2.2e-16."""
    gap, objective = history["objective"] - history["lower_bound"], np.abs(history["objective"])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(gap <= 0.0, 0.0, gap / objective)
    return np.maximum(ratios, _RESOLUTION)
