"""SDCACRF for many values of reg_lambda, and with the value chosen by cross-validation."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import get_scorer_names
from sklearn.utils import column_or_1d, indexable

from sklearn_bundle import metrics
from sklearn_bundle.chain.estimators.crf import (
    SDCACRF,
    checked_sequences,
    fitted_by,
    new_solver,
    seed_of,
    solved,
)
from sklearn_bundle.chain.problem import ChainProblem
from sklearn_bundle.chain.readers.sequences import TrainingSequences
from sklearn_bundle.core import contract
from sklearn_bundle.core.contract import SolverResult, TimeLimit
from sklearn_bundle.core.docs import fill_doc
from sklearn_bundle.core.estimator import Fit, with_callbacks
from sklearn_bundle.core.folds import checked_scorer, folds_among, score_of
from sklearn_bundle.core.parallel import blas_threads, split_threads
from sklearn_bundle.core.parameters import Names, checked, warn_of_unused
from sklearn_bundle.core.path import (
    Models,
    Numbers,
    PathResult,
    check_values,
    fit_path,
    models_along,
    reported,
)
from sklearn_bundle.core.search import (
    Grid,
    Report,
    Search,
    metadata_of_folds,
    path_constraints,
    search,
    single_of,
)
from sklearn_bundle.core.validation import (
    check_sample_weight,
    checked_reg_lambda,
    num_samples,
    rows_of,
)
from sklearn_bundle.core.values import gathered

Places = NDArray[np.intp]

_NUMBER = 8  # of values, by default
_LARGEST = 10.0  # the first value, relative to the default of SDCACRF
_EPS = 1e-3  # ratio of the last value to the first: 5 to .005 as CRFsuite's c2
_SCORES = "token_accuracy", "sequence_accuracy", "flat_f1", "span_f1"  # scorers of metrics


class CRFPathResult(PathResult[Numbers, list[SDCACRF]]):
    """What :func:`crf_path` returns; it unpacks into `reg_lambdas` and `models`.

    Attributes
    ----------
    models : list of SDCACRF
        A fitted model for each value.
    """

    models: list[SDCACRF]

    _unpacked = "reg_lambdas", "models"


def crf_path(
    X: Any,
    y: Any,
    *,
    reg_lambdas: int | ArrayLike | None = None,
    eps: float | None = None,
    sample_weight: ArrayLike | None = None,
    **params: Any,
) -> CRFPathResult:
    """Models for many values of reg_lambda, each started where the last one ended.

    The objective and the method [1]_ are those of :class:`SDCACRF`. Attributes are read once. The
    constraints of the dual do not depend on reg_lambda, so the solution for one value is a feasible
    start for the next smaller one. Every value has a certificate.

    Parameters
    ----------
    X : list of sequences, or array-like or sparse matrix of shape (n_samples, n_features)
        Training data, as for :class:`SDCACRF`.
    y : list of sequences of labels, or array-like of shape (n_samples,)
        Labels.
    reg_lambdas : int or array-like of shape (n_lambdas,), default=None
        Positive values, or how many, equally spaced on a logarithmic scale from ``10 / W`` down,
        with W the sum of the sample weights (n without any). None means 8.
    eps : float, default=None
        Ratio of the smallest value to the largest, if `reg_lambdas` holds no values. None means
        1e-3.
    sample_weight : array-like of shape (n_sequences,), default=None
        Weights, one per sequence. None means 1 for all.
    **params : dict
        Further parameters of :class:`SDCACRF`. `max_iter` and `max_time` are for each value.
        `verbose=1` prints a line per value.

    Returns
    -------
    path : tuple of an array and a list, with named fields
        It unpacks into the first two of its fields:

        * ``reg_lambdas``: the values in descending order, of shape (n_lambdas,);
        * ``models``: a list with a fitted :class:`SDCACRF` for each of them;
        * ``objectives``, ``lower_bounds``, ``dual_gaps``, ``n_iters``, ``statuses``: arrays of
          shape (n_lambdas,) with the certificates of the models, as in their `objective_`,
          `lower_bound_`, `dual_gap_`, `n_iter_` and `status_`.

    Raises
    ------
    ValueError
        As for :class:`SDCACRF`; also for reg_lambdas that are not positive, `eps` together with
        values, `reg_lambda` or `warm_start`.
    TypeError
        For a parameter that the estimator does not have.

    Warns
    -----
    ConvergenceWarning
        As for :class:`SDCACRF`, once for all values.

    See Also
    --------
    SDCACRFCV : Chooses reg_lambda by cross-validation.

    References
    ----------
    .. [1] R. Le Priol, A. Piché, S. Lacoste-Julien: Adaptive stochastic dual coordinate ascent for
       conditional random fields. Uncertainty in Artificial Intelligence, 2018.

    Examples
    --------
    >>> from sklearn_bundle import crf_path
    >>> X = [[{"word": "the"}, {"word": "man"}], [{"word": "they"}, {"word": "man"}]]
    >>> y = [["DT", "NN"], ["PRP", "VB"]]
    >>> path = crf_path(X, y, reg_lambdas=[0.01, 1.0], random_state=0)
    >>> path.reg_lambdas.tolist(), path.statuses.tolist()
    ([1.0, 0.01], ['converged', 'converged'])
    >>> reg_lambdas, models = path
    >>> models[0].predict(X)
    [['DT', 'NN'], ['PRP', 'VB']]
    """
    for name in {"reg_lambda", "warm_start"} & set(params):
        raise ValueError(f"crf_path takes no {name}, which is for a fit of one value.")
    estimator = checked(SDCACRF(**params))
    warn_of_unused(estimator)
    grid = check_values(reg_lambdas, None, eps)
    X, y, sample_weight = gathered("crf_path", X, y, sample_weight)
    data = checked_sequences(estimator, X, y, sample_weight)
    values = _values_for(grid, data)
    path = _path(estimator, data, values, seed_of(estimator))
    models = models_along("crf_path", estimator, values, path)
    return CRFPathResult.of(values, models, models=models)


def _path(
    estimator: SDCACRF,
    data: TrainingSequences,
    values: Numbers,
    seed: int,
    limit: TimeLimit | None = None,
) -> Models:
    """A fitted copy for each value, each fit started where the last one ended."""
    n_threads = split_threads(estimator.n_jobs, 1)[1]
    with ChainProblem(data, float(values[0]), estimator, n_threads) as problem:

        def solve(i: int, k: int, kept: Any, seconds: float | None) -> Any:
            problem.reg_lambda = float(values[i])
            solver = new_solver(estimator, problem, seed, kept)
            limits = {"tol": estimator.tol, "max_iter": estimator.max_iter, "max_time": seconds}
            with blas_threads(1):
                result = contract.run(solver, **limits)
            return result, solver.kept

        def attributes(i: int, results: list[SolverResult]) -> dict[str, Any]:
            return fitted_by(estimator, data, results[0], float(values[i]))

        yield from fit_path(estimator, values, solve, attributes, limit=limit)


def _values_for(grid: Any, data: TrainingSequences) -> NDArray[np.float64]:
    """Values in descending order."""
    values = grid.values
    if values is None:
        largest = _LARGEST * checked_reg_lambda(None, data.total)
        eps = _EPS if grid.eps is None else grid.eps
        values = np.geomspace(largest, eps * largest, grid.number or _NUMBER)
    for extreme in (values[0], values[-1]):
        checked_reg_lambda(float(extreme), data.total)
    return values


@fill_doc
class SDCACRFCV(Search, SDCACRF):
    """:class:`SDCACRF` that chooses reg_lambda by cross-validation along paths.

    Take it in place of a grid search. Attributes are read once, for all folds and values. Within a
    fold, each fit starts from the dual variables of the one with the next larger value; see
    :func:`crf_path`. Then the model is fitted to all data with the best value.

    Parameters
    ----------
    %(reg_lambdas)s
        They go from ``10 / W`` down, with W the sum of the sample weights (n without any). None
        means 8.
    eps : float, default=None
        Ratio of the smallest value to the largest, if `reg_lambdas` holds no values. None means
        1e-3.
    %(cv: consecutive)s
        The samples are sequences.
    scoring : {"token_accuracy", "sequence_accuracy", "flat_f1", "span_f1"}, a name of \
