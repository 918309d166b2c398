"""Linear-chain conditional random fields."""

from __future__ import annotations

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.chain.estimators._labeling import ChainLabeler, certain_labels
from sklearn_bundle.chain.model import taken_apart
from sklearn_bundle.chain.problem import ChainProblem
from sklearn_bundle.chain.readers.forbidden import SCHEMES
from sklearn_bundle.chain.readers.sequences import TrainingSequences, check_training_sequences
from sklearn_bundle.chain.solvers import LBFGS_ITERATIONS, SAMPLINGS, ChainAutoSolver, DualSolver
from sklearn_bundle.core.contract import SolverResult, Status
from sklearn_bundle.core.docs import fill_doc
from sklearn_bundle.core.estimator import (
    CertifiedEstimator,
    Fit,
    OneCertificate,
    Points,
    with_callbacks,
)
from sklearn_bundle.core.lbfgs import LBFGSSolver
from sklearn_bundle.core.parallel import split_threads
from sklearn_bundle.core.parameters import OF_FITS, Interval, Names
from sklearn_bundle.core.validation import checked_reg_lambda
from sklearn_bundle.core.values import gathered

_Solver = ChainAutoSolver | DualSolver | LBFGSSolver

_DENSE = 0.5  # share of nonzero entries above which L-BFGS is faster


