"""Linear regression by bundle methods."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags

from sklearn_bundle.core.docs import fill_doc
from sklearn_bundle.core.estimator import Certificates, Fit, Points, with_callbacks
from sklearn_bundle.core.optimum import CertainRegressor, RegressorMixin
from sklearn_bundle.core.parameters import POSITIVE, Interval, Names
from sklearn_bundle.core.validation import check_regression_data, spread
from sklearn_bundle.core.values import is_collection
from sklearn_bundle.linear import losses
from sklearn_bundle.linear.blocks import check_blocks, lazily, lazy_r2
from sklearn_bundle.linear.estimators.fitting import (
    MemoryData,
    checked_loss,
    loss_of,
    loss_values,
    omega_of,
    solve_problems,
    takes_loss,
)
from sklearn_bundle.linear.estimators.linear import BundleEstimator, CertifiedLinear
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers.choice import BUNDLES

_SOLVERS = "auto", *BUNDLES, "newton", "lbfgs", "dual-coordinate", "coordinate-descent"


@fill_doc
class BMRMRegressor(CertainRegressor, RegressorMixin, Certificates, BundleEstimator):
    """Linear regression: a convex loss, a free intercept, and a certificate of the optimum.

    Take it for quantiles, robust losses, counts and least squares on data of any size, dense or
    sparse. For kernels take :class:`SwapSVR`. With ``Omega(w) = ||w||^2 / 2`` by default it
    minimizes::

        J(w, b) = reg_lambda Omega(w) + sum_i s_i l(y_i, <w, x_i> + b)

    where the s_i are the sample weights, normalized to the sum one. Each of several targets has its
    own w, b and, except with "squared_error", certificate.

    Parameters
    ----------
    loss : {"squared_error", "absolute_error", "quantile", "epsilon_insensitive", \
"squared_epsilon_insensitive", "huber", "poisson"} or RegressionLoss, default="squared_error"
        With the prediction f and r = y - f: ``r^2 / 2``; ``|r|``; ``max(q r, (q - 1) r)`` with q
        the parameter `quantile`; ``max(0, |r| - epsilon)``, and half its square; ``r^2 / 2`` up to
        ``|r| = delta`` and ``delta (|r| - delta/2)`` beyond; for "poisson" ``exp(f) - y f + y log y
        - y``, with f the logarithm of the mean. Or a
        :class:`~sklearn_bundle.losses.RegressionLoss`, yours included.
    reg_lambda : float, default=None
        Regularization strength relative to the mean loss: for y of variance one try 1e-1 to 1e-5;
        larger is simpler. It is the alpha of Lasso, QuantileRegressor and PoissonRegressor, and the
        alpha of Ridge over n. None means 1e-4 for y of variance one, and otherwise follows the unit
        of y: see :doc:`/user_guide/regress`.
    %(mean_loss_C)s
        With "squared_epsilon_insensitive" it is twice the C of LinearSVR.
    %(regularizer)s
    %(l1_ratio)s
    %(positive: of every target)s
    quantile : float, default=0.5
        For "quantile": the level, in (0, 1).
    epsilon : float, default=None
        For the two insensitive losses: errors up to epsilon cost nothing. In units of y; None means
        a tenth of its standard deviation.
    delta : float, default=None
        For "huber": where the loss becomes linear, in units of y. None means its standard
        deviation.
    solver : {"auto", "newton", "lbfgs", "dual-coordinate", "coordinate-descent", \
"line-search", "cutting-plane"}, default="auto"
        "auto": by the loss, the regularizer and the shape of X.
        "newton": L2 and Quadratic; a square matrix of the features.
        "lbfgs": L2 and Quadratic; "squared_error", "huber", "poisson",
        "squared_epsilon_insensitive".
        "coordinate-descent": L1 and elastic net; the losses of "lbfgs".
        "dual-coordinate": L2; all losses but "squared_error" and "poisson".
        "line-search": Algorithm 3 of [1]_, for everything.
        "cutting-plane": Algorithm 2 of [1]_, for comparison.
    %(tol: 1e-3)s
    max_iter : int, default=1000
        Maximum number of iterations per target.
    %(max_time)s
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalized.
    %(warm_start_planes: data, loss and regularizer)s
    %(n_jobs_exact: the targets or blocks of rows)s
    %(verbose)s

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Weights w.
    intercept_ : float or ndarray of shape (n_targets,)
        Intercept b.
    reg_lambda_ : float or ndarray of shape (n_targets,)
        The `reg_lambda` that the fit used.
    epsilon_, delta_ : float or ndarray of shape (n_targets,)
        The `epsilon` or `delta` that the fit used, in units of y.
    %(certificates: targets)s
    %(histories)s
        and ``solver``.
    %(features)s

    Raises
    ------
    %(invalid)s
        a `solver` that does not support the loss, or a y that the loss cannot take.

    Warns
    -----
    %(missed_tol)s
    UserWarning
        If w is 0, or for a parameter that nothing uses.

    See Also
    --------
    BMRMRegressorCV : Chooses reg_lambda by cross-validation.
    bmrm_path : Many values of reg_lambda.

    Notes
    -----
    User guide: :ref:`regress`.

    Losses: table 5 of [1]_, with its pinball loss corrected. Bound: theorem 2; see
    :doc:`/user_guide/bmrm_solvers`.

    References
    ----------
    %(bmrm_paper: 1)s

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_bundle import BMRMRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BMRMRegressor("quantile", quantile=0.9).fit(X, y)
    >>> model.status_
    'converged'
    >>> round(float((y <= model.predict(X)).mean()), 2)
    0.9
    """

    positive: bool
    quantile: float
    epsilon: float | None
    delta: float | None
    epsilon_: float | NDArray[np.float64]  # and delta_, if the loss has them
    delta_: float | NDArray[np.float64]

    _losses = losses.REGRESSION_LOSSES
    _used_with = BundleEstimator._used_with | {
        "quantile": ("loss", ("quantile",)),
        "epsilon": ("loss", ("epsilon_insensitive", "squared_epsilon_insensitive")),
        "delta": ("loss", ("huber",)),
    }
    _unit = "target"
    _in_spreads = {"epsilon": 0.1, "delta": 1.0}  # noqa: RUF012
    _loss_kinds = (losses.RegressionLoss,)
    _allowed: ClassVar[dict[str, Any]] = {
        **CertifiedLinear._common,
        "loss": [Names(_losses), *_loss_kinds],
        "solver": [Names(_SOLVERS)],
        "quantile": [Interval(Real, 0, 1, closed="neither")],
        "epsilon": [Interval(Real, 0, None, closed="left"), None],
        "delta": [POSITIVE, None],
    }

    def __init__(
        self,
        loss: str | losses.RegressionLoss = "squared_error",
        *,
        reg_lambda: float | None = None,
        C: float | None = None,
        regularizer: str | Regularizer = "l2",
        l1_ratio: float = 0.5,
        positive: bool = False,
        quantile: float = 0.5,
        epsilon: float | None = None,
        delta: float | None = None,
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        fit_intercept: bool = True,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self._store(locals())

    @with_callbacks
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data. C-ordered arrays, and CSR whose indices are sorted, are used without a
            copy if they hold float32 or float64.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets; for "poisson" at least 0, and not all of them 0.
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
        run = Fit(self, X, y, sample_weight=sample_weight)
        data = run.params._checked(X, y, sample_weight)
        fitted, results, caveat = solve_problems(run, run.params, data)
        return run.finish(fitted, results, caveat=caveat)

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """The checked data with their problems: one of a joint loss, else one per target."""
        in_blocks = is_collection(X)
        loss = checked_loss(self, in_blocks)
        if in_blocks:
            data = check_blocks(self, X, y, sample_weight, "numbers")
            spreads = _together(data.spreads(self.fit_intercept), loss)
            data.prepare([loss_of(self, size) for size in spreads], self.loss)
        else:
            samples = check_regression_data(self, X, y, sample_weight)
            y, s, columns = samples.y, samples.weights, samples.y.reshape(len(samples.y), -1).T
            spreads = _together([spread(one, s, self.fit_intercept) for one in columns], loss)
            together = y.ndim == 1 or loss.multi_output
            targets = [y] if together else list(np.ascontiguousarray(y.T))
            names = [""] if len(targets) == 1 else list(map(str, range(len(targets))))
            pairs = zip(spreads, targets, strict=True)
            prepared = [
                loss_of(self, size).prepare_target(losses.Target(t, len(y))) for size, t in pairs
            ]
            data = MemoryData(samples, prepared, self.n_jobs, names)
        p, q = loss.degree, omega_of(self).degree
        data.spreads_of_problems = spreads
        if not (p is None or q is None or p == q):
            data.units = [size ** (p - q) for size in spreads]
        return data

    def _attributes(self, data: Any, points: Points) -> dict[str, Any]:
        """Fitted attributes of the points of all problems."""
        fitted: dict[str, Any] = {}
        for name in loss_values(self).keys() & self._in_spreads.keys():
            values = [loss_values(self, size)[name] for size in data.spreads_of_problems]
            one = len(values) == 1 or getattr(self, name) is not None
            fitted[f"{name}_"] = values[0] if one else np.array(values)
        if data.n_targets is None:
            w, b = points[0]
            return fitted | {"coef_": w, "intercept_": float(np.ravel(b)[0])}
        weights = [np.reshape(w, (-1, data.n_features)) for w, _ in points]
        intercepts = [np.broadcast_to(b, len(w)) for w, (_, b) in zip(weights, points, strict=True)]
        return fitted | {"coef_": np.concatenate(weights), "intercept_": np.concatenate(intercepts)}

    @lazily
    def predict(self, X: Any) -> np.ndarray:
        """``<w, x> + b``; with "poisson" its exponential, the mean.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Predictions.
        """
        return loss_of(self).mean(self._products(X) + self.intercept_)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Any:
        """R^2 of the predictions; for dask collections, a dask array that is not computed yet.

        Parameters
        ----------
        X : array-like, sparse matrix or dask collection of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        score : float, or dask array of shape ()
            At most 1; the mean over several targets.
        """
        if is_collection(X):
            return lazy_r2(self.predict, X, y, sample_weight)
        return super().score(X, y, sample_weight)

    def _bounds(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        low, high = (loss_of(self).mean(scores) for scores in self._intervals(X))
        return (low.ravel(), high.ravel()) if self._has_vector() else (low, high)

    def _has_vector(self) -> bool:
        return np.ndim(self.intercept_) == 0

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if takes_loss(self, self.loss):
            loss = loss_of(self)
            # All losses take several targets, but scikit-learn's check of them has negative values.
            tags.target_tags.multi_output = not loss.positive_only
            tags.target_tags.positive_only = loss.positive_only
        return tags


def _together(spreads: list[float], loss: losses.RegressionLoss) -> list[float]:
    """The spread of the target or targets of each problem."""
    if len(spreads) > 1 and loss.multi_output:
        return [math.hypot(*spreads) / math.sqrt(len(spreads))]
    return spreads
