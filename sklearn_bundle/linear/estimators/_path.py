"""Fits for many values of reg_lambda that share planes, and cross-validation over them."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils import indexable

from sklearn_bundle.core.base import (
    checked,
    warn_if_missed,
    with_callbacks,
)
from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.core.fit import warn_of_unused
from sklearn_bundle.core.misread import is_collection
from sklearn_bundle.core.path import Numbers, PathResult, check_grid, fit_path
from sklearn_bundle.core.reports import Report, reported, told
from sklearn_bundle.core.search import Search, values_of_C
from sklearn_bundle.core.sklearn_internals import num_samples, safe_indexing
from sklearn_bundle.core.validation import (
    checked_reg_lambda_of,
    checked_score,
    checked_scorer,
    splits,
)
from sklearn_bundle.core.values import shown
from sklearn_bundle.core.weights import check_sample_weight
from sklearn_bundle.linear.estimators._blocks import blocks_beside
from sklearn_bundle.linear.estimators._grid import data_of, estimator_of, values_for
from sklearn_bundle.linear.estimators._path_scores import default_scores, loss_scorer
from sklearn_bundle.linear.losses import Loss

# Default number of values of reg_lambda if w = 0 is optimal for none of them.
_ON_A_PATH, _IN_A_SEARCH = 20, 10
_FOLDS = 5  # as in scikit-learn


class LinearPathResult(PathResult[Numbers, Numbers, Numbers, Numbers, NDArray[np.int64]]):
    """What :func:`bmrm_path` returns.

    It unpacks into the first five of its fields: `reg_lambdas`, `coefs`, `intercepts`, `dual_gaps`
    and `n_iters`.

    Attributes
    ----------
    coefs : ndarray of shape (n_features, n_lambdas) or (n_outputs, n_features, n_lambdas)
        Weights.
    intercepts : ndarray of shape (n_lambdas,) or (n_outputs, n_lambdas)
        Intercepts.
    """

    coefs: Numbers
    intercepts: NDArray[np.float64]

    _unpacked = "reg_lambdas", "coefs", "intercepts", "dual_gaps", "n_iters"


def bmrm_path(
    X: Any,
    y: ArrayLike,
    *,
    reg_lambdas: int | ArrayLike | None = None,
    n_reg_lambdas: int | None = None,
    eps: float | None = None,
    loss: str | Loss = "hinge",
    sample_weight: ArrayLike | None = None,
    **params: Any,
) -> LinearPathResult:
    """Solutions for many values of reg_lambda, each started from the last one.

    The objective is that of :class:`BMRMClassifier` or of :class:`BMRMRegressor`, whichever has the
    loss. Planes of the empirical risk (algorithm 2 of [1]_) do not depend on reg_lambda: each fit
    starts from all planes that were cut before, and from the last solution. Coordinate descent
    starts from the last solution, its support and its dual point. Every value has a certificate.
    With squared errors, L1 or the elastic net, and few features, all values are solved from X'X.
    Objective and bound also come from X'X if its rounding, which is subtracted from the bound, is
    small compared with `tol`; otherwise they come from the data.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Training data.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Labels or targets.
    reg_lambdas : int or array-like of shape (n_lambdas,), default=None
        Positive values, or their number: they are then equally spaced on a logarithmic scale. With
        L1 and the elastic net they start at :func:`reg_lambda_max`, where all weights are 0,
        otherwise at 1.
    n_reg_lambdas : int, default=None
        Number of values if `reg_lambdas` is None. None means 100 with L1 and the elastic net,
        otherwise 20.
    eps : float, default=None
        Ratio of the smallest value to the largest, if `reg_lambdas` holds no values. None means
        1e-3 with L1 and the elastic net, otherwise 1e-6.
    loss : str or Loss, default="hinge"
        A loss of :class:`BMRMClassifier` or of :class:`BMRMRegressor`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights >= 0. A weight of 2 counts as a repeated row, a weight of 0 as a missing one.
    **params : dict
        Further parameters of :class:`BMRMClassifier` or :class:`BMRMRegressor`. `max_time` is for
        each problem at each value. `verbose=1` prints a line per value.

    Returns
    -------
    path : tuple of five arrays, with named fields
        It unpacks into the first five of its fields:

        * ``reg_lambdas``: the values in descending order, of shape (n_lambdas,);
        * ``coefs``: the weights, of shape (n_features, n_lambdas), or (n_outputs, n_features,
          n_lambdas) for three or more classes and for several targets. With L1 and the elastic net
          ``np.count_nonzero(path.coefs, axis=-2)`` is the number of features in use;
        * ``intercepts``, of shape (n_lambdas,) or (n_outputs, n_lambdas);
        * ``dual_gaps``: duality gaps, in units of the objective, of shape (n_lambdas,), or
          (n_outputs, n_lambdas) if each output is a problem of its own;
        * ``n_iters``: iterations, of the same shape;
        * ``objectives``, ``lower_bounds``, ``statuses``: the rest of each certificate, as in
          `objective_`, `lower_bound_` and `status_` of the estimators, of the same shape.

    Raises
    ------
    ValueError
        As for the estimators; also for reg_lambdas that are not positive, `n_reg_lambdas` or `eps`
        together with values, a loss of ranking, `reg_lambda` or `warm_start`.
    TypeError
        For a parameter that the estimator does not have.

    Warns
    -----
    ConvergenceWarning
        As for the estimators, once for all values.

    See Also
    --------
    BMRMClassifierCV, BMRMRegressorCV : Choose reg_lambda by cross-validation.
    reg_lambda_max : The start of a path with L1.
    sklearn.linear_model.lasso_path : The same for the Lasso.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn_bundle import bmrm_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = X / X.max(axis=0)
    >>> reg_lambdas, coefs, *_ = bmrm_path(X, y, reg_lambdas=[1e-3, 1e-2, 1e-1])
    >>> reg_lambdas, coefs.shape
    (array([0.1  , 0.01 , 0.001]), (30, 3))
    >>> path = bmrm_path(X, y, loss="log_loss", regularizer="l1", reg_lambdas=4)
    >>> np.count_nonzero(path.coefs, axis=0)
    array([ 0,  4,  9, 17])
    """
    estimator = estimator_of("bmrm_path", loss, params)
    grid = check_grid(reg_lambdas, n_reg_lambdas, eps)
    estimator = checked(estimator)
    warn_of_unused(estimator, 2)
    data = data_of("bmrm_path", estimator, X, y, sample_weight)
    values = values_for(grid, estimator, data, _ON_A_PATH)
    models, results = [], []
    path = fit_path(estimator, data, values)
    for model, found in told("bmrm_path", estimator.verbose, values, path):
        models.append(model)
        results += found
    warn_if_missed("bmrm_path", results, estimator.tol, estimator._advice, depth=1)
    coefs = np.stack([model.coef_ for model in models], axis=-1)
    intercepts = np.stack([model.intercept_ for model in models], axis=-1)
    if is_classifier(estimator) and len(coefs) == 1:
        coefs, intercepts = coefs[0], intercepts[0]
    return LinearPathResult.of(values, models, coefs=coefs, intercepts=intercepts)


class PathSearch(Search):
    """Cross-validation over reg_lambda, with a path in each fold."""

    reg_lambdas: int | ArrayLike | None
    Cs: int | ArrayLike | None
    eps: float | None

    reg_lambda_: float
    reg_lambdas_: NDArray[np.float64]
    C_: float  # with Cs_, if there are Cs
    Cs_: NDArray[np.float64]

    _chosen = "reg_lambda"
    _not_shared = "reg_lambda", "C", "warm_start"

    @with_callbacks
    def _fit(self, X, y, sample_weight, warm, **further):
        outcome = super()._fit(X, y, sample_weight, warm, **further)
        if self.Cs is not None:
            Cs, fitted = values_of_C(self.Cs), outcome.fitted
            place = list(fitted["reg_lambdas_"]).index(fitted["reg_lambda_"])
            fitted |= {"Cs_": Cs, "C_": float(Cs[place])}
        return outcome

    def _values(self, data):
        if self.Cs is not None:
            for name in ("reg_lambdas", "eps"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name}={shown(getattr(self, name))} and Cs={shown(self.Cs)} are both "
                        "set, but each gives the values to try: set one of them."
                    )
            return np.array([checked_reg_lambda_of(C, data.total) for C in values_of_C(self.Cs)])
        grid = check_grid(self.reg_lambdas, None, self.eps)
        return values_for(grid, self, data, _IN_A_SEARCH)

    def _named(self, values):
        return super()._named(values) if self.Cs is None else ("C", values_of_C(self.Cs))

    def _values_in(self, part, data, values):
        """The values for a part of the data: C weighs a sum of losses, reg_lambda their mean."""
        return values if self.Cs is None else values * (data.total / part.total)

    def _folds(self, data, X, y, sample_weight, values, metadata):
        if is_collection(X):
            return self._folds_of_blocks(data, X, y, sample_weight, values)
        X, y = indexable(X, y)
        weights = None
        if sample_weight is not None:
            weights = check_sample_weight(sample_weight, num_samples(X))
            if self.cv is None or isinstance(self.cv, Integral):
                rows = np.flatnonzero(weights)  # other splitters may rely on all rows
                X, y, weights = (safe_indexing(array, rows) for array in (X, y, weights))
                metadata = {}
        single = clone(self._single(n_jobs=1))
        own = loss_scorer(single._loss()) if self.scoring is None else None
        scorer = own or checked_scorer(single, self.scoring)

        def part(array: Any, rows: NDArray) -> Any:
            return None if array is None else safe_indexing(array, rows)

        def scores(train: NDArray, test: NDArray, report: Report, limit: TimeLimit) -> list[float]:
            held_out, counted = (part(X, test), part(y, test)), {}
            if weights is not None and not callable(self.scoring):
                counted = {"sample_weight": part(weights, test)}
            estimator = checked(single)
            fold = estimator._check(part(X, train), part(y, train), part(weights, train))
            models = fit_path(estimator, fold, self._values_in(fold, data, values), limit=limit)
            models = reported(models, values, report)
            if self.scoring is None and own is None:
                return list(default_scores(models, *held_out, counted.get("sample_weight")))
            return [checked_score(scorer(model, *held_out, **counted)) for model in models]

        return splits(self.cv, X, y, is_classifier(single), **metadata), scores

    def _folds_of_blocks(self, data, X, y, sample_weight, values):
        """Folds of whole blocks of rows: each fold holds out every k-th block."""
        given = {"X": X, "y": y, "sample_weight": sample_weight}
        columns = blocks_beside({name: v for name, v in given.items() if v is not None})
        n_blocks = len(columns[0])
        given = _FOLDS if self.cv is None else self.cv
        n_folds = int(given) if isinstance(given, Integral) else 0
        if not 2 <= n_folds <= n_blocks:
            raise ValueError(
                f"cv must be a number of folds from 2 to {n_blocks}, the number of X's blocks, "
                f"if rows lie in blocks: folds are of whole blocks. Got {shown(self.cv)}."
            )
        if self.scoring is not None:
            raise ValueError(
                "scoring must be None if rows lie in blocks, and is then the accuracy or R^2; "
                f"got {shown(self.scoring)}."
            )
        single = clone(self._single(n_jobs=1))

        def scores(train: NDArray, test: NDArray, report: Report, limit: TimeLimit) -> list[float]:
            fitted, held_out = ([[c[k] for k in part] for c in columns] for part in (train, test))
            estimator = checked(single)
            fold = estimator._check(*fitted, *[None] * (3 - len(fitted)))
            models = fit_path(estimator, fold, self._values_in(fold, data, values), limit=limit)
            models = reported(models, values, report)
            return [float(model.score(*held_out)) for model in models]

        place = np.arange(n_blocks) % n_folds
        pairs = [(np.flatnonzero(place != k), np.flatnonzero(place == k)) for k in range(n_folds)]
        return pairs, scores
