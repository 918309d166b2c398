"""Fits over many values of reg_lambda that share their planes, and cross-validation over them."""

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _num_samples

from sklearn_bundle._parallel import blas_threads, split_threads
from sklearn_bundle._values import as_numbers, plain, shown
from sklearn_bundle.estimators._base import certificate, checked, features_of, warn_if_missed
from sklearn_bundle.estimators._bundle import BundleEstimator
from sklearn_bundle.estimators._search import MOST_VALUES, Search
from sklearn_bundle.estimators._validation import check_sample_weight, checked_score, splits
from sklearn_bundle.estimators.bmrm import BMRMClassifier
from sklearn_bundle.estimators.bmrm_ranker import BMRMRanker
from sklearn_bundle.estimators.bmrm_regressor import BMRMRegressor
from sklearn_bundle.losses import Loss
from sklearn_bundle.solvers.contract import SolverResult

_LARGEST, _SMALLEST = 1.0, 1e-6  # reg_lambda, where a number of values is asked for


def bmrm_path(
    X: Any,
    y: ArrayLike,
    *,
    reg_lambdas: int | ArrayLike = 20,
    loss: str | Loss = "hinge",
    sample_weight: ArrayLike | None = None,
    **params: Any,
) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray]:
    """Solutions for many values of reg_lambda, from shared planes.

    The objective is that of :class:`BMRMClassifier` or of :class:`BMRMRegressor`, whichever knows
    the loss. Planes of the empirical risk (algorithm 2 of [1]_) do not depend on reg_lambda: each
    fit starts from all planes that were cut before, and from the last solution. With L2 that saves
    most of the work of separate fits, with L1 little.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Training data.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Labels or targets.
    reg_lambdas : int or array-like of shape (n_lambdas,), default=20
        Positive values; a number means as many from 1 to 1e-6, equally spaced on a logarithmic
        scale.
    loss : str or Loss, default="hinge"
        A loss of :class:`BMRMClassifier` or of :class:`BMRMRegressor`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights >= 0. A weight 2 is a repeated row, a weight 0 a missing one.
    **params : dict
        Further parameters of :class:`BMRMClassifier` or :class:`BMRMRegressor`. `max_time` is for
        each problem at each value.

    Returns
    -------
    reg_lambdas : ndarray of shape (n_lambdas,)
        The values in descending order.
    coefs : ndarray of shape (n_features, n_lambdas) or (n_outputs, n_features, n_lambdas)
        Weights; the latter for three or more classes, and for several targets.
    intercepts : ndarray of shape (n_lambdas,) or (n_outputs, n_lambdas)
        Intercepts.
    dual_gaps : ndarray of shape (n_lambdas,) or (n_outputs, n_lambdas)
        Duality gaps, in units of the objective; several where the outputs are problems of their
        own.
    n_iters : ndarray of the shape of ``dual_gaps``
        Iterations that each value took.

    Raises
    ------
    ValueError
        As the estimators do, and for reg_lambdas that are not positive, a loss of ranking,
        `reg_lambda` or `warm_start`.
    TypeError
        For a parameter that the estimator does not have.

    Warns
    -----
    ConvergenceWarning
        As the estimators do, once for all values.

    See Also
    --------
    BMRMClassifierCV, BMRMRegressorCV : Choose reg_lambda by cross-validation.
    sklearn.linear_model.lasso_path : The same for the Lasso.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn_bundle import bmrm_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> reg_lambdas, coefs, intercepts, gaps, n_iters = bmrm_path(
    ...     X / X.max(axis=0), y, reg_lambdas=[1e-3, 1e-2, 1e-1]
    ... )
    >>> reg_lambdas, coefs.shape
    (array([0.1  , 0.01 , 0.001]), (30, 3))
    """
    if BMRMRanker._takes_loss(loss):
        raise ValueError(
            f"bmrm_path takes losses of classification and regression, got loss={loss!r}, which "
            "is one of ranking."
        )
    for name in {"reg_lambda", "warm_start"} & set(params):
        raise ValueError(
            f"bmrm_path takes no {name}: the values are reg_lambdas, and all share planes."
        )
    regression = BMRMRegressor._takes_loss(loss)
    estimator = (BMRMRegressor if regression else BMRMClassifier)(loss, **params)
    values = check_reg_lambdas(reg_lambdas)
    models, results = [], []
    for model, found in fit_path(estimator, X, y, sample_weight, values):
        models.append(model)
        results += found
    warn_if_missed("bmrm_path", results, plain(estimator.tol), estimator._advice, depth=1)
    coefs = np.stack([model.coef_ for model in models], axis=-1)
    intercepts = np.stack([model.intercept_ for model in models], axis=-1)
    if not regression and len(coefs) == 1:
        coefs, intercepts = coefs[0], intercepts[0]
    gaps = np.stack([model.dual_gap_ for model in models], axis=-1)
    return values, coefs, intercepts, gaps, np.stack([m.n_iter_ for m in models], axis=-1)


