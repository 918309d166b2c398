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
    """Support vector machine for structured outputs, to a certified optimum.

    A model defines the outputs y of an input x: their features phi(x, y), their loss l_i(y) against
    the true output y_i, and how to find the best of outputs that are too many to list. For examples
    (x_i, y_i) it minimizes over w::

        P(w) = reg_lambda / 2 ||w||^2 + sum_i s_i H_i(w)

        H_i(w) = max_y [l_i(y) + <w, phi(x_i, y)> - <w, phi(x_i, y_i)>]      scaling="margin"
        H_i(w) = max_y l_i(y) [1 + <w, phi(x_i, y)> - <w, phi(x_i, y_i)>]    scaling="slack"

    with ``H_i(w)^2 / 2`` in place of H_i(w) for ``loss="squared_hinge"``. With ``loss="log"`` H_i
    is the negative conditional log-likelihood of the true output, without l_i::

        H_i(w) = log sum_y exp <w, phi(x_i, y)> - <w, phi(x_i, y_i)> = -log p(y_i | x_i; w)

    The s_i are the sample weights, one per example, normalized to sum to one (1/n each without
    weights); the loss of an example is not divided by its length. Parameters that the model
    declares nonnegative are kept so. The first form is (3) of [1]_ with ``C = 1 / (n reg_lambda)``;
    with slack rescaling it is (17) and (22) with ``C = 1 / reg_lambda``. Every fit returns a lower
    bound of the optimum, and thus the duality gap.

    How X and y are interpreted:

    .. list-table::
       :header-rows: 1
       :widths: 28 72

       * - model
         - X and y
       * - "chain" or :class:`~sklearn_bundle.models.Chain`
         - sequences and their labels, or a 2-D X and y of shape (n,): all that :class:`SDCACRF`
           accepts
       * - "multiclass" or :class:`~sklearn_bundle.models.Multiclass`,
           :class:`~sklearn_bundle.models.Ontology`
         - array or sparse matrix of shape (n_samples, n_features), labels of shape (n_samples,)
       * - "graph", "grid", "matching" or :class:`~sklearn_bundle.models.Graph`,
           :class:`~sklearn_bundle.models.Grid`, :class:`~sklearn_bundle.models.PairwiseGraph`,
           :class:`~sklearn_bundle.models.Matching`
         - lists, as described in their docstrings
       * - "segments" or :class:`~sklearn_bundle.models.Segments`
         - sequences as for chains, and lists of their segments
       * - "multilabel" or :class:`~sklearn_bundle.models.Multilabel`
         - X as for classes, an indicator matrix of shape (n_samples, n_labels)
       * - one of your own, derived from :class:`~sklearn_bundle.models.StructuredModel`
         - lists (or tuples, or arrays along their first axis) of what its methods accept

    Parameters
    ----------
    model : {"chain", "multiclass", "graph", "grid", "segments", "matching", "multilabel"} or \
            StructuredModel, default="chain"
        The kind of outputs. The names stand for models with their defaults; an instance has its own
        parameters, which are set and searched as ``model__cost``. A clone is fitted.
    reg_lambda : float, default=None
        Regularization strength, positive, relative to the mean loss of an example: it does not
        scale with n. None means one over the sum of the sample weights: 1/n without weights.
    solver : {"auto", "bcfw", "rsd", "rsd-one-simplex", "rsd-working-sets", "bundle", \
            "excessive-gap", "lbfgs"}, default="auto"
        "bcfw" takes steps on one example at a time [2]_, over all of its outputs that are kept
        [3]_; "auto" is the same with an accelerated outer loop [6]_. "rsd" is restricted simplicial
        decomposition [1]_ with a product of simplexes, "rsd-one-simplex" and "rsd-working-sets" are
        its other forms. "bundle" takes cutting planes of the sum of the losses [7]_; not for models
        with nonnegative parameters. "excessive-gap" moves marginals [9]_, for chains with the hinge
        and margin rescaling; much slower. ``loss="log"`` supports "lbfgs", which is its "auto", and
        "bundle"; the hinges support all solvers except "lbfgs".
    loss : {"hinge", "squared_hinge", "log"}, default="hinge"
        H_i, half its square, or the negative log-likelihood (a conditional random field). The last
        needs a model that can sum over all its outputs: chains, segments, classes, "multilabel", or
        a model of your own with ``expected_features``; not a model with nonnegative parameters.
    scaling : {"margin", "slack"}, default="margin"
        "margin": a loss requires a margin of its size, in the unit of the scores. "slack": it is
        charged in full if the margin is 0; a model of your own then needs
        ``slack_rescaled_inference``, and a chain needs integer costs. ``loss="log"`` ignores it.
    %(tol: 1e-3)s
        1e-2 is often enough for a search.
    max_iter : int, default=1000
        Maximum number of iterations. Each is a pass of the oracle, of as many searches as there are
        examples, and the steps that follow it. For "rsd-working-sets" it is nearly two passes, for
        "lbfgs" as many as its line search takes.
    %(max_time: the optimization)s
    n_cached_outputs : int, default=None
        Maximum number of outputs kept per example, apart from the true one, at least 2: the r of
        [1]_. None means 48, and more for an example whose kept outputs all have weight, as long as
        they take less than 1 GB. For "rsd-one-simplex" it is the number of points (default 50), for
        "bundle" the number of planes (default all), and for "lbfgs" the number of past steps that
        define the next one (default 10).
    sampling : {"gap", "uniform"}, default="gap"
        How "auto" and "bcfw" sample the examples of steps with a hinge. "gap": four in five in
        proportion to their last known duality gaps times their weights, one in five uniformly.
        "uniform": all uniformly.
    warm_start : bool, default=False
        Whether to keep the outputs found (with "lbfgs" the point, with "bundle" the point and
        planes, with "excessive-gap" the marginals) and start from them when the next fit has the
        same X, y, weights, model, `loss`, `scaling`, `solver` and `n_cached_outputs`; reg_lambda
        and tol may differ. With ``loss="log"`` planes are kept for the same reg_lambda or a larger
        one. An error or Ctrl-C discards all of it.
    %(n_jobs_exact: all examples in passes, and in prediction of chains and segments)s
        A model of your own is called from several threads at a time.
    %(random_state: the order of the examples)s
        Nothing is random with ``loss="log"`` or "excessive-gap".
    %(verbose)s

    Attributes
    ----------
    w_ : ndarray of shape (n_parameters,)
        The weights, in the order of the model's features. For chains ``coef_``, ``transitions_``,
        ``intercept_``, ``start_`` and ``end_`` in this order, each row by row; for segments
        ``coef_``, ``first_``, ``last_``, ``transitions_``, ``lengths_``, ``start_`` and ``end_``;
        for "multilabel" ``coef_``, ``intercept_`` and ``pairs_``.
    model_ : StructuredModel
        The clone of the model that was fitted.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted; for chains, segments and models of classes.
    coef_ : ndarray of shape (n_classes, n_features)
        Weights of features with labels, for chains, segments, models of classes and "multilabel".
        For models of two classes the second minus the first, of shape (1, n_features).
    first_, last_ : ndarray of shape (n_classes, n_features)
        For segments with ``boundaries``: the same at the first and the last token of a segment.
    transitions_ : ndarray of shape (n_classes, n_classes)
        For chains and segments: weights of pairs of successive labels, ``transitions_[from, to]``.
    lengths_ : ndarray of shape (n_classes, max_length)
        For segments: weights of their lengths; the first column is length 1.
    intercept_ : ndarray of shape (n_classes,)
        For chains and "multilabel": bias of each label. For chains without ``fit_intercept``, this
        and the next two are zero.
    start_, end_ : ndarray of shape (n_classes,)
        For chains and segments: additional bias of the label of the first and of the last token.
    pairs_ : ndarray of shape (n_pairs, 2, 2)
        For "multilabel": weights of the states of each pair of ``model_.edges_``.
    attribute_names_ : ndarray of shape (n_features,)
        Names of the columns of ``coef_``, sorted, for chains and segments if X held dicts or lists
        of strings.
    exact_ : bool
        Whether the certificate holds: the model's inference finds the worst output, or bounds it.
    %(certificate: P)s
        With a hinge and inexact inference, the model's upper bounds replace the H_i in
        `objective_`; without such bounds, the losses of the outputs that were found do. Both gaps
        are infinity if `exact_` is False.
    %(convergence)s
        "stalled" may also mean that the inference is not exact and causes the rest of the gap.
    solver_ : str
        The solver that ran: "bcfw" for "auto", "lbfgs" with ``loss="log"``.
    %(reg_lambda_)s
    %(history: oracle calls over n, rounded down)s
        ``oracle_calls`` (searches for the worst output of an example, or sums over all its outputs)
        and what the solver adds.
    n_features_in_ : int
        Number of features, or of attributes; not for models that take lists of their own.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had data frames with string names.

    Raises
    ------
    ValueError
        For a parameter out of its range, or that the model or solver does not support; X, y or
        weights that differ from the table; a model whose methods return invalid values. Nothing is
        fitted then.
    TypeError
        For a model that is not an instance of a subclass of StructuredModel, or has no inference;
        an X or y that is not a list.

    Warns
    -----
    %(missed_tol)s
    UserWarning
        If the model is not exact and has no upper bounds: nothing is then proved.

    See Also
    --------
    SDCACRF : Chains by likelihood, in less time and with probabilities; same data and attributes.
    BMRMClassifier : The loss of "multiclass" and Ontology with an intercept, and many other losses.
    sklearn_bundle.models : The models, and how to write your own.
    sklearn_bundle.metrics : Scores and scorers of label sequences and of the spans that they mark.

    Notes
    -----
    The lower bound is the dual at the weights of the outputs that are kept, (7) of [1]_, and the
    objective comes from a pass of the oracle at the returned point, both in double precision; see
    :doc:`/user_guide/structured`. With ``loss="log"`` the bound of "lbfgs" has the gap ``||grad
    P(w)||^2 / (2 reg_lambda)``, and "bundle" is Algorithm 2 of [8]_, which takes far more time if
    reg_lambda is small; see :doc:`/user_guide/structured_theory`. Callbacks get the best point
    so far.

    With `loss` "squared_hinge" and `scaling` "slack" this is the quadratic form of [1]_, which has
    l_i(y) in place of its square root in [5]_. (3) is that of [4]_.

    Its scikit-learn tags say that it is a classifier only for "multiclass" and Ontology. For other
    models y may be a list of lists, and an integer `cv` means folds in the order of the data; if
    they are sorted, pass ``KFold(shuffle=True)``.

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

    Classes, with costs of mistakes chosen by a search:

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn_bundle.models import Multiclass
    >>> rows, species = load_iris(return_X_y=True)
    >>> costs = {"model__cost": [None, [[0, 1, 2], [1, 0, 1], [2, 1, 0]]]}
    >>> search = GridSearchCV(StructuredSVM(Multiclass(), reg_lambda=0.01, random_state=0), costs)
    >>> search.fit(rows, species).best_estimator_.decision_function(rows).shape
    (150, 3)

    The same rows by likelihood, which is logistic regression without an intercept:

    >>> logistic = StructuredSVM("multiclass", loss="log", reg_lambda=0.01).fit(rows, species)
    >>> logistic.predict_proba(rows[:1]).round(2)
    array([[0.97, 0.03, 0.  ]])
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
