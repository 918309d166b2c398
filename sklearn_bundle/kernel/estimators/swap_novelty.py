"""Novelty detection with kernels and a squared loss."""

from __future__ import annotations

from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin

from sklearn_bundle.core.fit import Outcome, fit_certified
from sklearn_bundle.core.parameters import Names
from sklearn_bundle.core.sklearn_internals import Interval
from sklearn_bundle.core.validation import check_unlabeled_data
from sklearn_bundle.core.warm import WarmStart
from sklearn_bundle.kernel.estimators._kernel_tube import KernelTubeEstimator, TubeTraining
from sklearn_bundle.kernel.problems.l2tube import Tube

_AROUND_ORIGIN = (
    "The origin must not lie inside the data with kernel='linear', as it does with standardized "
    "features: no half-space away from it holds them, and all samples are new. Use kernel='rbf', "
    "features that are not centered, or a larger C."
)
_TIE = 1e-9  # relative tolerance for scores of equal rows that are summed in another order


class SwapNoveltyDetector(OutlierMixin, KernelTubeEstimator):
    """Novelty detection by the one-class support vector machine with a squared loss.

    It minimizes over w, in the feature space of the kernel ``k(x, z) = <phi(x), phi(z)>``::

        J(w) = 1/2 ||w||^2 + 1/2 sum_i C_i max(0, 1 - <w, phi(x_i)>)^2

    where C_i is C times the sample weight. The result is a half-space of the feature space that is
    far from the origin and holds most of the data. With ``H_ij = k(x_i, x_j) + delta_ij / C_i``
    every a in the unit simplex gives the lower bound ``1 / (2 a'Ha)`` of J, so every fit comes with
    its duality gap. If all ``H_ii`` are equal, as for the RBF kernel without weights, the best a is
    the center, in terms of the points, of the smallest ball around all points in the feature space
    of H.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses, positive. The larger it is, the closer the boundary follows the
        outermost samples; see the notes for its relation to `nu`.
    contamination : "auto" or float, default="auto"
        Which samples are new. "auto": those that score below 1, the boundary of the objective. With
        a share in (0, 0.5], ``offset_`` is chosen so that at most this share of the training data,
        by weight, scores below it. The objective does not depend on it.
    kernel : {"rbf", "linear", "poly", "precomputed"} or callable, default="rbf"
        ``exp(-gamma ||x - z||^2)``; ``<x, z>``; ``(gamma <x, z> + coef0)^degree``; X is the matrix
        of kernel values; a callable takes (X, Z) and returns the array of shape (n_X, n_Z). It must
        be positive semidefinite, unlike "sigmoid".
    gamma : {"scale", "auto", "distance"} or float, default="scale"
        For "rbf" and "poly". ``1 / (n_features X.var())``, ``1 / n_features``, or one over the
        mean of ``||x - z||^2`` over all pairs. Sample weights count in "scale" and "distance".
    degree : int, default=3
        Degree of "poly", at least 0.
    coef0 : float, default=0.0
        Constant term of "poly", at least 0; 0 makes it homogeneous.
    tol : float, default=1e-3
        Relative duality gap to reach, in (0, 1]: ``dual_gap_ <= tol * abs(objective_)``.
        1e-3 is within 0.1 % of the optimum. Ranks of scores can depend on it: see the user guide.
    max_iter : int, default=1000
        Maximum number of iterations. Each takes one product with the kernel matrix.
    max_time : float, default=None
        Time limit in seconds for the whole fit. None means no limit.
    cache_size : float, default=1000
        Memory in MB, half for kernel values in single precision, half for factors of the kernel
        matrix. If not all values fit, products recompute them by blocks.
    warm_start : bool, default=False
        Whether to keep the last function and dual point and start from them when the next fit has
        the same X, weights and kernel; C and tol may differ. If nothing else has changed, the fit
        continues; a fit that has reached `tol` is kept.
    n_jobs : int, default=None
        Threads of BLAS and of `predict`. None means 1 outside of a joblib context.
    random_state : int, RandomState instance or None, default=None
        Seed for the points from which the factor is built.
    verbose : int, default=0
        1 prints a line a few times per second.

    Attributes
    ----------
    offset_ : float
        ``decision_function = score_samples - offset_``: 1, or the value that `contamination`
        implies.
    support_ : ndarray of shape (n_support,)
        Indices of the rows of X with a nonzero coefficient.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        These rows; empty for a precomputed kernel.
    n_support_ : ndarray of shape (1,)
        Their number.
    dual_coef_ : ndarray or CSR of shape (1, n_support)
        Coefficients of the scores ``sum_i dual_coef_i k(x_i, x)``. If the gap is not 0, a few may
        be negative.
    intercept_ : ndarray of shape (1,)
        ``-offset_``.
    coef_ : ndarray or CSR of shape (1, n_features)
        w, for the linear kernel only. Like `dual_coef_`, CSR if X was sparse.
    gamma_ : float
        The gamma used.
    objective_, lower_bound_, dual_gap_ : float
        J at the returned point, a lower bound of its minimum, and their difference. Where rounding
        leaves less than six digits of J, `objective_` is an upper bound of it.
    converged_ : bool
        Whether `status_` is "converged".
    relative_gap_ : float
        ``dual_gap_ / abs(objective_)``: what `tol` limits.
    n_iter_ : int
        Iterations.
    status_ : str
        "converged", "max_iter", "max_time", "callback", "interrupted", or "stalled" (rounding
        prevents further progress).
    history_ : structured ndarray of shape (`n_iter_`,)
        Fields ``iteration``, ``seconds``, ``objective``, ``lower_bound``, ``passes`` (products with
        the kernel matrix so far), ``rank`` (of the factor).
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had string names.
    shape_fit_ : tuple
        Shape of the training data.

    Raises
    ------
    ValueError
        For a parameter out of its range, NaN or infinity, negative or all-zero weights, a kernel
        matrix that is not square, a callable whose result has the wrong shape, a kernel that is not
        symmetric or not positive semidefinite. Nothing is fitted then.

    Warns
    -----
    ConvergenceWarning
        If `max_iter`, `max_time` or rounding ended the fit above `tol`.
    UserWarning
        With ``kernel="linear"`` if the origin lies inside the data, so that all samples are new.

    See Also
    --------
    sklearn.svm.OneClassSVM : The loss without the square, with `nu`.
    BMRMNoveltyDetector : Linear, with the loss not squared.

    Notes
    -----
    `C` and `contamination` together replace `nu` of :class:`~sklearn.svm.OneClassSVM`. There a
    sample beyond the margin has the coefficient ``1 / (nu n)`` at any distance, so nu is at least
    the share of outliers and at most that of support vectors. Here the coefficient is ``C_i max(0,
    1 - f(x_i))`` with ``f(x_i) = <w, phi(x_i)>``. At the optimum the support vectors are the
    samples that score below 1, ``sum_i C_i max(0, 1 - f(x_i)) = 2 J``, and C does not bound a share
    of samples: no nu is equivalent to a C. To fix a share of outliers, set `contamination`; only C
    decides the ranks of the scores. A large C permits no losses; for a small C, ``f`` is C n times
    the mean of the kernel functions, a density estimate.

    The dual is the problem on the simplex of section 2 of [1]_ for one class. With a free offset,
    ``min 1/2 ||w||^2 - rho + 1/2 sum_i C_i max(0, rho - <w, phi(x_i)>)^2`` has the same w up to the
    factor rho; its optimum is ``-a'Ha/2``. The method is that of :class:`SwapSVR`.

    References
    ----------
    .. [1] H. Allende, E. Frandi, R. Nanculef, C. Sartori: A novel Frank-Wolfe algorithm. Analysis
       and applications to large-scale SVM training, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle import SwapNoveltyDetector
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = SwapNoveltyDetector(contamination=0.1).fit(X)
    >>> model.predict([[0.0, 0.0], [4.0, 4.0]])
    array([ 1, -1])
    >>> round(float((model.predict(X) == -1).mean()), 2)
    0.1
    """

    offset_: float

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012 - scikit-learn's convention
        **KernelTubeEstimator._kernel_constraints,
        "contamination": [Names({"auto"}), Interval(Real, 0, 0.5, closed="right")],
    }
    _intercept = False

    def __init__(
        self,
        C: float = 1.0,
        *,
        contamination: str | float = "auto",
        kernel: Any = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        cache_size: float = 1000,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.C = C
        self.contamination = contamination
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.cache_size = cache_size
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data; for ``kernel="precomputed"``, the matrix of kernel values of shape
            (n_samples, n_samples).
        y : Ignored
            Present by scikit-learn's convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0, which multiply C. A weight of 2 counts as a repeated row, a weight of 0 as
            a missing one.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As listed for the class. Nothing is fitted then.
        """
        return fit_certified(self, X, None, sample_weight)

    def score_samples(self, X: Any) -> np.ndarray:
        """Scores ``sum_i dual_coef_i k(x_i, x)``; smaller means newer.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; for ``kernel="precomputed"``, of shape (n_samples, n_samples_fit).

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            In float64, from kernel values in single precision if the X of fit was.
        """
        return self._pair_scores(X)[0]

    def decision_function(self, X: Any) -> np.ndarray:
        """``score_samples(X) - offset_``, negative for new samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; for ``kernel="precomputed"``, of shape (n_samples, n_samples_fit).

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            At least 0 if a sample is not new.
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """Labels: -1 for new samples, +1 for others.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; for ``kernel="precomputed"``, of shape (n_samples, n_samples_fit).

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Integers -1 and +1.
        """
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    _all_new = False  # for the warning about it

    def _check(self, X: Any, y: Any, sample_weight: Any) -> TubeTraining:
        return self._training(check_unlabeled_data, X, sample_weight=sample_weight)

    def _tube(self, data: TubeTraining) -> Tube:
        return Tube(np.ones(data.samples.n_samples), 0.0, np.inf)

    def _model(self, data: TubeTraining, points: list[tuple[Any, Any]]) -> dict[str, Any]:
        """During the fit the scores are not known here, and the boundary is that of "auto"."""
        return self._machine(data, points[0][0]) | _boundary(1.0)

    def _further_attributes(self, data: TubeTraining, warm: WarmStart) -> dict[str, Any]:
        further = super()._further_attributes(data, warm)
        scores = warm.kept[0].function.scores
        if isinstance(self.contamination, str):  # "auto"
            # no sample reaches 1, and w separates them from the origin on neither side
            self._all_new = bool(scores.max() < 1.0 and scores.min() <= 0.0)
            return further
        return further | _boundary(_quantile(scores, data.samples.weights, self.contamination))

    def _caveat(self, outcome: Outcome) -> str | None:
        if self.kernel == "linear" and self._all_new:
            return _AROUND_ORIGIN
        return super()._caveat(outcome)


def _boundary(offset: float) -> dict[str, Any]:
    return {"offset_": offset, "intercept_": np.array([-offset])}


def _quantile(scores: NDArray[np.float64], weights: NDArray[np.float64], share: float) -> float:
    """A threshold with at most this share of the weights below it, between two scores.

    Scores that are equal up to rounding stay together, above it.
    """
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(weights[order])
    first = min(int(np.searchsorted(below, share * (1.0 + _TIE), side="right")), len(order) - 1)
    kept = scores[order[first]]
    tie = _TIE * np.abs(scores).max()
    lower = scores[scores < kept - tie]
    return float(kept - tie if len(lower) == 0 else 0.5 * (kept + lower.max()))
