"""BMRMClassifier and BMRMRegressor with reg_lambda chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils import indexable

from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.core.docs import fill_doc
from sklearn_bundle.core.estimator import Fit, with_callbacks
from sklearn_bundle.core.folds import checked_scorer, folds_among, score_of
from sklearn_bundle.core.parameters import checked
from sklearn_bundle.core.path import check_values, reported
from sklearn_bundle.core.search import (
    Fold,
    Grid,
    Report,
    Search,
    metadata_of_folds,
    path_constraints,
    search,
    single_of,
    values_of_C,
)
from sklearn_bundle.core.validation import (
    check_sample_weight,
    checked_reg_lambda,
    num_samples,
    rows_of,
)
from sklearn_bundle.core.values import is_collection, shown
from sklearn_bundle.linear.blocks import aligned
from sklearn_bundle.linear.estimators.bmrm import BMRMClassifier
from sklearn_bundle.linear.estimators.bmrm_regressor import BMRMRegressor
from sklearn_bundle.linear.estimators.fitting import along, loss_of, solve_problems
from sklearn_bundle.linear.estimators.path import values_for
from sklearn_bundle.linear.estimators.scores import default_scores, loss_scorer
from sklearn_bundle.linear.losses import Loss, RegressionLoss
from sklearn_bundle.linear.regularizers import Regularizer

Rows = NDArray[np.intp]
ScoresOfModels = Callable[..., Iterable[float]]  # of models, on X, y and weights


class PathSearch(Search):
    """Cross-validation over reg_lambda, with a path in each fold."""

    reg_lambdas: int | ArrayLike | None
    Cs: int | ArrayLike | None
    eps: float | None

    reg_lambda_: float
    reg_lambdas_: NDArray[np.float64]
    C_: float  # with Cs_, if there are Cs
    Cs_: NDArray[np.float64]

    _kind: ClassVar[type]  # of the fitted estimators
    _not_shared = "reg_lambda", "C", "warm_start"

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, **params: Any) -> Self:
        """Choose the value by cross-validation, then fit the model to all data.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data, as for the estimator without a search.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Labels or targets, as for that estimator.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0 as for that estimator, in every fit. A weight of 2 counts as a repeated
            sample, a weight of 0 as a missing one.
        **params : dict
            `groups`, array-like with an entry for each sample, for a splitter as `cv` that needs
            it, such as :class:`~sklearn.model_selection.GroupKFold`. With scikit-learn's metadata
            routing, whatever this splitter requests.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As listed for the class. Nothing is fitted then.
        TypeError
            For another parameter.
        """
        metadata = metadata_of_folds(self, X, sample_weight, params)
        run = Fit(self, X, y, sample_weight=sample_weight)
        own, limit = run.params, TimeLimit(run.params.max_time)
        data = own._checked(X, y, sample_weight)  # errors come before any work starts
        values, grid = _values(own, data)
        single = clone(single_of(own, self._kind, n_jobs=1))
        if is_collection(X):
            columns, folds, score = _of_blocks(own, X, y, sample_weight)
        else:
            columns, folds, score = _of_rows(own, single, data, X, y, sample_weight, metadata)

        def scores_of(train: Rows, test: Rows, report: Report, limit: TimeLimit) -> list[float]:
            """Scores of every value on the test part of a fold; each fit is reported."""
            estimator = checked(single)
            fitted, held_out = (
                [None if column is None else rows_of(column, rows) for column in columns]
                for rows in (train, test)
            )
            part = estimator._checked(*fitted)
            # C weighs a sum of losses, reg_lambda their mean.
            factor = 1.0 if own.Cs is None else data.total / part.total
            models = along(estimator, part, factor * values, limit)
            return list(score(reported(models, report), *held_out))

        found = search(run, single, grid, folds, scores_of, limit)
        best = float(values[found.place])
        final = checked(single_of(own, self._kind, reg_lambda=best))
        final.max_time = limit.left
        fitted, results, _ = solve_problems(run, final, data)
        fitted |= found.attributes() | grid.chosen(found.place)
        fitted |= {"reg_lambda_": best, "reg_lambdas_": values}
        caveat = found.advice(run.name, own.max_time, fitted["coef_"])
        return run.finish(fitted, results, caveat=caveat)


def _values(own: Any, data: Any) -> tuple[NDArray[np.float64], Grid]:
    """The values of reg_lambda, descending, and how they are named: by C if there are Cs."""
    if own.Cs is None:
        # 10 values by default, if w = 0 is optimal for none of them
        values = values_for(check_values(own.reg_lambdas, None, own.eps), own, data, 10)
        return values, Grid({"reg_lambda": values})
    for name in ("reg_lambdas", "eps"):
        if getattr(own, name) is not None:
            raise ValueError(
                f"{name}={shown(getattr(own, name))} and Cs={shown(own.Cs)} are both "
                "set, but each gives the values to try: set one of them."
            )
    Cs = values_of_C(own.Cs)
    return np.array([checked_reg_lambda(None, C * data.total) for C in Cs]), Grid({"C": Cs})


def _of_rows(
    own: Any, single: Any, data: Any, X: Any, y: Any, sample_weight: Any, metadata: dict[str, Any]
) -> tuple[Sequence[Any], list[Fold], ScoresOfModels]:
    """X, y and weights, the rows of each fold, and the scores of models on some rows."""
    X, y = indexable(X, y)
    n = num_samples(X)
    weights = None if sample_weight is None else check_sample_weight(sample_weight, n)
    kept = np.arange(n) if weights is None else np.flatnonzero(weights)
    folds = folds_among(own.cv, X, y, kept, is_classifier(single), metadata)
    folds = [(kept[train], kept[test]) for train, test in folds]
    named = own.scoring is not None
    scorer = checked_scorer(single, own.scoring) if named else loss_scorer(loss_of(single))
    if scorer is None:
        return (X, y, weights), folds, default_scores
    score = partial(score_of, scorer, own.scoring, data.classes if named else None)
    return (X, y, weights), folds, lambda models, *rows: (score(model, *rows) for model in models)


def _of_blocks(
    own: Any, X: Any, y: Any, sample_weight: Any
) -> tuple[Sequence[Any], list[Fold], ScoresOfModels]:
    """The same with folds of whole blocks of rows: each fold holds out every k-th block."""
    # 5 folds as in scikit-learn
    columns, given = aligned(X, y, sample_weight), 5 if own.cv is None else own.cv
    n, k = len(columns[0]), int(given) if isinstance(given, Integral) else 0
    if not (2 <= k <= n and own.scoring is None):
        raise ValueError(
            f"If rows lie in blocks, cv must be a number of folds from 2 to {n}, the number of X's "
            f"blocks, and scoring None; got cv={shown(own.cv)} and scoring={shown(own.scoring)}."
        )
    fold = np.arange(n) % k
    folds = [(np.flatnonzero(fold != j), np.flatnonzero(fold == j)) for j in range(k)]
    return columns, folds, lambda models, *rows: (float(one.score(*rows)) for one in models)


@fill_doc
class BMRMClassifierCV(PathSearch, BMRMClassifier):
    """:class:`BMRMClassifier` that chooses reg_lambda by cross-validation along paths.

    Take it in place of a grid search. Within a fold, each fit starts from the one with the next
    larger value; see :func:`bmrm_path`. Then the model is fitted to all data with the best value.

    Parameters
    ----------
    %(BMRMClassifier.loss: As in :class:`BMRMClassifier`, which has the formulas.)s
        The last three are joint; with the others three or more classes are one-versus-rest.
    %(reg_lambdas)s
        With L1 and the elastic net they start at :func:`reg_lambda_max` of all data, otherwise at
        1. None means 100 with these two, otherwise 10.
    %(eps_and_Cs: BMRMClassifier)s
    %(cv: stratified)s
    %(scoring)s
        accuracy or, with two classes, the area under the ROC curve for "roc_auc" and F-beta for
        "fbeta". To every scorer, a class that a training part lacks has the probability 0.
    %(BMRMClassifier.regularizer)s
    %(BMRMClassifier.l1_ratio)s
    %(BMRMClassifier.positive)s
    %(BMRMClassifier.cost)s
    %(BMRMClassifier.beta)s
    %(BMRMClassifier.solver: As in :class:`BMRMClassifier`, which says what each takes.)s
    %(search_tol: 1e-3)s
    %(search_max_iter: 1000)s
    %(search_max_time)s
    %(BMRMClassifier.fit_intercept)s
    class_weight : dict or "balanced", default=None
        Factors on the sample weights by class, in every fit; "balanced" gives all classes the same
        total weight in the rows that are fitted.
    %(n_jobs: over the folds, and in the final fit)s
    %(search_verbose)s

    Attributes
    ----------
    %(best_reg_lambda)s
    C_, Cs_ : float, ndarray of shape (n_Cs,)
        The C of `reg_lambda_`, and all values in ascending order, if there are `Cs`.
    %(scores: n_lambdas)s
    classes_, coef_, intercept_, objective_, lower_bound_, dual_gap_, converged_, relative_gap_, \
