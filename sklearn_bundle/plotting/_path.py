"""The display of paths and of the cross-validation over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier

from sklearn_bundle.estimators._path import bmrm_path
from sklearn_bundle.plotting._figures import (
    axes_and_keywords,
    check_shapes,
    model_in,
    named_once,
    next_style,
    one_of,
    style,
)

_GRAY = "0.6"  # of the lines without a name: matplotlib's share of white


class RegularizationPathDisplay:
    """Coefficients along a path of models, or the scores that chose one of them.

    Make it by :meth:`from_path`, :meth:`from_data` or :meth:`from_estimator`; this constructor
    takes the arrays. The strongest regularization is on the left.

    Parameters
    ----------
    reg_lambdas : array-like of shape (n_lambdas,)
        Values of reg_lambda, positive; or of C.
    coefs : array-like of shape (n_features, n_lambdas) or (n_outputs, n_features, n_lambdas), \
default=None
        Coefficients. Either these or `scores` are needed; with both, the scores are drawn.
    scores : array-like of shape (n_folds, n_lambdas), default=None
        Score of every fold.
    best : float, default=None
        The chosen value.
    feature_names : sequence of str of shape (n_features,), default=None
        Names for the legend; None numbers them.
    score_name : str, default="score"
        What the scores are.
    parameter : {"reg_lambda", "C"}, default="reg_lambda"
        What the values are of.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the lines.
    figure_ : matplotlib Figure
        Figure of the axes.
    lines_ : list of matplotlib Line2D
        A line for each coefficient that is not 0 on the whole path, the largest ones first; or the
        mean score.
    nonzeros_ax_ : matplotlib Axes or None
        Axes of the number of coefficients that are not 0, if it was asked for.

    Raises
    ------
    ValueError
        Without `coefs` and `scores`, for another `parameter`, and if the shapes or the number of
        names do not fit together.

    See Also
    --------
    ConvergenceDisplay : How a fit went.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn_bundle.plotting import RegularizationPathDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> display = RegularizationPathDisplay.from_data(X / X.max(axis=0), y, reg_lambdas=4)
    >>> len(display.lines_)
    30
    """

    def __init__(
        self,
        reg_lambdas: ArrayLike,
        coefs: ArrayLike | None = None,
        scores: ArrayLike | None = None,
        *,
        best: float | None = None,
        feature_names: Sequence[str] | None = None,
        score_name: str = "score",
        parameter: str = "reg_lambda",
    ):
        if coefs is None and scores is None:
            raise ValueError("RegularizationPathDisplay needs coefs or scores, got neither.")
        one_of("parameter", parameter, ("reg_lambda", "C"))
        check_shapes(reg_lambdas, coefs, scores, feature_names)
        self.reg_lambdas, self.coefs, self.scores = reg_lambdas, coefs, scores
        self.best, self.feature_names = best, feature_names
        self.score_name, self.parameter = score_name, parameter

    @classmethod
    def from_path(
        cls,
        reg_lambdas: ArrayLike,
        coefs: ArrayLike,
        *rest: Any,
        feature_names: Sequence[str] | None = None,
        n_named: int = 6,
        nonzeros: bool = False,
        ax: Any = None,
        **line_kw: Any,
    ) -> Self:
        """Draw the coefficients of ``bmrm_path``, as in ``from_path(*bmrm_path(X, y))``.

        Parameters
        ----------
        reg_lambdas : array-like of shape (n_lambdas,)
            Values of reg_lambda.
        coefs : array-like of shape (n_features, n_lambdas) or (n_outputs, n_features, n_lambdas)
            Coefficients.
        *rest
            What else :func:`~sklearn_bundle.bmrm_path` returned, of which nothing is drawn.
        feature_names : sequence of str of shape (n_features,), default=None
            Names for the legend; None numbers them.
        n_named : int, default=6
            How many coefficients have colors and names, as in :meth:`plot`.
        nonzeros : bool, default=False
            Whether to draw the number of coefficients that are not 0, as in :meth:`plot`.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **line_kw
            For matplotlib's `plot`, for all lines; `label` is not among them.

        Returns
        -------
        display : RegularizationPathDisplay
            It has the lines.

        Raises
        ------
        ValueError
            If the shapes or the number of names do not fit together.
        TypeError
            For a `label`: the coefficients have `feature_names`.
        ImportError
            If matplotlib is missing.
        """
        display = cls(reg_lambdas, coefs, feature_names=feature_names)
        return display.plot(n_named=n_named, nonzeros=nonzeros, ax=ax, **line_kw)

    @classmethod
    def from_data(
        cls,
        X: Any,
        y: ArrayLike,
        *,
        feature_names: Sequence[str] | None = None,
        n_named: int = 6,
        nonzeros: bool = False,
        ax: Any = None,
        line_kw: dict[str, Any] | None = None,
        **params: Any,
    ) -> Self:
        """Draw the coefficients of all features along a path that is computed here.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Labels or targets.
        feature_names : sequence of str of shape (n_features,), default=None
            Names for the legend; None takes the columns of a data frame, and numbers the features
            of other X.
        n_named : int, default=6
            How many coefficients have colors and names, as in :meth:`plot`.
        nonzeros : bool, default=False
            Whether to draw the number of coefficients that are not 0, as in :meth:`plot`.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        line_kw : dict, default=None
            For matplotlib's `plot`, for all lines; `label` is not among them.
        **params
            Further parameters of :func:`~sklearn_bundle.bmrm_path`.

        Returns
        -------
        display : RegularizationPathDisplay
            It has the lines.

        Raises
        ------
        ValueError
            If the number of names is not that of the features, and as
            :func:`~sklearn_bundle.bmrm_path`.
        TypeError
            For a parameter that :func:`~sklearn_bundle.bmrm_path` does not have, and a `label`.
        ImportError
            If matplotlib is missing.
        """
        if feature_names is None and hasattr(X, "columns"):
            feature_names = [str(name) for name in X.columns]
        return cls.from_path(
            *bmrm_path(X, y, **params),
            feature_names=feature_names,
            n_named=n_named,
            nonzeros=nonzeros,
            ax=ax,
            **line_kw or {},
        )

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, label: str | None = None, ax: Any = None, **line_kw: Any
    ) -> Self:
        """Draw the scores of cross-validation: mean, one standard error, the chosen value.

        Parameters
        ----------
        estimator : BMRMClassifierCV, BMRMRegressorCV, SwapSVCCV, SwapSVRCV, or Pipeline of one
            Fitted.
        label : str, default=None
            Name of the mean score in the legend; None is "mean of n_folds folds".
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **line_kw
            For matplotlib's `plot`, for all lines.

        Returns
        -------
        display : RegularizationPathDisplay
            It has the line.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        TypeError
            For an estimator without ``scores_``, and a search with refit=False.
        ImportError
            If matplotlib is missing.
        """
        estimator = model_in(estimator, "scores_")
        name = estimator.scoring
        if name is None:
            name = "accuracy" if is_classifier(estimator) else "R2"
        parameter = "C" if hasattr(estimator, "Cs_") else "reg_lambda"
        display = cls(
            getattr(estimator, f"{parameter}s_"),
            scores=estimator.scores_,
            best=getattr(estimator, f"{parameter}_"),
            score_name=name if isinstance(name, str) else "score",
            parameter=parameter,
        )
        return display.plot(label=label, ax=ax, **line_kw)

    def plot(
        self,
        *,
        n_named: int = 6,
        nonzeros: bool = False,
        label: str | None = None,
        ax: Any = None,
        **line_kw: Any,
    ) -> Self:
        """Draw the lines.

        Parameters
        ----------
        n_named : int, default=6
            The coefficients with so many largest absolute values on the path have colors and
            names, the others are thin and gray.
        nonzeros : bool, default=False
            Whether to draw the number of coefficients that are not 0 as well, on an axis at the
            right.
        label : str, default=None
            Name of the mean score in the legend; None is "mean of n_folds folds".
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **line_kw
            For matplotlib's `plot`, for all lines.

        Returns
        -------
        self : RegularizationPathDisplay
            With ``ax_``, ``figure_``, ``lines_`` and ``nonzeros_ax_``.

        Raises
        ------
        ValueError
            For `nonzeros` without coefficients.
        TypeError
            For a `label` where coefficients are drawn, which have `feature_names`.
        ImportError
            If matplotlib is missing.
        """
        if label is not None and self.scores is None:
            raise TypeError(
                f"label={label!r} is for the mean score; coefficients are named by feature_names."
            )
        if nonzeros and self.coefs is None:
            raise ValueError("nonzeros=True needs coefs, got coefs=None.")
        self.ax_, line_kw = axes_and_keywords(self, ax, line_kw)
        self.figure_, self.lines_, self.nonzeros_ax_ = self.ax_.figure, [], None
        if self.scores is None:
            self._draw_coefs(n_named, line_kw)
        else:
            self._draw_scores(label, line_kw)
        if self.best is not None:
            name = f"{label}, chosen" if label else "chosen"
            name = named_once(self.ax_, f"{name}: {self.parameter} = {self.best:.3g}")
            color = self.lines_[0].get_color() if label else "0.3"
            self.ax_.axvline(self.best, color=color, linestyle="--", label=name)
        self.ax_.set(xscale="log", xlabel=self.parameter)
        if self.parameter == "reg_lambda" and not self.ax_.xaxis_inverted():
            self.ax_.invert_xaxis()
        if nonzeros:
            self._draw_nonzeros()
        if self.ax_.get_legend_handles_labels()[0]:
            self.ax_.legend()
        return self

    def _draw_coefs(self, n_named: int, line_kw: dict) -> None:
        coefs = np.asarray(self.coefs)
        *outputs, n_features, n_lambdas = coefs.shape
        names = self.feature_names
        names = [f"feature {j}" for j in range(n_features)] if names is None else list(names)
        if outputs:
            names = [f"{name}, output {k}" for k in range(outputs[0]) for name in names]
        coefs = coefs.reshape(-1, n_lambdas)
        largest = np.abs(coefs).max(axis=1)
        order = np.argsort(-largest, kind="stable")[: np.count_nonzero(largest)]
        first = next_style(self.ax_)
        for rank, j in enumerate(order):
            look = {"color": _GRAY, "linewidth": 0.6, "zorder": 1.5, "label": f"_{names[j]}"}
            if rank < n_named:
                look = style(first + rank) | {"label": names[j]}
            self.lines_ += self.ax_.plot(self.reg_lambdas, coefs[j], **look | line_kw)
        self.ax_.axhline(0.0, color="0.3", linewidth=0.6, zorder=1.0)
        self.ax_.set_ylabel("coefficient")

    def _draw_nonzeros(self) -> None:
        coefs = np.asarray(self.coefs)
        counts = np.count_nonzero(coefs.reshape(-1, coefs.shape[-1]), axis=0)
        self.nonzeros_ax_ = self.ax_.twinx()
        look = {"color": "0.3", "linestyle": ":"}
        self.nonzeros_ax_.plot(self.reg_lambdas, counts, **look)
        self.nonzeros_ax_.set_ylim(bottom=0)
        self.nonzeros_ax_.set_ylabel("coefficients that are not 0 (dotted)")

    def _draw_scores(self, label: str | None, line_kw: dict) -> None:
        scores = np.asarray(self.scores)
        n_folds, mean = len(scores), scores.mean(axis=0)
        label = f"mean of {n_folds} folds" if label is None else label
        look = style(next_style(self.ax_)) | {"label": label} | line_kw
        self.lines_ += self.ax_.plot(self.reg_lambdas, mean, **look)
        if n_folds > 1:
            error = scores.std(axis=0, ddof=1) / np.sqrt(n_folds)
            name = named_once(self.ax_, "one standard error")
            band = {"color": look["color"], "alpha": 0.15, "lw": 0, "label": name}
            self.ax_.fill_between(self.reg_lambdas, mean - error, mean + error, **band)
        self.ax_.set_ylabel(self.score_name)
