"""The display of paths and of the cross-validation over them."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier

from sklearn_bundle.plotting._convergence import axes_and_keywords, model_in

_GRAY = "0.6"  # of lines without a name: share of white in matplotlib's notation


class RegularizationPathDisplay:
    """Coefficients along a path of models, or the scores that chose one of them.

    Create it with :meth:`from_path` or :meth:`from_estimator`; this constructor takes arrays. The
    strongest regularization is on the left.

    Parameters
    ----------
    reg_lambdas : array-like of shape (n_lambdas,)
        Positive values of reg_lambda or C.
    coefs : array-like of shape (n_features, n_lambdas) or (n_outputs, n_features, n_lambdas), \
default=None
        Coefficients. Either these or `scores` are required; with both, the scores are drawn.
    scores : array-like of shape (n_folds, n_lambdas), default=None
        Scores of each fold.
    best : float, default=None
        The chosen value.
    feature_names : sequence of str of shape (n_features,), default=None
        Names for the legend; None means numbers.
    score_name : str, default="score"
        Name of the scores.
    parameter : str, default="reg_lambda"
        Parameter that the values belong to, "reg_lambda" or "C".

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the lines.
    figure_ : matplotlib Figure
        Figure of the axes.
    lines_ : list of matplotlib Line2D
        One line for each coefficient that is nonzero anywhere on the path, the largest first; or
        the mean score.
    nonzeros_ax_ : matplotlib Axes or None
        Axes of the number of nonzero coefficients, if requested.

    Raises
    ------
    ValueError
        Without `coefs` and `scores`.

    See Also
    --------
    ConvergenceDisplay : Convergence of a fit.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn_bundle import bmrm_path
    >>> from sklearn_bundle.plotting import RegularizationPathDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = bmrm_path(X / X.max(axis=0), y, reg_lambdas=4)
    >>> display = RegularizationPathDisplay.from_path(path)
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
        self.reg_lambdas, self.coefs, self.scores = reg_lambdas, coefs, scores
        self.best, self.feature_names = best, feature_names
        self.score_name, self.parameter = score_name, parameter

    @classmethod
    def from_path(
        cls,
        path: Any,
        *,
        feature_names: Sequence[str] | None = None,
        n_named: int = 6,
        nonzeros: bool = False,
        ax: Any = None,
        **line_kw: Any,
    ) -> Self:
        """Draw the coefficients of ``bmrm_path``, as in ``from_path(bmrm_path(X, y))``.

        Parameters
        ----------
        path : what bmrm_path returned, or a tuple that begins like it
            Values of reg_lambda of shape (n_lambdas,) and coefficients of shape (n_features,
            n_lambdas) or (n_outputs, n_features, n_lambdas); what follows is ignored.
        feature_names : sequence of str of shape (n_features,), default=None
            Names for the legend; None means numbers.
        n_named : int, default=6
            Number of coefficients with colors and names, as in :meth:`plot`.
        nonzeros : bool, default=False
            Whether to draw the number of nonzero coefficients, as in :meth:`plot`.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **line_kw
            Passed to matplotlib's `plot`, for all lines.

        Returns
        -------
        display : RegularizationPathDisplay
            The display with its lines.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        reg_lambdas, coefs, *_ = path
        display = cls(reg_lambdas, coefs, feature_names=feature_names)
        return display.plot(n_named=n_named, nonzeros=nonzeros, ax=ax, **line_kw)

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, label: str | None = None, ax: Any = None, **line_kw: Any
    ) -> Self:
        """Draw the scores of cross-validation: mean, one standard error, the chosen value.

        Of a search over C and gamma, those with the chosen gamma.

        Parameters
        ----------
        estimator : BMRMClassifierCV, BMRMRegressorCV, SwapSVCCV, SwapSVRCV, or Pipeline of one
            Fitted.
        label : str, default=None
            Name of the mean score in the legend; None means "mean of n_folds folds".
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **line_kw
            Passed to matplotlib's `plot`, for all lines.

        Returns
        -------
        display : RegularizationPathDisplay
            The display with its line.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        TypeError
            For an estimator without ``scores_``.
        ImportError
            If matplotlib is missing.
        """
        estimator = model_in(estimator, "scores_")
        name = estimator.scoring
        if name is None:
            name = "accuracy" if is_classifier(estimator) else "R2"
        parameter = "C" if hasattr(estimator, "Cs_") else "reg_lambda"
        scores = estimator.scores_
        if scores.ndim == 3:
            scores = scores[:, :, np.flatnonzero(estimator.gammas_ == estimator.gamma_)[0]]
        display = cls(
            getattr(estimator, f"{parameter}s_"),
            scores=scores,
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
            Number of coefficients, those with the largest absolute values on the path, that have
            colors and names; the others are thin and gray.
        nonzeros : bool, default=False
            Whether to also draw the number of nonzero coefficients, on an axis at the right.
        label : str, default=None
            Name of the mean score in the legend; None means "mean of n_folds folds".
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **line_kw
            Passed to matplotlib's `plot`, for all lines.

        Returns
        -------
        self : RegularizationPathDisplay
            With ``ax_``, ``figure_``, ``lines_`` and ``nonzeros_ax_``.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        self.ax_, line_kw = axes_and_keywords(ax, line_kw)
        self.figure_, self.lines_, self.nonzeros_ax_ = self.ax_.figure, [], None
        if self.scores is None:
            self._draw_coefs(n_named, line_kw)
        else:
            self._draw_scores(label, line_kw)
        if self.best is not None:
            name = f"chosen: {self.parameter} = {self.best:.3g}"
            self.ax_.axvline(self.best, color="0.3", linestyle="--", label=name)
        self.ax_.set(xscale="log", xlabel=self.parameter)
        if self.parameter == "reg_lambda" and not self.ax_.xaxis_inverted():
            self.ax_.invert_xaxis()
        if nonzeros and self.scores is None:
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
        for rank, j in enumerate(order):
            drawing: dict[str, Any] = {"label": names[j]}
            if rank >= n_named:
                drawing = {"color": _GRAY, "linewidth": 0.6, "zorder": 1.5, "label": None}
            self.lines_ += self.ax_.plot(self.reg_lambdas, coefs[j], **drawing | line_kw)
        self.ax_.axhline(0.0, color="0.3", linewidth=0.6, zorder=1.0)
        self.ax_.set_ylabel("coefficient")

    def _draw_nonzeros(self) -> None:
        coefs = np.asarray(self.coefs)
        counts = np.count_nonzero(coefs.reshape(-1, coefs.shape[-1]), axis=0)
        self.nonzeros_ax_ = self.ax_.twinx()
        self.nonzeros_ax_.plot(self.reg_lambdas, counts, color="0.3", linestyle=":")
        self.nonzeros_ax_.set(ylabel="coefficients that are not 0 (dotted)", ylim=(0, None))

    def _draw_scores(self, label: str | None, line_kw: dict) -> None:
        scores = np.asarray(self.scores)
        n_folds, mean = len(scores), scores.mean(axis=0)
        label = f"mean of {n_folds} folds" if label is None else label
        self.lines_ += self.ax_.plot(self.reg_lambdas, mean, **{"label": label} | line_kw)
        if n_folds > 1:
            error = scores.std(axis=0, ddof=1) / np.sqrt(n_folds)
            band = {"color": self.lines_[0].get_color(), "alpha": 0.15, "lw": 0}
            self.ax_.fill_between(self.reg_lambdas, mean - error, mean + error, **band)
        self.ax_.set_ylabel(f"{self.score_name}, with one standard error")