n_iter_, status_, history_, n_features_in_, feature_names_in_
        Of the final fit, as in :class:`BMRMClassifier`.

    Raises
    ------
    ValueError
        As in :class:`BMRMClassifier`, and for reg_lambdas that are not positive.

    Warns
    -----
    %(search_warnings)s

    See Also
    --------
    BMRMClassifier : With a given reg_lambda; describes the objective and has the reference.

    Notes
    -----
    User guide: :ref:`paths`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_bundle import BMRMClassifierCV
    >>> X, y = load_digits(return_X_y=True)
    >>> model = BMRMClassifierCV(reg_lambdas=[1e-1, 1e-2, 1e-3], cv=3).fit(X / 16.0, y % 2)
    >>> model.scores_.shape, float(model.reg_lambda_)
    ((3, 3), 0.001)
    """

    _kind = BMRMClassifier
    _allowed: ClassVar[dict[str, Any]] = path_constraints(BMRMClassifier, PathSearch._not_shared)

    def __init__(
        self,
        loss: str | Loss = "hinge",
        *,
        reg_lambdas: int | ArrayLike | None = None,
        eps: float | None = None,
        Cs: int | ArrayLike | None = None,
        cv: Any = None,
        scoring: Any = None,
        regularizer: str | Regularizer = "l2",
        l1_ratio: float = 0.5,
        positive: bool = False,
        cost: ArrayLike | None = None,
        beta: float = 1.0,
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self._store(locals())


@fill_doc
class BMRMRegressorCV(PathSearch, BMRMRegressor):
    """:class:`BMRMRegressor` that chooses reg_lambda by cross-validation along paths.

    Take it in place of a grid search. Within a fold, each fit starts from the one with the next
    larger value; see :func:`bmrm_path`. Then the model is fitted to all data with the best value.

    Parameters
    ----------
    %(BMRMRegressor.loss: As in :class:`BMRMRegressor`, which has the formulas.)s
    %(reg_lambdas)s
        With L1 and the elastic net they start at :func:`reg_lambda_max` of all data, otherwise at
        1, in units of the spread of y: at 1e4 times the default `reg_lambda_` of
        :class:`BMRMRegressor`. None means 100 with these two, otherwise 10.
    %(eps_and_Cs: BMRMRegressor)s
    %(cv: consecutive)s
    %(scoring)s
        R^2, except D^2 of the pinball loss at that level for "quantile" and "absolute_error", and
        D^2 of the Poisson deviance for "poisson"; the mean over the targets.
    %(BMRMRegressor.regularizer)s
    %(BMRMRegressor.l1_ratio)s
    %(BMRMRegressor.positive)s
    %(BMRMRegressor.quantile)s
    %(BMRMRegressor.epsilon)s
        In a fold it is that of its own y.
    %(BMRMRegressor.delta)s
        In a fold it is that of its own y.
    %(BMRMRegressor.solver: As in :class:`BMRMRegressor`, which says what each takes.)s
    %(search_tol: 1e-3)s
    %(search_max_iter: 1000)s
    %(search_max_time)s
    %(BMRMRegressor.fit_intercept)s
    %(n_jobs: over the folds, and in the final fit)s
    %(search_verbose)s

    Attributes
    ----------
    %(best_reg_lambda)s
    C_, Cs_ : float, ndarray of shape (n_Cs,)
        The C of `reg_lambda_`, and all values in ascending order, if there are `Cs`.
    %(scores: n_lambdas)s
    coef_, intercept_, objective_, lower_bound_, dual_gap_, converged_, relative_gap_, \
n_iter_, status_, history_, n_features_in_, feature_names_in_
        Of the final fit, as in :class:`BMRMRegressor`.

    Raises
    ------
    ValueError
        As in :class:`BMRMRegressor`, and for reg_lambdas that are not positive.

    Warns
    -----
    %(search_warnings)s

    See Also
    --------
    BMRMRegressor : With a given reg_lambda; describes the objective and has the reference.

    Notes
    -----
    User guide: :ref:`paths`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn_bundle import BMRMRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BMRMRegressorCV(reg_lambdas=[1e-1, 1e-2, 1e-4], cv=3).fit(X, y)
    >>> float(model.reg_lambda_), model.mean_test_scores_.round(2).tolist()
    (0.0001, [0.05, 0.29, 0.49])
    """

    _kind = BMRMRegressor
    _allowed: ClassVar[dict[str, Any]] = path_constraints(BMRMRegressor, PathSearch._not_shared)

    def __init__(
        self,
        loss: str | RegressionLoss = "squared_error",
        *,
        reg_lambdas: int | ArrayLike | None = None,
        eps: float | None = None,
        Cs: int | ArrayLike | None = None,
        cv: Any = None,
        scoring: Any = None,
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
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self._store(locals())