def check_reg_lambdas(reg_lambdas: Any) -> NDArray[np.float64]:
    """Values of reg_lambda, the largest first."""
    number = plain(reg_lambdas)
    if type(number) is int and 1 <= number <= MOST_VALUES:
        return np.geomspace(_LARGEST, _SMALLEST, number)
    values = as_numbers("reg_lambdas", reg_lambdas)
    if values.ndim == 0:
        raise ValueError(
            f"reg_lambdas must be a number of values, from 1 to {MOST_VALUES}, or an array of "
            f"values, got {shown(reg_lambdas)}."
        )
    if values.ndim != 1 or not len(values) or not (np.isfinite(values) & (values > 0.0)).all():
        raise ValueError(f"reg_lambdas must hold positive numbers, got {shown(reg_lambdas)}.")
    return np.sort(values)[::-1]


def fit_path(
    estimator: BundleEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    reg_lambdas: Sequence[float],
) -> Iterator[tuple[BundleEstimator, list[SolverResult]]]:
    """A fitted clone for each value in turn, with the results of its subproblems."""
    estimator = checked(estimator)
    data = estimator._check(X, y, sample_weight)
    targets = estimator._targets(data)
    kept: list = [None] * len(targets)
    _, n_threads = split_threads(estimator.n_jobs, 1)
    for reg_lambda in reg_lambdas:
        estimator.reg_lambda = float(reg_lambda)
        results = []
        with blas_threads(1):
            for k, target in enumerate(targets):
                result, kept[k] = estimator._take_further(data, target, kept[k], None, n_threads)
                results.append(result)
        fitted = estimator._model(data, [(r.point, r.intercept) for r in results])
        model = clone(estimator)
        model._adopt(features_of(estimator) | fitted | certificate(results))
        yield model, results


class PathSearch(Search):
    """Cross-validation over reg_lambda, each fold along a path."""

    _chosen = "reg_lambda"
    _not_shared = "reg_lambda", "warm_start"

    def _values(self) -> NDArray[np.float64]:
        return check_reg_lambdas(self.reg_lambdas)

    def _folds(self, data, X, y, sample_weight, values):
        X, y = indexable(X, y)
        weights = None
        if sample_weight is not None:
            weights = check_sample_weight(sample_weight, _num_samples(X))
            if self.cv is None or isinstance(self.cv, Integral):
                rows = np.flatnonzero(weights)  # others get all rows, which they may count on
                X, y, weights = (_safe_indexing(array, rows) for array in (X, y, weights))
        single = clone(self._single(n_jobs=1))
        scorer = check_scoring(single, self.scoring)

        def part(array: Any, rows: NDArray) -> Any:
            return None if array is None else _safe_indexing(array, rows)

        def scores(train: NDArray, test: NDArray) -> list[float]:
            held_out, counted = (part(X, test), part(y, test)), {}
            if weights is not None and not callable(self.scoring):
                counted = {"sample_weight": part(weights, test)}
            path = fit_path(single, part(X, train), part(y, train), part(weights, train), values)
            return [checked_score(scorer(model, *held_out, **counted)) for model, _ in path]

        return splits(self.cv, X, y, is_classifier(single)), scores
