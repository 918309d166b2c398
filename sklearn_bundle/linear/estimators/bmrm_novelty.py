"""Novelty detection by bundle methods."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin
from sklearn.utils.extmath import safe_sparse_dot

from sklearn_bundle.core.contract import Status
from sklearn_bundle.core.docs import fill_doc
from sklearn_bundle.core.estimator import Fit, OneCertificate, Points, with_callbacks
from sklearn_bundle.core.optimum import CertainDetector
from sklearn_bundle.core.parameters import POSITIVE, Interval, Names
from sklearn_bundle.core.validation import check_unlabeled_data
from sklearn_bundle.core.values import gathered
from sklearn_bundle.linear.estimators.fitting import MemoryData, omega_of, solve_problems
from sklearn_bundle.linear.estimators.linear import BundleEstimator
from sklearn_bundle.linear.losses import NuNovelty, Target
from sklearn_bundle.linear.regularizers import Regularizer

_AROUND_ORIGIN = (
    "The origin must not lie inside the data, as it does with standardized features: coef_ is 0. "
    "Use SwapNoveltyDetector(kernel='rbf'), or features that are not centered, for instance from "
    "MinMaxScaler."
)


@fill_doc
class BMRMNoveltyDetector(CertainDetector, OutlierMixin, OneCertificate, BundleEstimator):
    """Linear novelty detection: the linear one-class SVM, with a certificate of the optimum.

    Take it for data that lie on one side of the origin, such as counts. No half-space describes
    standardized features: for these take :class:`SwapNoveltyDetector`, or map them with
    :class:`sklearn.kernel_approximation.RBFSampler`. It minimizes over w and the offset rho,
    as :class:`sklearn.svm.OneClassSVM` does::

        J(w) = reg_lambda Omega(w) + min_rho [ sum_i s_i max(0, rho - <w, x_i>) / nu - rho ]

    where the s_i are the sample weights, normalized to the sum one. A sample is new if ``<w, x>``
    is below rho; samples on the boundary, of which an optimum has some, are not new.

    Parameters
    ----------
    nu : float, default=0.5
        In (0, 1]. With L2, at the optimum at most a share nu of the samples (by weight) is new, and
        at least nu is new or on the boundary.
    reg_lambda : float, default=1e-2
        Regularization strength relative to the mean loss. It only scales w and the offset.
    regularizer : {"l2"} or Quadratic, default="l2"
        Omega; see :mod:`sklearn_bundle.regularizers`.
    %(solver_line_search)s
    %(tol: 1e-3)s
    %(max_iter_products)s
    %(max_time)s
    %(warm_start_planes: data, nu and regularizer)s
    %(n_jobs_exact: blocks of rows)s
    %(verbose)s

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Weights w.
    offset_ : float
        The best rho: ``decision_function = score_samples - offset_``. If several values are best,
        it is their midpoint.
    intercept_ : ndarray of shape (1,)
        ``-offset_``.
    %(reg_lambda_)s
    %(certificate: J)s
        J is at most 0.
    %(convergence)s
    %(history: products with X or X' so far)s
        and ``solver``.
    %(features)s

    Raises
    ------
    %(invalid)s
        a regularizer that is not quadratic.

    Warns
    -----
    %(missed_tol)s
        With an optimum of 0, rounding leaves a gap above any `tol`; see Notes.
    UserWarning
        If ``coef_`` is 0, which means that the origin lies inside the data: no sample is new. If
        the gap is above `tol`, the ConvergenceWarning begins with it.

    See Also
    --------
    sklearn.svm.OneClassSVM : The same optimum with ``kernel="linear"``, and other kernels.

    Notes
    -----
    User guide: :ref:`novelties`.

    ``coef_`` and ``offset_`` are those of ``OneClassSVM(kernel="linear", nu=nu)`` divided
    by ``n nu reg_lambda``. The lower bound is the dual (3.10) of [2]_. If the origin lies inside
    the data, w = 0 is optimal, with the objective 0; with centered data this holds for every nu.
    See :doc:`/user_guide/novelties`.

    References
    ----------
    %(bmrm_paper: 1)s
    .. [2] B. Schoelkopf, J. C. Platt, J. Shawe-Taylor, A. J. Smola, R. C. Williamson: Estimating
       the support of a high-dimensional distribution. Neural Computation 13 (2001), 1443-1471.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_bundle import BMRMNoveltyDetector
    >>> X = 3.0 + np.random.default_rng(0).normal(size=(200, 2))
    >>> model = BMRMNoveltyDetector(nu=0.1).fit(X)
    >>> model.predict([[3.0, 3.0], [-2.0, 0.0]])
    array([ 1, -1])
    >>> round(float((model.predict(X) == -1).mean()), 2)
    0.1
    """

    nu: float
    intercept_: NDArray[np.float64]
    offset_: float

    l1_ratio = 0.5  # no parameter here, and not used
    fit_intercept = False
    _allowed: ClassVar[dict[str, Any]] = {
        **BundleEstimator._common,
        "reg_lambda": [POSITIVE],
        "nu": [Interval(Real, 0, 1, closed="right")],
        "regularizer": [Names({"l2"}), Regularizer],
    }

    def __init__(
        self,
        *,
        nu: float = 0.5,
        reg_lambda: float = 1e-2,
        regularizer: str | Regularizer = "l2",
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self._store(locals())

    @property
    def loss(self) -> str:
        """The name of the loss; not a parameter."""
        return "nu_novelty"

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data. C-ordered arrays, and CSR whose indices are sorted, are used without a
            copy if they hold float32 or float64.
        y : Ignored
            Present by scikit-learn's convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0. A weight of 2 counts as a repeated row, a weight of 0 as a missing one.

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
        run = Fit(self, X, sample_weight=sample_weight)
        params = run.params
        data = params._checked(X, sample_weight)
        fitted, results, _ = solve_problems(run, params, data)
        # After a limit, a w of 0 may be just the start.
        ended = results[0].status in (Status.CONVERGED, Status.STALLED)
        caveat = _AROUND_ORIGIN if ended and not fitted["coef_"].any() else None
        return run.finish(fitted, results, caveat=caveat)

    def _checked(self, X: Any, sample_weight: Any) -> Any:
        """The checked data with their problem."""
        if not omega_of(self).is_quadratic:
            raise ValueError(f"regularizer must be 'l2' or quadratic, got {self.regularizer!r}.")
        samples = check_unlabeled_data(self, X, sample_weight)
        prepared = [NuNovelty(self.nu).prepare_target(Target(None, samples.n_samples))]
        return MemoryData(samples, prepared, self.n_jobs, [""])

    def _attributes(self, data: Any, points: Points) -> dict[str, Any]:
        """Fitted attributes of the point."""
        coef = points[0][0][None]
        scores = safe_sparse_dot(data.samples.X, coef[0], dense_output=True)
        offset = float(data.prepared[0].loss.offset(scores, data.weights))
        return {"coef_": coef, "offset_": offset, "intercept_": np.array([-offset])}

    def score_samples(self, X: Any) -> np.ndarray:
        """Scores ``<w, x>``; smaller means newer.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            In units of ``offset_``.
        """
        return self.decision_function(X) + self.offset_

    def decision_function(self, X: Any) -> np.ndarray:
        """``score_samples(X) - offset_``, negative for new samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            At least 0 if a sample is not new; 0 up to rounding on the boundary.
        """
        scores = (self._products(X) + self.intercept_).ravel()
        # At an optimum up to one sample per weight lies on the boundary, on either side of
        # it by rounding. This is the tolerance relative to rho, enough for sums over 1e5 features.
        scores[np.abs(scores) <= 1e-10 * self.offset_] = 0.0
        return scores

    def predict(self, X: Any) -> np.ndarray:
        """Labels: -1 for new samples, +1 for others.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Integers -1 and +1.
        """
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    def _bounds(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        low, high = self._intervals(X)
        return low.ravel(), high.ravel()
