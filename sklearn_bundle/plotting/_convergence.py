"""Objective, bound and gap over the iterations of a fit."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sklearn_bundle.plotting._figures import (
    COLORS,
    axes_and_keywords,
    model_in,
    named_once,
    next_style,
    one_of,
    relative_gaps,
    style,
)

# Quantity on an axis -> its label.
_X = {"iteration": "iterations", "passes": "passes over the data", "seconds": "time in seconds"}
# Labels for the kernel machines, which count other units.
_OF_SWAP = {"fw", "blocks"}  # fields that only solvers of kernel machines have
_X_OF_SWAP = _X | {"iteration": "steps", "passes": "rows of the kernel matrix computed"}
# Quantity to draw -> the label of its axis.
_Y = {
    "gap": "relative gap: (objective - lower bound) / |objective|",
    "objective": "objective and lower bound",
    "lower_bound": "lower bound",
}


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
        One line per subproblem; for y="objective" two: the objective and the lower bound.
    tol_lines_ : list of matplotlib Line2D
        A dashed line for each `tol`, for y="gap".

    Raises
    ------
    TypeError
        For a single history, label or tol instead of a list.
    ValueError
        For lists of unequal length.

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
        for name, value in (("histories", histories), ("labels", labels), ("tols", tols)):
            structured = isinstance(value, np.ndarray) and value.dtype.names
            if structured or isinstance(value, str | Real):
                raise TypeError(
                    f"{name} must be a list with one entry per estimator, got a single "
                    f"{type(value).__name__}; write [{name}] for one estimator."
                )
        self.histories, self.labels = list(histories), list(labels)
        self.tols = [None] * len(self.labels) if tols is None else list(tols)
        lengths = len(self.histories), len(self.labels), len(self.tols)
        if len(set(lengths)) > 1:
            raise ValueError(
                "histories, labels and tols must have one entry per estimator, got "
                "{}, {} and {} entries.".format(*lengths)
            )

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

        Of several subproblems, up to seven have a line of their own color, with the name of the
        class, pair of classes or target.

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
        y : {"gap", "objective", "lower_bound"}, default="gap"
            Quantity on the vertical axis.

            * "gap": ``(objective - lower_bound) / abs(objective)``, which is compared with `tol`,
              on a logarithmic axis, with `tol` as a dashed line. Gaps below 2.2e-16, including
              zero, are drawn at 2.2e-16: in double precision they equal zero.
            * "objective": the best objective so far, the lower bound dashed, and the band between
              them, which contains the minimum.
            * "lower_bound": only the lower bound, dashed.
        label : str, default=None
            Name in the legend; None means the name of the class.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **line_kw
            Passed to matplotlib's `plot`, for all lines; for y="objective" the lower bound stays
            dashed.

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
            For an estimator without ``history_``, and a search with refit=False.
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
        """Draw the convergence of several estimators in the same axes.

        Parameters
        ----------
        estimators : dict of str to estimator, or sequence of estimators
            Fitted. For a sequence, the labels are the names of the classes, numbered if equal.
        x : {"iteration", "passes", "seconds"}, default="iteration"
            Horizontal axis, as in :meth:`from_estimator`; "passes" of different estimators may not
            be comparable.
        y : {"gap", "objective", "lower_bound"}, default="gap"
            Vertical axis, as in :meth:`from_estimator`.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **line_kw
            Passed to matplotlib's `plot`, as in :meth:`from_estimator`; `label` is not allowed.

        Returns
        -------
        display : ConvergenceDisplay
            The display with its lines.

        Raises
        ------
        NotFittedError
            If an estimator is not fitted.
        ValueError
            For another `x` or `y`, and if there is no estimator.
        TypeError
            For a single estimator, an estimator without ``history_``, a search with refit=False,
            and a `label`.
        ImportError
            If matplotlib is missing.
        """
        if isinstance(estimators, BaseEstimator):
            raise TypeError(
                f"estimators must be a dict or a sequence of fitted estimators, got a "
                f"{type(estimators).__name__}; from_estimator draws a single one."
            )
        named = isinstance(estimators, Mapping)
        fitted = [model_in(one) for one in (estimators.values() if named else estimators)]
        if not fitted:
            raise ValueError(f"estimators must hold at least one estimator, got {estimators!r}.")
        names = [type(estimator).__name__ for estimator in fitted]
        labels = [
            f"{name} {names[:k].count(name) + 1}" if names.count(name) > 1 else name
            for k, name in enumerate(names)
        ]
        histories = [estimator.history_ for estimator in fitted]
        tols = [getattr(estimator, "tol", None) for estimator in fitted]
        labels = [str(label) for label in estimators] if named else labels
        if len(fitted) == 1:
            histories, labels = _by_subproblem(fitted[0], labels[0])
            tols = tols * len(histories)
        return cls(histories, labels, tols).plot(x=x, y=y, ax=ax, **line_kw)

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
            Passed to matplotlib's `plot`, as in :meth:`from_estimator`; `label` is not allowed.

        Returns
        -------
        self : ConvergenceDisplay
            With ``ax_``, ``figure_``, ``lines_`` and ``tol_lines_``.

        Raises
        ------
        ValueError
            For another `x` or `y`.
        TypeError
            For a `label`: each estimator has its own.
        ImportError
            If matplotlib is missing.
        """
        one_of("x", x, _X)
        one_of("y", y, _Y)
        if "label" in line_kw:
            raise TypeError(
                f"label={line_kw['label']!r} would name all lines the same. Name the estimators by "
                "a dict, from_estimators({label: estimator}), or by the labels of the constructor."
            )
        self.ax_, line_kw = axes_and_keywords(self, ax, line_kw)
        self.figure_, self.lines_, self.tol_lines_ = self.ax_.figure, [], []
        named = enumerate(zip(self.histories, self.labels, strict=True), next_style(self.ax_))
        for k, (history, label) in named:
            for part in history if isinstance(history, list) else [history]:
                self._draw(part, x, y, label, style(k) | line_kw)
                label = "_" + label.lstrip("_")  # matplotlib leaves these out of the legend
        for tol in sorted({tol for tol in self.tols if tol is not None}) if y == "gap" else ():
            name = named_once(self.ax_, f"tol = {tol:g}")
            self.tol_lines_.append(self.ax_.axhline(tol, color="0.3", linestyle="--", label=name))
        scale = "log" if y == "gap" else "linear"
        self.ax_.set(xlabel=self._unit(x), ylabel=_Y[y], yscale=scale)
        self.ax_.legend()
        return self

    def _unit(self, x: str) -> str:
        """Label of the horizontal axis; the field's name if the labels differ."""
        firsts = [
            history[0] if isinstance(history, list) else history for history in self.histories
        ]
        units = {
            (_X_OF_SWAP if _OF_SWAP & set(first.dtype.fields or ()) else _X)[x] for first in firsts
        }
        return units.pop() if len(units) == 1 else x

    def _draw(self, history: NDArray, x: str, y: str, label: str, style: dict) -> None:
        at, objective, bound = history[x], history["objective"], history["lower_bound"]
        if y == "gap":
            self._line(at, relative_gaps(history), label, style)
        if y == "objective":
            self._line(at, objective, f"{label}: objective", style)
            # always dashed, to distinguish the two lines
            self._line(at, bound, f"{label}: lower bound", style | {"linestyle": "--"})
            known = np.isfinite(objective) & np.isfinite(bound)
            self.ax_.fill_between(
                at[known], bound[known], objective[known], color=style["color"], alpha=0.15, lw=0
            )
        if y == "lower_bound":
            self._line(at, bound, f"{label}: lower bound", {"linestyle": "--"} | style)

    def _line(self, at: NDArray, values: NDArray, label: str, style: dict) -> None:
        known = np.isfinite(values)
        # on long lines at every tenth of the diagonal; matplotlib then omits single points
        marks = {"markevery": 0.1 if known.sum() > 10 else 1}
        self.lines_ += self.ax_.plot(at[known], values[known], label=label, **marks | style)


def _by_subproblem(estimator: Any, label: str) -> tuple[list, list[str]]:
    """Histories and labels of an estimator's subproblems, or of itself if they are many."""
    histories = estimator.history_
    if not isinstance(histories, list) or len(histories) > len(COLORS):
        return [histories], [label]
    names = estimator._subproblems(getattr(estimator, "classes_", None), len(histories))
    return histories, [f"{label}, {name}" for name in names]