@fill_doc
class SDCACRF(ChainLabeler, OneCertificate, CertifiedEstimator):
    """Linear-chain conditional random field: sequence labels with probabilities, certified.

    Take it to label the tokens of sequences, such as words, with probabilities. For costs of your
    own take :class:`StructuredSVM`. For sequences x_i with labels y_i it minimizes over w::

        P(w) = reg_lambda (l1_ratio ||w||_1 + (1 - l1_ratio) / 2 ||w||^2)
               + sum_i s_i (-log p(y_i | x_i; w))

        p(y | x; w) proportional to exp(sum_t (<coef_[y_t], x_t> + intercept_[y_t])
                                        + sum_{t>1} transitions_[y_{t-1}, y_t]
                                        + start_[y_1] + end_[y_T])

    where the s_i are the sample weights, one per sequence, normalized to the sum one. The loss of a
    sequence is not divided by its length T. All weights are regularized, biases too. Without
    biases this is CRFsuite's model.

    X is a list of sequences: arrays of shape (T, n_features), sparse or not, or lists with a dict
    or a list of strings per token, as in CRFsuite. y is a list of sequences of labels. A 2-D X
    stands for sequences of one token. :ref:`crf-input` lists all forms.

    Parameters
    ----------
    reg_lambda : float, default=None
        Regularization strength relative to the mean loss of a sequence; larger is simpler. None
        means one over the sum of the sample weights, or 1/n: try 10 to 0.01 times this.
    l1_ratio : float, default=0.0
        Share of L1, in [0, 1]; above 0 most weights are 0. For CRFsuite's c1 and c2 take
        ``reg_lambda = (c1 + 2 c2) / n`` and ``l1_ratio = c1 / (c1 + 2 c2)``.
    solver : {"auto", "exponentiated", "sdca", "lbfgs"}, default="auto"
        "auto": "lbfgs" for dense X, otherwise "exponentiated", then "lbfgs" if that is slow.
        "exponentiated": exponentiated gradient on the dual.
        "sdca": Algorithm 2 of [1]_.
        "lbfgs": L-BFGS on P, without L1.
    fit_intercept : bool, default=True
        Whether labels have biases.
    min_frequency : int, default=None
        Drop named attributes that are nonzero at fewer tokens, counted with sample weights.
    forbidden : {"bio", "bioes", "bilou"}, list of (label, label) or None, default=None
        Pairs of successive labels that no labeling may use, in the fit and in predictions; None in
        place of a label is the end of a sequence, as in ``(None, "I-PER")``. A scheme of tags
        stands for the pairs that it forbids. The model is then a distribution of the other
        labelings: log p and the certificate are those of this problem. Weights of what is forbidden
        are -inf, and not regularized.
    sampling : {"gap", "uniform", "importance"}, default="gap"
        How the dual solvers sample sequences (section 5 of [1]_). Keep "gap"; the others are for
        comparison.
    nonuniformity : float, default=0.8
        Share of the steps that use `sampling`; the others are uniform.
    %(tol: 1e-2)s
    max_iter : int, default=100
        Maximum number of epochs, or of iterations of "lbfgs".
    %(max_time)s
    warm_start : bool, default=False
        Whether the next fit on the same X, y and weights starts from this one.
    %(n_jobs: for passes over the data, L-BFGS and prediction)s
    %(random_state: the sampling)s
    %(verbose)s

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    coef_ : ndarray or CSR matrix of shape (n_classes, n_features)
        Weights of attributes with labels; sparse after :meth:`sparsify`.
    transitions_ : ndarray of shape (n_classes, n_classes)
        Weights of successive labels, ``transitions_[from, to]``, -inf for those that are forbidden,
        by `forbidden` or by hand.
    intercept_, start_, end_ : ndarray of shape (n_classes,)
        Biases of labels, and additional ones at the first and last token.
    attribute_names_ : ndarray of shape (n_features,)
        Names of the columns of ``coef_``, if X held dicts or strings.
    %(certificate: P)s
    %(convergence)s
    solver_ : {"exponentiated", "sdca", "lbfgs"}
        The solver that the fit ended with.
    %(reg_lambda_)s
    history_ : structured ndarray of shape (`n_iter_`,)
        The fit by iterations: ``iteration``, ``seconds``, ``objective``, ``lower_bound``,
        ``passes`` (sequences visited, over n) and ``estimate`` (of the gap).
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, if X had data frames with string names.

    Raises
    ------
    %(invalid)s
        L-BFGS with L1, training sequences that use what is forbidden, only empty sequences, X and y
        of different lengths, mixed kinds of features, a single class, labels that cannot be sorted.
    TypeError
        For an X or y that is no list of sequences.

    Warns
    -----
    %(missed_tol)s

    See Also
    --------
    SDCACRFCV : Chooses reg_lambda by cross-validation.
    crf_path : Models for many values of reg_lambda.
    sklearn_bundle.metrics : Scores of label sequences and spans.
    sklearn_bundle.datasets : Readers of files and data frames.

    Notes
    -----
    User guide: :ref:`crf`, :doc:`/user_guide/crf_theory`.

    The lower bound is the dual, (3) and (16) of [1]_; that of "lbfgs" is (8). Dual solvers know P
    only after a pass over the data, so a fit that ends early may return w = 0.

    In searches an integer `cv` means folds in the order of the data; if these are sorted, pass
    ``KFold(shuffle=True)``.

    References
    ----------
    %(sdca_paper: 1)s

    Examples
    --------
    >>> from sklearn_bundle import SDCACRF
    >>> X = [[{"word": "the"}, {"word": "boats"}], [{"word": "they"}, {"word": "sleep"}]]
    >>> y = [["DT", "NN"], ["PRP", "VB"]]
    >>> model = SDCACRF(random_state=0).fit(X, y)
    >>> model.status_
    'converged'
    >>> model.predict([[{"word": "the"}, {"word": "man"}]])
    [['DT', 'NN']]
    """

    solver_: Literal["exponentiated", "sdca", "lbfgs"]
    reg_lambda_: float
    _ridge: float

    _allowed: ClassVar[dict[str, Any]] = {
        "reg_lambda": [Interval(Real, 0, None, closed="neither"), None],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "solver": [Names({"auto", "exponentiated", "sdca", "lbfgs"})],
        "fit_intercept": ["boolean"],
        "min_frequency": [Interval(Integral, 1, None, closed="left"), None],
        "forbidden": [Names(SCHEMES), "array-like", None],
        "sampling": [Names(SAMPLINGS)],
        "nonuniformity": [Interval(Real, 0, 1, closed="both")],
        "random_state": ["random_state"],
        **OF_FITS,
    }
    _used_with = dict.fromkeys(
        ("sampling", "nonuniformity"), ("solver", ("auto", "exponentiated", "sdca"))
    )
    _advice: ClassVar[dict[Status, str]] = {
        Status.MAX_ITER: "Increase max_iter or tol, or reg_lambda; scaling the features helps too.",
        Status.MAX_TIME: "Increase max_time or tol, or reg_lambda.",
        Status.STALLED: "Rounding prevents further progress: increase tol.",
    }

    def __init__(
        self,
        *,
        reg_lambda: float | None = None,
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
        X : list of sequences, or array-like or sparse matrix of shape (n_samples, n_features)
            Training data; see the table above.
        y : list of sequences of labels, or array-like of shape (n_samples,)
            Labels that can be hashed and sorted: one sequence for each of X, with one label per
            token.
        sample_weight : array-like of shape (n_sequences,), default=None
            Weights, one per sequence. None means 1 for all.

        Returns
        -------
        self : SDCACRF
            Fitted estimator.
        """
        X, y, sample_weight = gathered(type(self).__name__, X, y, sample_weight)
        run = Fit(self, X, y, sample_weight=sample_weight)
        data = checked_sequences(run.params, X, y, sample_weight)
        return run.finish(*solved(run, run.params, data))

    def certain(self, X: Any) -> NDArray[np.bool_] | list[NDArray[np.bool_]]:
        """Whether the predicted labels are those of the exact optimum, token by token.

        A label is certain if every labeling with another one at that token has a lower score for
        all weights that the duality gap allows. A sequence is certain if all its tokens are. See
        :doc:`/user_guide/optimum`.

        Parameters
        ----------
        X : list of sequences, or array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        certain : list of ndarray of shape (T_i,), or ndarray of shape (n_samples,)
            True if the exact minimum of the objective predicts the same label. False if the gap is
            too large to say.

        Raises
        ------
        ValueError
            With ``l1_ratio=1``, where the gap says nothing of the weights.
        """
        check_is_fitted(self)
        return certain_labels(self, X, self._ridge, self.fit_intercept)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags


def checked_sequences(params: SDCACRF, X: Any, y: Any, sample_weight: Any) -> TrainingSequences:
    """The checked data, which a solver that is asked for can take."""
    if params.solver == "lbfgs" and params.l1_ratio > 0.0:
        raise ValueError(
            f"solver='lbfgs' needs a smooth objective, l1_ratio=0, got l1_ratio="
            f"{params.l1_ratio}: use 'auto', 'exponentiated' or 'sdca'."
        )
    further = {"min_frequency": params.min_frequency, "forbidden": params.forbidden}
    return check_training_sequences(params, X, y, sample_weight, **further)


def seed_of(params: SDCACRF) -> int:
    return check_random_state(params.random_state).randint(np.iinfo(np.int32).max)


def solved(
    run: Fit, params: SDCACRF, data: TrainingSequences
) -> tuple[dict[str, Any], list[SolverResult]]:
    """Fitted attributes and the result; the features of the data go once they are packed."""
    reg_lambda = checked_reg_lambda(params.reg_lambda, data.total)
    of_steps = params.sampling, params.nonuniformity
    run.reuse(
        lambda: (data.fingerprint(), params.fit_intercept, params.solver),
        (reg_lambda, params.l1_ratio, *of_steps),
    )
    n_threads = split_threads(params.n_jobs, 1)[1]
    seed = seed_of(params)

    def solve(k: int, observe: Any, seconds: float | None) -> SolverResult:
        with ChainProblem(data, reg_lambda, params, n_threads) as problem:
            data.X = data.X[:0]
            new = partial(new_solver, params, problem, seed)
            return run.minimize(k, problem, new, observe, seconds)[1]

    def model(points: Points) -> dict[str, Any]:
        return attributes_of(data, points[0][0])

    times = {"max_time": params.max_time, "blas": n_threads}
    (result,) = run.solve(solve, model, waits=False, **times)  # an epoch may take minutes
    return fitted_by(params, data, result, reg_lambda), [result]


def new_solver(params: SDCACRF, problem: ChainProblem, seed: int, kept: Any) -> _Solver:
    """A solver that starts from the state that another one kept, or from None."""
    auto, with_l1 = params.solver == "auto", params.l1_ratio > 0.0
    point = kept if isinstance(kept, np.ndarray) else None
    if auto and not with_l1 and (problem.density > _DENSE or point is not None):
        return LBFGSSolver(problem, point, LBFGS_ITERATIONS)
    if params.solver == "lbfgs":
        return LBFGSSolver(problem, kept)
    dual = DualSolver(problem, params, seed=seed, kept=kept if point is None else None)
    return ChainAutoSolver(dual, params.tol) if auto and not with_l1 else dual


def fitted_by(
    params: SDCACRF, data: TrainingSequences, result: SolverResult, reg_lambda: float
) -> dict[str, Any]:
    """Fitted attributes of a result."""
    further = {"solver_": result.solver, "reg_lambda_": reg_lambda}
    further["_ridge"] = reg_lambda * (1.0 - params.l1_ratio)  # strong convexity
    return attributes_of(data, result.point) | further


def attributes_of(data: TrainingSequences, w: NDArray[np.float64]) -> dict[str, Any]:
    """Fitted attributes of the weights."""
    parts, bars = taken_apart(w, len(data.classes)), data.bars
    return {
        "classes_": data.classes,
        "coef_": parts.coef,
        "transitions_": parts.transitions + bars[:-2],
        "intercept_": parts.intercept,
        "start_": parts.start + bars[-2],
        "end_": parts.end + bars[-1],
        **data.fitted,
    }
