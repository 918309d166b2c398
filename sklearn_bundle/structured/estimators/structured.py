"""Structured outputs by large margins or by likelihood, to a certified optimum."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from sklearn_bundle.core.contract import SolverResult, Status
from sklearn_bundle.core.fit import CertifiedEstimator, OneCertificate, Outcome, fit_certified
from sklearn_bundle.core.parameters import RELATIVE_GAP, Names
from sklearn_bundle.core.shared_docs import fill_doc
from sklearn_bundle.core.sklearn_internals import Interval
from sklearn_bundle.core.validation import checked_reg_lambda
from sklearn_bundle.core.warm import WarmStart, parts_fingerprint
from sklearn_bundle.structured.estimators._structured_solvers import (
    SOLVERS,
    StructuredData,
    bound_problem,
    check_examples,
    check_formulation,
    further_advice,
    is_proved,
    new_solver,
)
from sklearn_bundle.structured.models.base import StructuredModel
from sklearn_bundle.structured.problems.structured import StructuredRisk
from sklearn_bundle.structured.readers.outputs import OutputFinder, reader_of
from sklearn_bundle.structured.readers.structures import checked_model, forget


@fill_doc
class StructuredSVM(OutputFinder, OneCertificate, CertifiedEstimator):
    """Support vector machine for sequences, segments, graphs, matchings and sets of labels.

    Take it where an output has parts that depend on each other, and a mistake has a cost of your
    own. For labels of tokens with probabilities, :class:`SDCACRF` takes less time. A model defines
    the outputs y of an input x: their features phi(x, y), their loss l_i(y) against the true
    output y_i, and how to find the best one. It minimizes over w::

        P(w) = reg_lambda / 2 ||w||^2 + sum_i s_i H_i(w)

        H_i(w) = max_y [l_i(y) + <w, phi(x_i, y)> - <w, phi(x_i, y_i)>]      scaling="margin"
        H_i(w) = max_y l_i(y) [1 + <w, phi(x_i, y)> - <w, phi(x_i, y_i)>]    scaling="slack"
        H_i(w) = log sum_y exp <w, phi(x_i, y)> - <w, phi(x_i, y_i)>         loss="log"

    with ``H_i(w)^2 / 2`` in place of H_i(w) for "squared_hinge". The s_i are the sample weights,
    normalized to the sum one; the loss of an example is not divided by its length. C of [1]_ is
    ``1 / (n reg_lambda)``, with slack rescaling ``1 / reg_lambda``.

    X and y are, for "chain" and "segments", sequences and their labels or segments, as for
    :class:`SDCACRF`; for "multiclass" and "multilabel", a 2-D X with labels or an indicator
    matrix; otherwise lists of what the docstrings of :mod:`sklearn_bundle.models` describe.

    Parameters
    ----------
    model : {"chain", "multiclass", "graph", "grid", "segments", "matching", "multilabel"} or \
            StructuredModel, default="chain"
        The kind of outputs: a name for a model with its defaults, or an instance, whose parameters
        are set as ``model__cost``.
    reg_lambda : float, default=None
        Regularization strength relative to the mean loss of an example; larger is simpler. None
        means one over the sum of the sample weights, 1/n without: try 10 to 0.01 times this.
    solver : {"auto", "bcfw", "rsd", "rsd-one-simplex", "rsd-working-sets", "bundle", \
            "excessive-gap", "lbfgs"}, default="auto"
        "auto": "bcfw" with an accelerated outer loop [6]_; for ``loss="log"`` "lbfgs".
        "bcfw": steps on an example at a time [2]_, over its outputs that are kept [3]_.
        "rsd", "rsd-one-simplex", "rsd-working-sets": restricted simplicial decomposition [1]_.
        "bundle": cutting planes of the sum of the losses [7]_, [8]_.
        "excessive-gap": marginals of chains [9]_, hinge with margin rescaling.
        "lbfgs": ``loss="log"``.
    loss : {"hinge", "squared_hinge", "log"}, default="hinge"
        H_i, half its square, or the negative log-likelihood, for models that can sum over their
        outputs: chains, segments, classes, "multilabel", yours with ``expected_features``.
    scaling : {"margin", "slack"}, default="margin"
        Whether a loss asks for a margin of its size, or multiplies what a margin of 1 lacks; the
        latter needs integer costs for chains, and ``slack_rescaled_inference`` of your models.
    %(tol: 1e-3)s
    max_iter : int, default=1000
        Maximum number of iterations: passes of the oracle over all examples, with their steps.
    %(max_time: the optimization)s
    n_cached_outputs : int, default=None
        Maximum number of outputs kept per example besides the true one, at least 2: the r of [1]_.
        None means 48, or more if all have weight. It is the number of points of "rsd-one-simplex"
        (default 50), of planes of "bundle" (all), of past steps of "lbfgs" (10).
    sampling : {"gap", "uniform"}, default="gap"
        How "auto" and "bcfw" sample examples: four in five in proportion to their last known
        gaps, or all uniformly.
    warm_start : bool, default=False
        Whether the next fit starts from this one, if it has the same X, y, weights, model, `loss`,
        `scaling`, `solver` and `n_cached_outputs`.
    %(n_jobs_exact: examples in passes and in prediction, your models' methods included)s
    %(random_state: the order of the examples)s
    %(verbose)s

    Attributes
    ----------
    w_ : ndarray of shape (n_parameters,)
        The weights, in the order of the model's features.
    model_ : StructuredModel
        The clone of the model that was fitted.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted; this and the next ones are parts of w, where the model has them.
    coef_ : ndarray of shape (n_classes, n_features) or (1, n_features)
        Weights of features with labels; of two classes the second minus the first.
    first_, last_ : ndarray of shape (n_classes, n_features)
        The same at the first and the last token of segments with ``boundaries``.
    transitions_ : ndarray of shape (n_classes, n_classes)
        Weights of pairs of successive labels, ``transitions_[from, to]``.
    lengths_ : ndarray of shape (n_classes, max_length)
        Weights of the lengths of segments, from 1.
    intercept_ : ndarray of shape (n_classes,)
        Bias of each label.
    start_, end_ : ndarray of shape (n_classes,)
        Additional bias of the label of the first and of the last token.
    pairs_ : ndarray of shape (n_pairs, 2, 2)
        Weights of the states of each pair of ``model_.edges_``.
    attribute_names_ : ndarray of shape (n_features,)
        Names of the columns of ``coef_``, if X held dicts or lists of strings.
    exact_ : bool
        Whether the model's inference finds the worst output, or bounds it.
    %(certificate: P)s
        With inexact inference, the model's upper bounds replace the H_i. Both gaps are infinity if
        `exact_` is False.
    %(convergence)s
    solver_ : str
        The solver that ran.
    %(reg_lambda_)s
    %(history: oracle calls over n, rounded down)s
        ``oracle_calls`` (searches for a worst output, or sums over all) and what the solver adds.
    n_features_in_ : int
        Number of features, or of attributes; not for models that take lists of their own.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, if X had data frames with string names.

    Raises
    ------
    ValueError
        Before anything is fitted: for a parameter out of its range or that the model or solver does
        not support, wrong X, y or weights, a model whose methods return invalid values.
    TypeError
        For a model that is no StructuredModel, or an X or y that is not a list.

    Warns
    -----
    %(missed_tol)s
    UserWarning
        If the model is not exact and has no upper bounds: then nothing is proved.

    See Also
    --------
    SDCACRF : Chains by likelihood, in less time and with probabilities; same data and attributes.
    BMRMClassifier : The loss of "multiclass" and Ontology with an intercept, and many other losses.
    sklearn_bundle.models : The models, and how to write your own.
    sklearn_bundle.metrics : Scores and scorers of label sequences and of the spans that they mark.

    Notes
    -----
    User guide: :ref:`structured`.

    Margin rescaling is (3) of [1]_ and [4]_, slack rescaling (17) and (22); its quadratic form has
    l_i(y) in place of its square root in [5]_. The bound is the dual at the weights of the kept
    outputs, (7) of [1]_; that of "lbfgs" has the gap ``||grad P(w)||^2 / (2 reg_lambda)``. See
    :doc:`/user_guide/structured_theory`.

    For scikit-learn it is a classifier only with models of classes. Otherwise an integer `cv`
    means folds in the order of the data; if these are sorted, pass ``KFold(shuffle=True)``.

    References
    ----------
    .. [1] H. Yu, J. Rousu: An efficient method for large margin parameter optimization in
       structured prediction problems. Technical report, University of Helsinki, 2007.
    .. [2] S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher: Block-coordinate Frank-Wolfe
       optimization for structural SVMs. International Conference on Machine Learning, 2013.
    .. [3] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. K. Dokania, S. Lacoste-Julien: Minding the
       gaps for block Frank-Wolfe optimization of structured SVMs. International Conference on
       Machine Learning, 2016.
    .. [4] B. Taskar, C. Guestrin, D. Koller: Max-margin Markov networks. Advances in Neural
       Information Processing Systems 16, 2003.
    .. [5] I. Tsochantaridis, T. Joachims, T. Hofmann, Y. Altun: Large margin methods for structured
       and interdependent output variables. Journal of Machine Learning Research 6 (2005),
       1453-1484.
    .. [6] H. Lin, J. Mairal, Z. Harchaoui: A universal catalyst for first-order optimization.
       Advances in Neural Information Processing Systems 28, 2015.
    .. [7] T. Joachims, T. Finley, C.-N. Yu: Cutting-plane training of structural SVMs. Machine
       Learning 77 (2009), 27-59.
    %(bmrm_paper: 8)s
    .. [9] A. Saha, X. Zhang, S. V. N. Vishwanathan: Lower bounds for BMRM and faster rates for
       training SVMs, 2010; appendix E.

    Examples
    --------
    >>> from sklearn_bundle import StructuredSVM
    >>> X = [
    ...     [{"word": "the"}, {"word": "old"}, {"word": "man"}, {"word": "sleeps", "ends": "s"}],
    ...     [{"word": "they"}, {"word": "man"}, {"word": "the"}, {"word": "boats", "ends": "s"}],
    ...     [{"word": "the"}, {"word": "boats", "ends": "s"}, {"word": "sleep"}],
    ... ]
    >>> y = [["DT", "JJ", "NN", "VB"], ["PRP", "VB", "DT", "NN"], ["DT", "NN", "VB"]]
    >>> tagger = StructuredSVM("chain", random_state=0).fit(X, y)
    >>> tagger.status_, tagger.relative_gap_ <= 1e-3
    ('converged', True)
    >>> tagger.predict([[{"word": "they"}, {"word": "sleep"}], [{"word": "the"}, {"word": "old"}]])
    [['PRP', 'VB'], ['DT', 'JJ']]
    """

    exact_: bool
    solver_: str
    reg_lambda_: float

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012 - scikit-learn's convention
        "model": "no_validation",  # checked by checked_model, whose error says what to pass instead
        "reg_lambda": [Interval(Real, 0, None, closed="neither"), None],
        "solver": [Names(SOLVERS)],
        "loss": [Names({"hinge", "squared_hinge", "log"})],
        "scaling": [Names({"margin", "slack"})],
        "tol": [RELATIVE_GAP],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "n_cached_outputs": [Interval(Integral, 2, None, closed="left"), None],
        "sampling": [Names({"gap", "uniform"})],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    _used_with = {  # noqa: RUF012
        "sampling": ("solver", ("auto", "bcfw")),
        "scaling": ("loss", ("hinge", "squared_hinge")),
    }
    _advice: dict[Status, str] = {  # noqa: RUF012 - a fit may replace it
        Status.MAX_ITER: "Increase max_iter or tol, or reg_lambda; scaling the features helps too.",
        Status.MAX_TIME: "Increase max_time or tol, or reg_lambda.",
        Status.STALLED: "Rounding prevents further progress: increase tol, or scale the features.",
    }
    _waits_for_a_point = False  # a pass of a user's oracle may take minutes

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
        self.model = model
        self.reg_lambda = reg_lambda
        self.solver = solver
        self.loss = loss
        self.scaling = scaling
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_cached_outputs = n_cached_outputs
        self.sampling = sampling
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

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
        return fit_certified(self, X, y, sample_weight)

    def _check(self, X: Any, y: Any, sample_weight: Any) -> StructuredData:
        model = checked_model(type(self).__name__, self.model)
        scaling = "margin" if self.loss == "log" else self.scaling
        check_formulation(self.loss, self.solver, scaling)
        forget(self)
        reading = reader_of(model).read(self, X, y, sample_weight)
        reg_lambda = checked_reg_lambda(self.reg_lambda, reading.total)
        examples = model.examples(reading.X, reading.y, scaling)
        check_examples(self.loss, self.solver, examples, type(model).__name__)
        self._advice = self._advice | further_advice(examples, type(model).__name__)
        return StructuredData(model, reading, examples, reg_lambda)

    def _targets(self, data: StructuredData) -> list[None]:
        return [None]

    def _problem(self, data: StructuredData, target: None, n_threads: int) -> StructuredRisk:
        return bound_problem(self.loss, data, n_threads)

    def _seed(self) -> int:
        return check_random_state(self.random_state).randint(np.iinfo(np.int32).max)

    def _blas_threads(self, n_threads: int) -> int:
        """One thread: more would make the last bits depend on ``n_jobs``."""
        return 1

    def _solver(self, problem: Any, kept: Any, seed: int) -> Any:
        of_steps = {"tol": self.tol, "seed": seed, "sampling": self.sampling}
        given = {"n_cached_outputs": self.n_cached_outputs, "kept": kept}
        return new_solver(problem, self.loss, self.solver, **of_steps, **given)

    def _keep(self, solver: Any, result: SolverResult) -> Any:
        return solver.kept

    def _fingerprint(self, data: StructuredData) -> tuple[Any, ...] | None:
        of_data = data.reading.fingerprint()
        of_model = parts_fingerprint([(type(data.model), data.model.get_params(deep=False))])
        if of_data is None or of_model is None:
            return None
        return of_data, of_model, self.loss, self.scaling, self.solver, self.n_cached_outputs

    def _settings(self, data: StructuredData) -> tuple[Any, ...]:
        return data.reg_lambda, self.sampling

    def _model(self, data: StructuredData, points: list[tuple[Any, Any]]) -> dict[str, Any]:
        of_w = reader_of(data.model).attributes(data.model, data.reading, points[0][0])
        return {"model_": data.model, **data.reading.fitted, **of_w}

    def _further_attributes(self, data: StructuredData, warm: WarmStart) -> dict[str, Any]:
        solved = warm.solved(0)
        proved = is_proved(self.loss, data, solved.result.point)
        further: dict[str, Any] = {
            "solver_": solved.solver.name,
            "reg_lambda_": data.reg_lambda,
            "exact_": proved,
        }
        if not proved:
            further |= {"dual_gap_": np.inf, "relative_gap_": np.inf, "converged_": False}
            if solved.result.status is Status.CONVERGED:
                further["status_"] = str(Status.STALLED)
        return further

    def _caveat(self, outcome: Outcome) -> str | None:
        if outcome.fitted["exact_"]:
            return None
        name = type(outcome.fitted["model_"]).__name__
        return (
            f"{name} is not exact and has no finite upper_bound: objective_ is a sum over the "
            "outputs that its inference found; there may be worse ones, and nothing is proved."
        )