scikit-learn's, callable or None, default=None
        The score to maximize on the test parts. None means the accuracy of the tokens; "flat_f1" is
        the mean F1 of the labels, weighted by their frequency; "span_f1" is that of conlleval, for
        labels such as "B-NP". A callable is called with a fitted :class:`SDCACRF`, X and y. Sample
        weights count unless it is a callable. Scikit-learn's own names are for a 2-D X.
    %(SDCACRF.l1_ratio)s
    %(SDCACRF.solver)s
    %(SDCACRF.fit_intercept)s
    %(SDCACRF.min_frequency)s
        In folds, too, those of all data count.
    %(SDCACRF.forbidden)s
    %(SDCACRF.sampling)s
    %(SDCACRF.nonuniformity)s
    %(search_tol: 1e-2)s
        1e-2 is usually enough for prediction.
    max_iter : int, default=100
        Maximum number of epochs of every fit.
    %(search_max_time)s
    %(n_jobs: over the folds, and in the final fit)s
        Within ``joblib.parallel_config(backend="loky")`` folds run in processes.
    %(random_state: the sampling, the same for all folds)s
    %(search_verbose)s

    Attributes
    ----------
    %(best_reg_lambda)s
    %(scores: n_lambdas)s
    classes_, coef_, transitions_, intercept_, start_, end_, attribute_names_, objective_, \
