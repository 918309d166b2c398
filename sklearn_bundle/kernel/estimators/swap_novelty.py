"""Novelty detection with kernels."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin

from sklearn_bundle.core.docs import fill_doc
from sklearn_bundle.core.estimator import Fit, OneCertificate, Points, points_of, with_callbacks
from sklearn_bundle.core.optimum import CertainDetector
from sklearn_bundle.core.parallel import blas_threads, split_threads
from sklearn_bundle.core.parameters import Interval, Names
from sklearn_bundle.core.validation import check_unlabeled_data
from sklearn_bundle.core.values import gathered
from sklearn_bundle.kernel.estimators.machine import (
    KernelMachine,
    Training,
    attributes_of,
    hints,
    solved,
    training,
)
from sklearn_bundle.kernel.estimators.swap import linear_advice
from sklearn_bundle.kernel.problem import Dual

Array = NDArray[np.float64]

_AROUND_ORIGIN = (
    "The origin must not lie inside the data, as it does with standardized features: no half-space "
    "away from it holds enough of them, so all samples are on its boundary or new. Use "
    "kernel='rbf', or features that are not centered, for instance from MinMaxScaler."
)
_TIE = 1e-9  # relative tolerance for scores of equal rows that are summed in another order


@fill_doc
class SwapNoveltyDetector(CertainDetector, OutlierMixin, OneCertificate, KernelMachine):
    """Novelty detection by a one-class SVM with a certificate.

    Take it in place of :class:`~sklearn.svm.OneClassSVM`. With the kernel ``k(x, z) = <phi(x),
    phi(z)>`` and the sample weights s_i it minimizes what OneClassSVM does::

        J(w, rho) = 1/2 ||w||^2 + sum_i s_i max(0, rho - <w, phi(x_i)>) - nu rho sum_i s_i

    which is negative or 0; scores and predictions at equal nu are the same. With ``nu=None`` there
    is a squared loss around a fixed threshold, where C_i is C times the sample weight::

        J(w) = 1/2 ||w||^2 + 1/2 sum_i C_i max(0, 1 - <w, phi(x_i)>)^2

    Parameters
    ----------
    C : float, default=1.0
        Weight of the squared losses, positive; used with ``nu=None``. The larger it is, the closer
        the boundary follows the outermost samples.
    nu : float, default=0.5
        At least the share of the weights of new samples, and at most that of support vectors, in
        (0, 1]. Samples that score rho to within the precision may be on either side. None is the
        squared loss.
    contamination : "auto" or float, default="auto"
        Which samples are new. "auto": those that score below rho, or below 1 with ``nu=None``. A
        share in (0, 0.5]: at most this share of the training data, by weight.
    %(kernel)s
    %(tol: 1e-3)s
    %(max_iter_kernel)s
    %(max_time)s
    %(cache_size_rows)s
    %(warm_start_function: X, weights and kernel)s
    %(n_jobs: of BLAS and of `predict`)s
    %(random_state: working sets)s
    %(verbose)s

    Attributes
    ----------
    offset_ : float
        ``decision_function = score_samples - offset_``: rho, or 1, or the value that
        `contamination` implies.
    %(machine)s
    dual_coef_ : ndarray or CSR of shape (1, n_support)
        Coefficients of the scores ``sum_i dual_coef_i k(x_i, x)``.
    intercept_ : ndarray of shape (1,)
        ``-offset_``.
    %(certificate: J)s
        Where rounding leaves less than six digits of J, `objective_` is an upper bound of it.
    %(convergence)s
    %(history: kernel rows so far)s
        ``steps``, a row per working set.
    %(features)s

    Raises
    ------
    %(invalid_kernel)s

    Warns
    -----
    %(missed_tol)s
    UserWarning
        If the origin lies inside the data, with a linear or polynomial kernel: then w is 0.

    See Also
    --------
    sklearn.svm.OneClassSVM : The objective with `nu`, without a certificate.
    BMRMNoveltyDetector : Linear.

    Notes
    -----
    User guide: :ref:`novelties`.

    With the squared loss no nu is equivalent to a C. With ``H_ij = k(x_i, x_j) + delta_ij / C_i``
    every a in the unit simplex gives the bound ``1 / (2 a'Ha)``, the problem of section 2 of [1]_
    for one class. With `nu` the bound is ``-1/2 a'Ka``, with ``0 <= a_i <= s_i`` and ``sum_i a_i =
    nu sum_i s_i``. See :doc:`/user_guide/kernels_theory`.

    References
    ----------
    %(swap_paper: 1)s

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle import SwapNoveltyDetector
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = SwapNoveltyDetector(nu=None, contamination=0.1).fit(X)
    >>> model.predict([[0.0, 0.0], [4.0, 4.0]])
    array([ 1, -1])
    >>> round(float((model.predict(X) == -1).mean()), 2)
    0.1
    """

    offset_: float
    _offsets: tuple[float, float]  # between them is that of the optimum

    _allowed: ClassVar[dict[str, Any]] = {
        **KernelMachine._kernel_constraints,
        "nu": [Interval(Real, 0, 1, closed="right"), None],
        "contamination": [Names({"auto"}), Interval(Real, 0, 0.5, closed="right")],
    }
    _used_with = {**KernelMachine._used_with, "C": ("nu", (None,))}  # noqa: RUF012

    def __init__(
        self,
        C: float = 1.0,
        *,
        nu: float | None = 0.5,
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
        self._store(locals())

    @with_callbacks
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
        X, sample_weight = gathered(type(self).__name__, X, sample_weight)
        run = Fit(self, X, hints=hints, sample_weight=sample_weight)
        params = run.params
        data = training(params, check_unlabeled_data, X, sample_weight)
        everything, dual = np.arange(data.samples.n_samples), _dual_of(params, data)

        def model(points: Points) -> dict[str, Any]:
            """During the fit the scores are not known here, and the boundary is that of "auto"."""
            coef, b = points[0]
            fitted = attributes_of(data, coef[np.newaxis], np.zeros(1))
            return fitted | _boundary(1.0 if params.nu is None else -b)

        settings = (params.nu,)
        results = solved(run, params, data, lambda _: (everything, dual), model, settings=settings)
        fitted, caveat = model(points_of(results)), None
        if params.nu is not None and results[0].primal == 0.0:
            caveat = _AROUND_ORIGIN
        if params.nu is None or not isinstance(params.contamination, str):
            coef, active = results[0].point, np.flatnonzero(results[0].point)
            with blas_threads(split_threads(params.n_jobs, 1)[1]):
                scores, _ = data.values.exact_sums(coef[active], active, everything)
            if not isinstance(params.contamination, str):
                fitted |= _boundary_at(params.contamination, data, scores, results[0].region)
            # no sample reaches 1, and w separates them from the origin on neither side
            elif scores.max() < 1.0 and scores.min() <= 0.0:
                caveat = _AROUND_ORIGIN
        advice = linear_advice(params, "BMRMNoveltyDetector")
        return run.finish(fitted, results, caveat=caveat, advice=advice)

    def score_samples(self, X: Any) -> np.ndarray:
        """Scores ``sum_i dual_coef_i k(x_i, x)``; smaller means newer.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; for ``kernel="precomputed"``, of shape (n_samples, n_samples_fit).

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            In float64.
        """
        return self._pair_scores(X)[:, 0]

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

    def _bounds(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        low, high = self._score_bounds(X)
        least, most = self._offsets
        return low[:, 0] - most, high[:, 0] - least


def _dual_of(params: SwapNoveltyDetector, data: Training) -> Dual:
    """The dual of OneClassSVM, or of the squared loss."""
    samples, n = data.samples, data.samples.n_samples
    zeros = np.zeros(n)
    if params.nu is None:
        costs = data.costs(params.C)
        data.values.check_costs(np.arange(n), costs)
        return Dual(np.ones(n), zeros, np.full(n, np.inf), 1.0 / costs, s=0.0)
    weights = data.total * samples.weights
    return Dual(zeros, zeros, weights, zeros, total=params.nu * float(weights.sum()))


def _boundary_at(share: float, data: Training, scores: Array, region: Any) -> dict[str, Any]:
    """The boundary below which there is this share, and those between which the optimum's is."""
    weights = data.samples.weights
    known = _boundary(_quantile(scores, weights, share))
    if region is None:
        return known | {"_offsets": (-np.inf, np.inf)}
    reach = region.radius * np.sqrt(data.values.rows(np.float64).diagonal)
    reach = reach + 2.0 * _TIE * np.abs(scores).max()
    ends = (_quantile(moved, weights, share) for moved in (scores - reach, scores + reach))
    return known | {"_offsets": tuple(ends)}


def _boundary(offset: float) -> dict[str, Any]:
    known = {"offset_": offset, "intercept_": np.array([-offset])}
    return known | {"_offsets": (offset, offset)}


def _quantile(scores: Array, weights: Array, share: float) -> float:
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
