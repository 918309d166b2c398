"""BMRMClassifier and BMRMRegressor with reg_lambda chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils import indexable

from sklearn_bundle.core.base import checked, with_callbacks
from sklearn_bundle.core.certain_choice import CertainFolds, Known, rounds_of
from sklearn_bundle.core.contract import TimeLimit
from sklearn_bundle.core.misread import is_collection
from sklearn_bundle.core.path import check_grid, fit_path
from sklearn_bundle.core.reports import Grid, Report, reported
from sklearn_bundle.core.search import Search, folds_among, path_constraints, values_of_C
from sklearn_bundle.core.shared_docs import fill_doc
from sklearn_bundle.core.sklearn_internals import num_samples, safe_indexing
from sklearn_bundle.core.validation import checked_reg_lambda_of, checked_scorer
from sklearn_bundle.core.values import shown
from sklearn_bundle.core.weights import check_sample_weight
from sklearn_bundle.linear.estimators._path import values_for
from sklearn_bundle.linear.estimators._scores import bounds_of_score, default_scores, loss_scorer
from sklearn_bundle.linear.estimators.bmrm import BMRMClassifier
from sklearn_bundle.linear.estimators.bmrm_regressor import BMRMRegressor
from sklearn_bundle.linear.losses import Loss, RegressionLoss
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.rows._dask_rows import aligned

_VALUES = 10  # of reg_lambda by default, if w = 0 is optimal for none of them
_FOLDS = 5  # as in scikit-learn


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
        return values_for(grid, self, data, _VALUES)

    def _named(self, grid):
        return grid if self.Cs is None else Grid({"C": values_of_C(self.Cs)})

    def _folds(self, data, X, y, sample_weight, values, metadata):
        if is_collection(X):
            return self._folds_of_blocks(data, X, y, sample_weight, values)
        X, y = indexable(X, y)
        n, weights = num_samples(X), None
        if sample_weight is not None:
            weights = check_sample_weight(sample_weight, n)
        kept = np.arange(n) if weights is None else np.flatnonzero(weights)
        single = clone(self._single(n_jobs=1))
        folds = folds_among(self.cv, X, y, kept, is_classifier(single), metadata)
        own = loss_scorer(single._loss()) if self.scoring is None else None
        classes = data.classes if self.scoring is not None and is_classifier(single) else None
        scorer = partial(self._score_of, own or checked_scorer(single, self.scoring), classes)
        bounds_of = bounds_of_score(single._loss()) if self.certain else None

        def part(array: Any, places: NDArray) -> Any:
            return None if array is None else safe_indexing(array, kept[places])

        def models_of(
            train: NDArray, places: Any, report: Any, limit: TimeLimit, **how: Any
        ) -> Any:
            fitted = part(X, train), part(y, train), part(weights, train)
            return self._models_of_fold(single, fitted, data, values[places], report, limit, **how)

        def scores_of(models: Any, test: NDArray) -> list[float]:
            held_out = part(X, test), part(y, test), part(weights, test)
            if self.scoring is None and own is None:
                return list(default_scores(models, *held_out))
            return [scorer(model, *held_out) for model in models]

        def known_of(
            train: NDArray, test: NDArray, places: Any, report: Any, limit: TimeLimit, **how: Any
        ) -> list[Known]:
            models = list(models_of(train, places, report, limit, **how))
            if bounds_of is None or not models:
                return []
            counted = {} if weights is None else {"sample_weight": part(weights, test)}
            rows = models[0]._measured(part(X, test))
            bounds = [bounds_of(model, rows, part(y, test), **counted) for model in models]
            scores = [None] * len(models) if report is None else scores_of(models, test)
            return list(map(Known, scores, bounds))

        if self.certain:
            self._choice = CertainFolds(known_of, folds, len(values), rounds_of(self.tol))
            return folds, self._choice.begin

        def scores(train: NDArray, test: NDArray, report: Report, limit: TimeLimit) -> list[float]:
            return scores_of(models_of(train, slice(None), report, limit), test)

        return folds, scores

    def _why_uncertain(self, X: Any, data: Any) -> str | None:
        if is_collection(X):
            return "X lies in blocks"
        if not self._omega().bind(data.n_features, data.n_features).strong_convexity > 0.0:
            return f"regularizer={shown(self.regularizer)} is not strongly convex"
        if bounds_of_score(self._loss()) is None:
            return f"loss={shown(self.loss)} has a score without bounds"
        return super()._why_uncertain(X, data)

    def _models_of_fold(self, single, fitted, data, values, report, limit, *, ends=None, at=None):
        """The models of the values, fitted to X, y and weights of a training part.

        C weighs a sum of losses, reg_lambda their mean. Fits of a round ``at`` of a certain search
        go on from their ``ends``.
        """
        estimator = checked(single)
        if at is not None:
            estimator.tol, estimator._bounds_paths, estimator._curves_paths = (
                at.tol,
                True,
                at.curved,
            )
        fold = estimator._check(*fitted)
        here = values if self.Cs is None else values * (data.total / fold.total)
        models = fit_path(estimator, fold, here, limit=limit, ends=ends)
        return (
            (model for model, _ in models) if report is None else reported(models, values, report)
        )

    def _folds_of_blocks(self, data, X, y, sample_weight, values):
        """Folds of whole blocks of rows: each fold holds out every k-th block."""
        given = {"X": X, "y": y, "sample_weight": sample_weight}
        given = {name: values for name, values in given.items() if values is not None}
        columns = list(aligned(given).blocks.values())
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
            fitted += [None] * (3 - len(fitted))
            models = self._models_of_fold(single, fitted, data, values, report, limit)
            return [float(model.score(*held_out)) for model in models]

        place = np.arange(n_blocks) % n_folds
        pairs = [(np.flatnonzero(place != k), np.flatnonzero(place == k)) for k in range(n_folds)]
        return pairs, scores


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
    %(certain)s
        It takes 1.5 to 2.5 times as long, and needs a strongly convex regularizer, rows in memory
        and the default score.
    %(BMRMClassifier.regularizer)s
    %(BMRMClassifier.l1_ratio)s
    %(BMRMClassifier.cost)s
    %(BMRMClassifier.scaling)s
    %(BMRMClassifier.edges)s
    %(BMRMClassifier.beta)s
    %(BMRMClassifier.solver: As in :class:`BMRMClassifier`, which says what each takes.)s
    %(BMRMClassifier.bundle_size)s
    %(BMRMClassifier.theta)s
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
    %(certainty: n_lambdas)s
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
    _parameter_constraints: ClassVar[dict[str, Any]] = path_constraints(
        BMRMClassifier, PathSearch._not_shared
    )

    def __init__(
        self,
        loss: str | Loss = "hinge",
        *,
        reg_lambdas: int | ArrayLike | None = None,
        eps: float | None = None,
        Cs: int | ArrayLike | None = None,
        cv: Any = None,
        scoring: Any = None,
        certain: bool = False,
        regularizer: str | Regularizer = "l2",
        l1_ratio: float = 0.5,
        cost: ArrayLike | None = None,
        scaling: str = "margin",
        edges: Sequence[tuple[Hashable, Hashable]] | None = None,
        beta: float = 1.0,
        solver: str = "auto",
        bundle_size: int | None = None,
        theta: float = 0.1,
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
    %(certain)s
        It takes 1.5 to 2.5 times as long, and needs a strongly convex regularizer, rows in memory
        and the default score.
    %(BMRMRegressor.regularizer)s
    %(BMRMRegressor.l1_ratio)s
    %(BMRMRegressor.quantile)s
    %(BMRMRegressor.epsilon)s
        In a fold it is that of its own y.
    %(BMRMRegressor.delta)s
        In a fold it is that of its own y.
    %(BMRMRegressor.M)s
    %(BMRMRegressor.solver: As in :class:`BMRMRegressor`, which says what each takes.)s
    %(BMRMRegressor.bundle_size)s
    %(BMRMRegressor.theta)s
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
    %(certainty: n_lambdas)s
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
    _parameter_constraints: ClassVar[dict[str, Any]] = path_constraints(
        BMRMRegressor, PathSearch._not_shared
    )

    def __init__(
        self,
        loss: str | RegressionLoss = "squared_error",
        *,
        reg_lambdas: int | ArrayLike | None = None,
        eps: float | None = None,
        Cs: int | ArrayLike | None = None,
        cv: Any = None,
        scoring: Any = None,
        certain: bool = False,
        regularizer: str | Regularizer = "l2",
        l1_ratio: float = 0.5,
        quantile: float = 0.5,
        epsilon: float | None = None,
        delta: float | None = None,
        M: ArrayLike | None = None,
        solver: str = "auto",
        bundle_size: int | None = None,
        theta: float = 0.1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self._store(locals())