lower_bound_, dual_gap_, converged_, relative_gap_, n_iter_, status_, solver_, history_, \
n_features_in_, feature_names_in_
        Of the final fit, as in :class:`SDCACRF`.

    Raises
    ------
    ValueError
        As in :class:`SDCACRF`, for reg_lambdas that are not positive, and for a training part with
        a single class.

    Warns
    -----
    %(search_warnings)s

    See Also
    --------
    SDCACRF : With a given reg_lambda; describes the objective.

    Notes
    -----
    User guide: :ref:`crf`.

    References
    ----------
    %(sdca_paper: 1)s

    Examples
    --------
    >>> from sklearn_bundle import SDCACRFCV
    >>> X = [[{"word": word} for word in words] for words in (["the", "man"], ["they", "man"]) * 3]
    >>> y = [["DT", "NN"], ["PRP", "VB"]] * 3
    >>> model = SDCACRFCV(reg_lambdas=[1.0, 0.1, 0.01], cv=3, random_state=0).fit(X, y)
    >>> model.scores_.shape, model.reg_lambda_
    ((3, 3), 1.0)
    >>> model.status_
    'converged'
    """

    reg_lambda_: float
    reg_lambdas_: NDArray[np.float64]

    _allowed: ClassVar[dict[str, Any]] = path_constraints(SDCACRF, ("reg_lambda", "warm_start")) | {
        "scoring": [Names({*get_scorer_names(), *_SCORES}), callable, None]
    }

    def __init__(
        self,
        *,
        reg_lambdas: int | ArrayLike | None = None,
        eps: float | None = None,
        cv: Any = None,
        scoring: Any = None,
        l1_ratio: float = 0.0,
        solver: str = "auto",
        fit_intercept: bool = True,
        min_frequency: int | None = None,
        forbidden: Any = None,
        sampling: str = "gap",
        nonuniformity: float = 0.8,
        tol: float = 1e-2,
        max_iter: int = 100,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self._store(locals())

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, **params: Any) -> Self:
        """Choose the value by cross-validation, then fit the model to all data.

        Parameters
        ----------
        X : list of sequences, or array-like or sparse matrix of shape (n_samples, n_features)
            Training data, as for :class:`SDCACRF`.
        y : list of sequences of labels, or array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_sequences,), default=None
            Weights >= 0, in every fit. A weight of 2 counts as a repeated sequence, a weight of 0
            as a missing one.
        **params : dict
            `groups`, array-like with an entry for each sequence, for a splitter as `cv` that needs
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
        X, y, sample_weight = gathered(type(self).__name__, X, y, sample_weight)
        run = Fit(self, X, y, sample_weight=sample_weight)
        own, limit = run.params, TimeLimit(run.params.max_time)
        data = checked_sequences(own, X, y, sample_weight)
        values = _values_for(check_values(own.reg_lambdas, None, own.eps), data)
        if data.plain:
            X, y = indexable(X, y if np.asarray(y).ndim == 1 else column_or_1d(y))
        single = single_of(own, SDCACRF, n_jobs=1)
        scorer = _SCORES[0] if own.scoring is None else own.scoring
        read = scorer in _SCORES  # scorers that pass X to predict alone
        scorer = getattr(metrics, f"{scorer}_scorer") if read else scorer
        scorer = checked_scorer(single, scorer)
        weights = check_sample_weight(sample_weight, num_samples(X))
        folds = folds_among(own.cv, X, y, data.kept, False, metadata)
        seed = seed_of(single)

        def scores(train: Places, test: Places, report: Report, limit: TimeLimit) -> list[float]:
            estimator, rows = checked(single), data.kept[test]
            part = data.part(train)
            if len(part.classes) < 2:
                raise ValueError("A training part of cv has labels of 1 class: use other folds.")
            held_out = data.sequences(test) if read else rows_of(X, rows)
            labels = rows_of(y, rows)
            counted = None if sample_weight is None else weights[rows]
            models = reported(_path(estimator, part, values, seed, limit), report)
            scored = held_out, labels, counted
            return [score_of(scorer, own.scoring, None, model, *scored) for model in models]

        grid = Grid({"reg_lambda": values})
        found = search(run, single, grid, folds, scores, limit, processes=True)
        best = grid.params(found.place)
        final = checked(single_of(own, SDCACRF, **best))
        final.max_time = limit.left  # which may be 0
        fitted, results = solved(run, final, data)
        fitted |= grid.chosen(found.place) | found.attributes()
        caveat = found.advice(run.name, own.max_time, fitted["coef_"])
        return run.finish(fitted, results, caveat=caveat)
