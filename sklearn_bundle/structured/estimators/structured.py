"""Structured outputs by large margins or by likelihood, to a certified optimum."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from sklearn_bundle.core.contract import SolverResult, Status
from sklearn_bundle.core.docs import fill_doc
from sklearn_bundle.core.estimator import (
    CertifiedEstimator,
    Fit,
    OneCertificate,
    Points,
    points_of,
    with_callbacks,
)
from sklearn_bundle.core.lbfgs import LBFGSSolver
from sklearn_bundle.core.parallel import split_threads
from sklearn_bundle.core.parameters import OF_FITS, Interval, Names
from sklearn_bundle.core.validation import checked_reg_lambda
from sklearn_bundle.core.values import gathered
from sklearn_bundle.core.warm import fingerprint_of
from sklearn_bundle.structured.models.base import StructuredModel
from sklearn_bundle.structured.models.examples import Examples
from sklearn_bundle.structured.problems.structured import (
    LikelihoodProblem,
    StructuredProblem,
    StructuredRisk,
)
from sklearn_bundle.structured.readers.outputs import OutputFinder, reader_of
from sklearn_bundle.structured.readers.structures import Reading, checked_model, forget
from sklearn_bundle.structured.solvers.adapted import MarginalGapSolver
from sklearn_bundle.structured.solvers.block_solvers import (
    BlockCoordinateSolver,
    OneSimplexSolver,
    SimplicialSolver,
)

_TOGETHER = "bundle", "rsd-one-simplex"
_PRODUCTS: dict[str, Any] = {"rsd": "product", "rsd-working-sets": "working-sets"}
_SMOOTH = "auto", "lbfgs", "bundle"  # for the logistic loss

#: The names of all solvers.
SOLVERS = {"auto", "bcfw", "excessive-gap", *_PRODUCTS, *_TOGETHER, *_SMOOTH}


@fill_doc
class StructuredSVM(OutputFinder, OneCertificate, CertifiedEstimator):
    """Support vector machine for sequences, segments, graphs, matchings and sets of labels.

    Take it where an output has parts that depend on each other, and mistakes have costs of your
    own. For labels of tokens with probabilities take :class:`SDCACRF`. A model defines the features
    phi(x, y) of an output y, its loss l_i(y), and how to find the best output. With ``D_i(y) =
    phi(x_i, y) - phi(x_i, y_i)`` it minimizes over w::

        P(w) = reg_lambda / 2 ||w||^2 + sum_i s_i H_i(w)

        H_i(w) = max_y [l_i(y) + <w, D_i(y)>]      scaling="margin"
        H_i(w) = max_y l_i(y) [1 + <w, D_i(y)>]    scaling="slack"
        H_i(w) = log sum_y exp <w, D_i(y)>         loss="log"

    with ``H_i(w)^2 / 2`` for "squared_hinge". The s_i are the sample weights, normalized to the sum
    one. The loss of an example is not divided by its length.

    For "chain", X and y are as in :class:`SDCACRF`, for "multiclass" as in a classifier; for the
    others see :mod:`sklearn_bundle.models`.

    Parameters
    ----------
    model : {"chain", "multiclass", "graph", "grid", "segments", "matching", "multilabel"} or \
            StructuredModel, default="chain"
        A name for a model with its defaults, or an instance, whose parameters are set as
        ``model__cost``.
    reg_lambda : float, default=None
        Regularization strength relative to the mean loss of an example; larger is simpler. None
        means one over the sum of the sample weights, or 1/n: try 10 to 0.01 times this.
    solver : {"auto", "bcfw", "rsd", "rsd-one-simplex", "rsd-working-sets", "bundle", \
            "excessive-gap", "lbfgs"}, default="auto"
        "auto": "bcfw", accelerated; for ``loss="log"`` "lbfgs".
        "bcfw": steps on an example at a time [2]_.
        "rsd", "rsd-one-simplex", "rsd-working-sets": restricted simplicial decomposition [1]_.
        "bundle": cutting planes.
        "excessive-gap": chains, hinge with margin rescaling.
        "lbfgs": ``loss="log"``.
    loss : {"hinge", "squared_hinge", "log"}, default="hinge"
        "log" is for chains and segments.
    scaling : {"margin", "slack"}, default="margin"
        "slack" is for "multiclass", and for your models with ``slack_rescaled_inference``.
    %(tol: 1e-3)s
    max_iter : int, default=1000
        Maximum number of passes of the oracle over all examples.
    %(max_time)s
    n_cached_outputs : int, default=None
        Outputs kept per example, at least 2 (the r of [1]_). None means 48, or more if all have
        weight.
    sampling : {"gap", "uniform"}, default="gap"
        How "auto" and "bcfw" sample examples.
    warm_start : bool, default=False
        Whether the next fit with the same data, model, loss and solver starts from this one.
    %(n_jobs_exact: examples, your models' methods included)s
    %(random_state: the order of the examples)s
    %(verbose)s

    Attributes
    ----------
    w_ : ndarray of shape (n_parameters,)
        The weights, in the order of the model's features.
    model_ : StructuredModel
        The fitted clone of `model`.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted, if the model has them.
    coef_, transitions_, intercept_, start_, end_, attribute_names_ : ndarray
        Parts of w as in :class:`SDCACRF`, if the model has them.
    first_, last_, lengths_ : ndarray of shape (n_classes, n_features) or (n_classes, max_length)
        For "segments": ``coef_`` at their first and last token, and weights of their lengths.
    pairs_ : ndarray of shape (n_pairs, 2, 2)
        For "multilabel": weights of the states of ``model_.edges_``.
    exact_ : bool
        Whether the model's inference finds the worst output, or bounds it.
    %(certificate: P)s
        With inexact inference, the model's upper bounds replace the H_i. Both gaps are infinity if
        `exact_` is False.
    %(convergence)s
    solver_ : str
        The solver that ran.
    %(reg_lambda_)s
    %(history: oracle calls over n)s
        and, but for "lbfgs", ``oracle_calls``.
    n_features_in_ : int
        Number of features, if X has them.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, if X had data frames with string names.

    Raises
    ------
    ValueError
        For a parameter that is out of its range or not supported by the model or solver, wrong X, y
        or weights, or invalid values from a model.
    TypeError
        For a model that is no StructuredModel, or an X or y that is no list.

    Warns
    -----
    %(missed_tol)s
    UserWarning
        If the model is not exact and has no upper bounds.

    See Also
    --------
    sklearn_bundle.models : The models, and your own.
    sklearn_bundle.metrics : Scores of label sequences and spans.

    Notes
    -----
    User guide: :ref:`structured`.

    Margin rescaling is (3) of [1]_, slack rescaling (17) and (22); the bound is the dual (7). See
    :doc:`/user_guide/structured_theory`.

    In searches an integer `cv` means folds in the order of the data, except for classes.

    References
    ----------
    .. [1] H. Yu, J. Rousu: An efficient method for large margin parameter optimization in
       structured prediction problems. University of Helsinki, 2007.
    .. [2] S. Lacoste-Julien et al.: Block-coordinate Frank-Wolfe optimization for structural SVMs.
       ICML, 2013.

    Examples
    --------
    >>> from sklearn_bundle import StructuredSVM
    >>> X = [[{"word": "the"}, {"word": "boats"}], [{"word": "they"}, {"word": "sleep"}]]
    >>> y = [["DT", "NN"], ["PRP", "VB"]]
    >>> tagger = StructuredSVM("chain", random_state=0).fit(X, y)
    >>> tagger.status_
    'converged'
    >>> tagger.predict([[{"word": "the"}, {"word": "man"}]])
    [['DT', 'NN']]
    """

    exact_: bool
    solver_: str
    reg_lambda_: float

    _allowed: ClassVar[dict[str, Any]] = {
        "model": "no_validation",  # checked by checked_model, whose error says what to pass instead
        "reg_lambda": [Interval(Real, 0, None, closed="neither"), None],
        "solver": [Names(SOLVERS)],
        "loss": [Names({"hinge", "squared_hinge", "log"})],
        "scaling": [Names({"margin", "slack"})],
        "n_cached_outputs": [Interval(Integral, 2, None, closed="left"), None],
        "sampling": [Names({"gap", "uniform"})],
        "random_state": ["random_state"],
        **OF_FITS,
    }
    _used_with = {  # noqa: RUF012
        "sampling": ("solver", ("auto", "bcfw")),
        "scaling": ("loss", ("hinge", "squared_hinge")),
    }
    _advice: ClassVar[dict[Status, str]] = {
        Status.MAX_ITER: "Increase max_iter or tol, or reg_lambda; scaling the features helps too.",
        Status.MAX_TIME: "Increase max_time or tol, or reg_lambda.",
        Status.STALLED: "Rounding prevents further progress: increase tol, or scale the features.",
    }

    def __init__(
        self,
        model: str | StructuredModel = "chain",
        *,
        reg_lambda: float | None = None,
        solver: str = "auto",
        loss: str = "hinge",
        scaling: str = "margin",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        n_cached_outputs: int | None = None,
        sampling: str = "gap",
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self._store(locals())

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : list of inputs
            As the model accepts them; see the table above.
        y : list of outputs
            True outputs, one per input.
        sample_weight : array-like of shape (n_examples,), default=None
            Weights >= 0. A weight of 2 counts as a repeated example, a weight of 0 as a missing
            one. None means 1 for all.

        Returns
        -------
        self : StructuredSVM
            Fitted estimator.
        """
        X, y, sample_weight = gathered(type(self).__name__, X, y, sample_weight)
        run = Fit(self, X, y, sample_weight=sample_weight)
        params = run.params
        data = _checked_data(params, X, y, sample_weight)
        seed = check_random_state(params.random_state).randint(np.iinfo(np.int32).max)
        run.reuse(lambda: _fingerprint(params, data), (data.reg_lambda, params.sampling))

        def solve(k: int, observe: Any, seconds: float | None) -> SolverResult:
            def begin(start: Any) -> Any:
                of_steps = {"tol": params.tol, "seed": seed, "sampling": params.sampling}
                given = {"n_cached_outputs": params.n_cached_outputs, "kept": start}
                return new_solver(problem, params.loss, params.solver, **of_steps, **given)

            with bound_problem(params.loss, data, split_threads(params.n_jobs, 1)[1]) as problem:
                return run.minimize(k, problem, begin, observe, seconds)[1]

        def model(points: Points) -> dict[str, Any]:
            of_w = reader_of(data.model).attributes(data.model, data.reading, points[0][0])
            return {"model_": data.model, **data.reading.fitted, **of_w}

        (result,) = results = run.solve(solve, model, waits=False)  # a pass may take minutes
        proved = is_proved(params.loss, data, result.point)
        name = type(data.model).__name__
        further = {"solver_": result.solver, "reg_lambda_": data.reg_lambda, "exact_": proved}
        advice, caveat = further_advice(data.examples, name), None
        if not proved:
            further |= {"dual_gap_": np.inf, "relative_gap_": np.inf, "converged_": False}
            caveat = (
                f"{name} is not exact and has no finite upper_bound: objective_ is a sum over the "
                "outputs that its inference found; there may be worse ones, and nothing is proved."
            )
            if result.status is Status.CONVERGED:
                further["status_"] = str(Status.STALLED)
        attributes = model(points_of(results)) | further
        return run.finish(attributes, results, caveat=caveat, advice=advice)


def _checked_data(params: StructuredSVM, X: Any, y: Any, sample_weight: Any) -> StructuredData:
    """The checked data, and the model fitted to them."""
    model = checked_model(type(params).__name__, params.model)
    scaling = "margin" if params.loss == "log" else params.scaling
    formulation = params.loss, params.solver, scaling, type(model).__name__
    check_formulation(*formulation)
    forget(params)
    reading = reader_of(model).read(params, X, y, sample_weight)
    reg_lambda = checked_reg_lambda(params.reg_lambda, reading.total)
    examples = model.examples(reading.X, reading.y, scaling)
    check_formulation(*formulation, examples)
    return StructuredData(model, reading, examples, reg_lambda)


def _fingerprint(params: StructuredSVM, data: StructuredData) -> tuple[Any, ...] | None:
    """A key of data, model and what a kept state belongs to; None if one has no hash."""
    of_data = data.reading.fingerprint()
    of_model = fingerprint_of([(type(data.model), data.model.get_params(deep=False))])
    if of_data is None or of_model is None:
        return None
    of_problem = params.loss, params.scaling, params.solver, params.n_cached_outputs
    return of_data, of_model, *of_problem


# ---- data, problems and solvers ------------------------------------------------------------------


@dataclass
class StructuredData:
    """Training data and the model fitted to them."""

    model: StructuredModel
    reading: Reading
    examples: Examples
    reg_lambda: float


def check_formulation(
    loss: str, solver: str, scaling: str, name: str, examples: Examples | None = None
) -> None:
    """ValueError if the solver, or the model of this name, does not support the loss."""
    log, message = loss == "log", None
    of_chains = loss == "hinge" and scaling == "margin" and (not examples or examples.has_edges)
    if log and solver not in _SMOOTH:
        names = ", ".join(map(repr, _SMOOTH))
        message = f"loss='log' takes one of the solvers {names}, got solver={solver!r}."
    elif not log and solver == "lbfgs":
        message = f"solver='lbfgs' is only for loss='log', got loss={loss!r}."
    elif solver == "excessive-gap" and not of_chains:
        message = (
            "solver='excessive-gap' takes only the model 'chain' and only loss='hinge' with "
            f"scaling='margin'; with loss={loss!r} and scaling={scaling!r} it got {name}; use "
            "solver='auto'."
        )
    elif log and examples and not examples.likelihood:
        message = f"loss='log' is for chains and segments, got {name}: use loss='hinge'."
    if message is not None:
        raise ValueError(message)


def further_advice(examples: Examples, name: str) -> dict[Status, str]:
    """Advice if ``tol`` was not reached and the model of this name is not exact."""
    if examples.exact:
        return {}
    return {
        Status.STALLED: f"The rest lies between the outputs that {name} has found and its "
        "upper_bound: increase tol, or let the inference search for longer."
    }


def is_proved(loss: str, data: StructuredData, point: Any) -> bool:
    """Whether the objective is an upper bound: the oracle is exact, or has upper bounds."""
    if loss == "log":
        return True
    examples = data.examples
    if examples.exact or data.model.upper_bound is None:
        return examples.exact
    return bool(np.isfinite(examples.find(point, 0, examples.n_examples).bounds).all())


def bound_problem(loss: str, data: StructuredData, n_threads: int) -> StructuredRisk:
    """The examples bound to the loss."""
    weights = data.reading.weights
    if loss == "log":
        return LikelihoodProblem(data.examples, weights, data.reg_lambda, n_threads)
    squared = loss == "squared_hinge"
    return StructuredProblem(data.examples, weights, data.reg_lambda, squared, n_threads)


def new_solver(
    problem: Any, loss: str, solver: str, *, tol: float, seed: int, sampling: str, **given: Any
) -> Any:
    """The solver of that name; ``given``: ``n_cached_outputs`` and the state that it ``kept``."""
    if solver in _TOGETHER:
        return OneSimplexSolver(problem, name=solver, tol=tol, **given)
    if loss == "log":
        return LBFGSSolver(problem, given["kept"])
    if solver == "excessive-gap":
        return MarginalGapSolver(problem, kept=given["kept"])
    if solver in _PRODUCTS:
        return SimplicialSolver(problem, variant=_PRODUCTS[solver], tol=tol, **given)
    acceleration = "auto" if solver == "auto" else "never"
    sampled = {"seed": seed, "sampling": sampling, "acceleration": acceleration}
    return BlockCoordinateSolver(problem, **sampled, tol=tol, **given)
