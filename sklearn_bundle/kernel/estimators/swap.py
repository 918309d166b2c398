"""Kernel support vector classification."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core import contract
from sklearn_bundle.core.contract import SolverResult, Status, TimeLimit
from sklearn_bundle.core.docs import fill_doc
from sklearn_bundle.core.estimator import (
    Certificates,
    Fit,
    Points,
    certificate,
    points_of,
    with_callbacks,
)
from sklearn_bundle.core.limits import DOUBLE
from sklearn_bundle.core.monitor import callbacks_of
from sklearn_bundle.core.optimum import CertainClassifier, ClassifierMixin
from sklearn_bundle.core.parallel import blas_threads, split_threads
from sklearn_bundle.core.parameters import Names
from sklearn_bundle.core.validation import (
    ClassificationData,
    check_classification_data,
    names_of,
)
from sklearn_bundle.core.values import gathered
from sklearn_bundle.kernel._compiled.pairs import count_votes
from sklearn_bundle.kernel.estimators.machine import (
    KernelMachine,
    Training,
    attributes_of,
    finished,
    hints,
    run_next,
    solved,
    training,
)
from sklearn_bundle.kernel.problem import Dual, Problem
from sklearn_bundle.kernel.solvers.frank_wolfe import ALGORITHMS, FrankWolfe
from sklearn_bundle.kernel.solvers.pairs import put, result_of, solve_all, suit
from sklearn_bundle.kernel.solvers.working_sets import Start, WorkingSets

Array = NDArray[np.float64]
Members = NDArray[np.intp]

_OFF_ZERO = 25.0  # times the variance: a squared mean of features that costs accuracy


@fill_doc
class SwapSVC(CertainClassifier, ClassifierMixin, KernelMachine, Certificates):
    """Kernel support vector machine with a certificate; the objective of SVC as an option.

    Take it in place of :class:`~sklearn.svm.SVC`. The default loss, the L2-SVM, is fastest; "hinge"
    has the objective and predictions of SVC, and fewer support vectors. For linear models take
    :class:`BMRMClassifier`. With ``f(x) = <w, phi(x)> + b``, where ``<phi(x), phi(z)>`` is the
    kernel, labels y_i in {-1, +1} and C_i = C times sample and class weight, it minimizes::

        J(w, b) = 1/2 ||w||^2 + 1/2 b^2 + 1/2 sum_i C_i max(0, 1 - y_i f(x_i))^2
        J(w, b) = 1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i f(x_i))    loss="hinge"

    The first penalizes the intercept. Three or more classes are one problem per pair, as in SVC.
    Where rounding leaves less than six digits of J, `objective_` is an upper bound of it.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses: try 1e-3 to 1e3; smaller is simpler.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        "hinge" is what SVC minimizes.
    %(kernel)s
    solver : {"auto", "decomposition", "swap-2o", "swap", "mfw", "fw", "cvm"}, default="auto"
        "auto" and "decomposition": working sets [2]_, fastest.
        "swap-2o", "swap", "mfw", "cvm", "fw": Algorithms 5 to 1 of [1]_, for "squared_hinge".
    %(tol: 1e-2)s
    max_iter : int, default=1000000
        Maximum number of working sets per pair of classes; of Algorithms 1 to 5, of steps.
    %(max_time)s
    cache_size : float, default=1000
        Memory for kernel values in MB; others are recomputed.
    %(class_weight: C)s
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        For three or more classes: scores per class, or per pair.
    break_ties : bool, default=False
        Whether `predict` breaks ties of votes by the scores.
    warm_start : bool, default=False
        Whether the next fit on the same X, y, weights and kernel starts from this one.
    %(n_jobs: over pairs of classes, scores and in BLAS)s
    %(random_state: working sets and the random points)s
    %(verbose)s

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    support_ : ndarray of shape (n_support,)
        Rows of X with a nonzero dual variable, by class.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        These rows; empty for a precomputed kernel.
    n_support_ : ndarray of shape (n_classes,)
        Their number per class.
    dual_coef_ : ndarray or CSR of shape (1, n_support) or (n_classes - 1, n_support)
        ``alpha_i y_i`` as in SVC; the first class of a pair is +1.
    intercept_ : ndarray of shape (1,) or (n_pairs,)
        b.
    coef_ : ndarray or CSR of shape (1, n_features) or (n_pairs, n_features)
        w, for the linear kernel only.
    gamma_ : float
        The gamma used.
    %(certificates: pairs)s
    history_ : structured ndarray, or list of them
        The fit by working sets, or by up to 128 steps: ``iteration``, ``seconds``, ``objective``,
        ``lower_bound``, ``passes`` (kernel rows), counts of steps.
    %(features)s
    shape_fit_ : tuple
        Shape of the training data.

    Raises
    ------
    %(invalid_kernel)s
        Also for a single class or multilabel y.

    Warns
    -----
    %(missed_tol)s
    UserWarning
        With ``kernel="linear"``, "squared_hinge" and features far from zero, where the penalty of
        the intercept costs accuracy.

    See Also
    --------
    SwapSVCCV : Chooses C and gamma by cross-validation.

    Notes
    -----
    User guide: :ref:`kernels`, :doc:`/user_guide/kernels_theory`.

    Bounds are dual values, of the L2-SVM (2) of [1]_.

    References
    ----------
    %(swap_paper: 1)s
    .. [2] T. Joachims: Making large-scale SVM learning practical, 1999.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_bundle import SwapSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SwapSVC(C=10).fit(X[:1000], y[:1000])
    >>> model.relative_gap_ <= 1e-2
    True
    """

    _used_with = {  # noqa: RUF012
        **KernelMachine._used_with,
        "solver": ("loss", ("squared_hinge",)),
    }
    _allowed: ClassVar[dict[str, Any]] = {
        **KernelMachine._kernel_constraints,
        "loss": [Names({"squared_hinge", "hinge"})],
        "solver": [Names({"auto", "decomposition", *ALGORITHMS})],
        "class_weight": [Names({"balanced"}), dict, None],
        "decision_function_shape": [Names({"ovr", "ovo"})],
        "break_ties": ["boolean"],
    }
    _advice: ClassVar[dict[Status, str]] = {
        **KernelMachine._advice,
        Status.MAX_ITER: "Increase max_iter or tol, or use a smaller C; scaling the features helps "
        "too, and with loss='squared_hinge' solver='auto'.",
    }

    classes_: np.ndarray

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "squared_hinge",
        kernel: Any = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        solver: str = "auto",
        tol: float = 1e-2,
        max_iter: int = 1_000_000,
        max_time: float | None = None,
        cache_size: float = 1000,
        class_weight: dict[Any, float] | str | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self._store(locals())

    @with_callbacks
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data; for ``kernel="precomputed"``, the matrix of kernel values of shape
            (n_samples, n_samples).
        y : array-like of shape (n_samples,)
            Labels of any type.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0, which multiply C. A weight of 2 counts as a repeated row, a weight of 0 as
            a missing one.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As listed for the class. Nothing is fitted then.
        """
        X, y, sample_weight = gathered(type(self).__name__, X, y, sample_weight)
        run = Fit(self, X, y, hints=hints, sample_weight=sample_weight)
        params = run.params
        data = classes_of(params, X, y, sample_weight)
        fitted, results = fit_classes(run, params, data)
        caveat, advice = _caveat(params, data), linear_advice(params)
        return run.finish(fitted, results, caveat=caveat, advice=advice)

    # ---- predictions -----------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:
        """Scores of the samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; for ``kernel="precomputed"``, of shape (n_samples, n_samples_fit).

        Returns
        -------
        scores : ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)
            For two classes f(x), positive if the second class is predicted. For more classes,
            ``decision_function_shape="ovr"`` gives votes plus
            a monotone function of the sum of the scores, and "ovo" gives the scores of the pairs,
            positive if the first class wins.
        """
        scores = self._pair_scores(X)
        if len(self.classes_) == 2:
            return scores[:, 0]
        if self.decision_function_shape == "ovo":
            return scores
        return _with_sums(*self._votes(scores, ties=True))

    def predict(self, X: Any) -> np.ndarray:
        """Labels, by votes of the pairs.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; for ``kernel="precomputed"``, of shape (n_samples, n_samples_fit).

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Elements of ``classes_``. Ties go to the first class, or with ``break_ties=True`` to the
            class with the largest score.
        """
        scores = self._pair_scores(X)
        if len(self.classes_) == 2:
            return self.classes_[(scores[:, 0] > 0.0).astype(np.intp)]
        votes, sums = self._votes(scores, ties=self.break_ties)
        votes = _with_sums(votes, sums) if self.break_ties else votes
        return self.classes_[votes.argmax(axis=1)]

    def _votes(self, scores: Array, ties: bool) -> tuple[Array, Array]:
        """Votes of the pairs for each class, and sums of their scores."""
        votes, sums = np.empty((2, len(scores), len(self.classes_)))
        count_votes(scores, ties, votes, sums)
        return votes, sums

    # ---- the optimum -----------------------------------------------------------------------------

    def _bounds(self, X: Any) -> tuple[Array, Array]:
        low, high = self._score_bounds(X)
        if len(self.classes_) == 2:
            return low[:, 0], high[:, 0]
        return (low, high) if self.decision_function_shape == "ovo" else self._extremes(low, high)

    def _extremes(self, low: Array, high: Array) -> tuple[Array, Array]:
        """The least and the largest score of each class: votes, plus less than half of one.

        What a class gets at least it gets from its pairs at their worst for it.
        """
        n_classes, ends = len(self.classes_), []
        i, j = np.triu_indices(n_classes, 1)
        for of_i, of_j, sign in ((low, high, -1.0), (high, low, 1.0)):
            sums, votes = np.zeros((2, len(low), n_classes))
            for c in range(n_classes):
                first, second = of_i[:, i == c], of_j[:, j == c]
                sums[:, c] = first.sum(axis=1) - second.sum(axis=1)
                votes[:, c] = (first > 0.0).sum(axis=1) + (second <= 0.0).sum(axis=1)
            sums += sign * n_classes * DOUBLE * np.abs(sums)
            ends.append(_with_sums(votes, sums))
        return ends[0], ends[1]

    def _possible(self, X: Any) -> NDArray[np.bool_]:
        low, high = self._score_bounds(X)
        if len(self.classes_) == 2:
            return np.column_stack([low[:, 0] <= 0.0, high[:, 0] > 0.0])
        least, most = self._extremes(low, high)
        possible = np.ones(least.shape, dtype=bool)
        if not self.break_ties:  # whole votes, and ties go to the first class
            least, most = np.floor(least + 0.5), np.floor(most + 0.5)
            before = np.maximum.accumulate(least[:, :-1], axis=1)
            possible[:, 1:] = most[:, 1:] > before
        return possible & (most >= least.max(axis=1, keepdims=True))


def _with_sums(votes: Array, sums: Array) -> Array:
    """Votes, and less than half of one for the sums of scores."""
    return votes + sums / (3.0 * (np.abs(sums) + 1.0))


# ---- the fit -------------------------------------------------------------------------------------


def classes_of(
    params: Any, X: Any, y: Any, sample_weight: Any, gamma: float | None = None
) -> Training:
    """The checked data; as in SVC, class weights don't count in a gamma of its own."""
    if params.break_ties and params.decision_function_shape == "ovo":
        raise ValueError(
            "break_ties=True needs decision_function_shape='ovr', got 'ovo': ties are broken "
            "by the one-versus-rest scores."
        )
    given = X, y, sample_weight, params.class_weight
    return training(
        params,
        check_classification_data,
        *given,
        weights=lambda data: data.sample_weight,
        gamma=gamma,
    )


def fit_classes(run: Fit, params: Any, data: Training) -> tuple[dict[str, Any], list[SolverResult]]:
    """Fitted attributes and the results of all pairs; parameters are checked."""
    samples: ClassificationData = data.samples
    costs, n_classes = data.costs(params.C), len(samples.classes)
    data.values.check_costs(np.arange(len(costs)), costs)
    pairs = PairsOfClasses(samples.labels)
    if _at_once(run, params) and suit(data.values, samples.labels, params.cache_size * 2**20):
        return _solved_at_once(params, data, costs, pairs)

    def problem_of(k: int) -> tuple[Members, Dual]:
        return problem_of_pair(*pairs(k), costs, params.loss)

    def model(points: Points) -> dict[str, Any]:
        coef = np.zeros((max(n_classes - 1, 1), len(costs)))
        for k, (beta, _) in enumerate(points):
            pairs.put(k, beta, coef)
        return _attributes(data, coef, np.array([b for _, b in points]))

    names = [f"{a} vs {b}" for a, b in combinations(names_of(samples.classes), 2)]
    settings = params.solver, params.loss
    results = solved(run, params, data, problem_of, model, names, _kind_of(params), settings)
    return model(points_of(results)), results


class PairsOfClasses:
    """Points and labels of the problems: one for two classes, else one per pair i < j.

    As in SVC, +1 is the second of two classes, but the first class of a pair.
    """

    def __init__(self, labels: NDArray[np.integer]):
        self._labels, self.n_classes = labels, int(labels.max()) + 1

    @cached_property
    def _members(self) -> list[Members]:
        order = np.argsort(self._labels, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self._labels))[:-1])

    @cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(self.n_classes), 2))

    def __call__(self, k: int) -> tuple[Members, Array]:
        """Points of pair k, and their labels -1 and +1."""
        if self.n_classes == 2:
            return np.arange(len(self._labels)), np.where(self._labels == 1, 1.0, -1.0)
        of_i, of_j = (self._members[c] for c in self._pairs[k])
        return np.concatenate([of_i, of_j]), np.repeat([1.0, -1.0], [len(of_i), len(of_j)])

    def put(self, k: int, beta: Array, coef: Array) -> None:
        """Set the coefficients of pair k among those of all, in SVC's shapes."""
        if self.n_classes == 2:
            coef[0] = beta
            return
        i, j = self._pairs[k]
        size = len(self._members[i])
        coef[j - 1, self._members[i]], coef[i, self._members[j]] = beta[:size], beta[size:]

    def of(self, k: int, coef: Array) -> Array:
        """The coefficients of pair k."""
        i, j = self._pairs[k]
        return np.concatenate([coef[j - 1, self._members[i]], coef[i, self._members[j]]])


def problem_of_pair(
    members: Members, signs: Array, costs: Array, loss: str
) -> tuple[Members, Dual]:
    """The dual of a pair; the squared hinge penalizes its intercept."""
    costs, is_free = costs[members], loss == "hinge"
    bounds = signs * (costs if is_free else np.inf)
    ridge = np.zeros(len(costs)) if is_free else 1.0 / costs
    low, high = np.minimum(bounds, 0.0), np.maximum(bounds, 0.0)
    return members, Dual(signs, low, high, ridge, s=np.inf if is_free else 1.0)


def along_classes(
    params: Any, data: Training, Cs: Array, limit: TimeLimit
) -> Iterator[tuple[dict[str, Any], list[SolverResult]]]:
    """Attributes and results of all pairs at ascending C; the time limit may end them early."""
    labels, cache_bytes = data.samples.labels, params.cache_size * 2**20
    costs, pairs = data.costs(1.0), PairsOfClasses(labels)
    for C in (Cs[-1], Cs[0]):  # all C are in the range if both ends are
        data.values.check_costs(np.arange(len(labels)), data.costs(float(C)))
    if limit.left is None and suit(data.values, labels, cache_bytes):
        given = {"squared": params.loss == "squared_hinge", "tol": params.tol}
        found = solve_all(data.values, labels, costs, Cs, **given)
        for r in range(len(Cs)):
            known = found.certificate(r, params.tol)
            worst = int(np.argmax(known["dual_gap_"] / known["objective_"]))
            fitted = _attributes(data, found.coef[r], found.found[r, :, 2].copy())
            yield fitted | known, [result_of(known, worst)]
        return
    n_pairs = max(1, pairs.n_classes * (pairs.n_classes - 1) // 2)
    solvers: list[Any] = [None] * n_pairs
    for C in Cs:
        coef, results = np.zeros((max(pairs.n_classes - 1, 1), len(labels))), []
        for k in range(n_pairs):
            given = problem_of_pair(*pairs(k), C * costs, params.loss)
            problem = Problem(data.values, *given, cache_bytes=cache_bytes / n_pairs)
            solvers[k], result = run_next(params, problem, solvers[k], limit.part(n_pairs - k))
            if result is None:
                return
            results.append(result)
            pairs.put(k, result.point, coef)
        b = np.array([result.intercept for result in results])
        yield _attributes(data, coef, b) | certificate(results), results


def _kind_of(params: Any) -> Callable[..., Any]:
    """The solver that the parameters mean."""
    if params.loss != "squared_hinge" or params.solver not in ALGORITHMS:
        return WorkingSets
    return partial(FrankWolfe, algorithm=params.solver, max_steps=params.max_iter)


def _at_once(run: Fit, params: Any) -> bool:
    """Whether nobody watches single pairs, or stops them."""
    seen = (
        params.verbose or callbacks_of(run.estimator) or params.warm_start or run.root is not None
    )
    return not seen and params.max_time is None and params.solver not in ALGORITHMS


def _solved_at_once(
    params: Any, data: Training, costs: Array, pairs: PairsOfClasses
) -> tuple[dict[str, Any], list[SolverResult]]:
    """Fitted attributes, and results of the pairs that needed more steps and were solved alone."""
    labels, squared, alone = data.samples.labels, params.loss == "squared_hinge", []
    threads = split_threads(params.n_jobs, pairs.n_classes)[0]
    given = {"squared": squared, "tol": params.tol, "n_threads": threads}
    with blas_threads(1):
        found = solve_all(data.values, labels, costs, np.ones(1), **given)
        (coef,), known = found.coef, found.certificate(0, params.tol)
        b = found.found[0, :, 2].copy()
        for k in np.flatnonzero(found.found[0, :, 6] < 0.0).tolist():
            members, dual = problem_of_pair(*pairs(k), costs, params.loss)
            problem = Problem(data.values, members, dual, cache_bytes=params.cache_size * 2**20)
            solver = WorkingSets(problem, tol=params.tol, start=Start(pairs.of(k, coef), dual))
            result = contract.run(solver, tol=params.tol, max_iter=params.max_iter)
            alone.append(finished(problem, result))
            pairs.put(k, result.point, coef)
            b[k] = result.intercept
            put(known, k, alone[-1])
    worst = int(np.argmax(known["dual_gap_"] / known["objective_"]))
    results = alone or [result_of(known, worst)]
    return _attributes(data, coef, b) | known, results


def _attributes(data: Training, coef: Array, intercept: Array) -> dict[str, Any]:
    samples = data.samples
    fitted = attributes_of(data, coef, intercept, samples.labels)
    return fitted | {"classes_": samples.classes}


def _caveat(params: Any, data: Training) -> str | None:
    """A warning where the penalty of the intercept costs accuracy."""
    if params.kernel != "linear" or params.loss != "squared_hinge":
        return None
    X, weights = data.samples.X, data.samples.weights
    mean = X.T @ weights
    offset = float(mean @ mean)
    if offset <= _OFF_ZERO * (float(weights @ data.values.diagonal) - offset):
        return None
    return (
        "The features lie far from zero, where the penalized intercept of loss='squared_hinge' "
        "costs accuracy with kernel='linear'. Use loss='hinge', BMRMClassifier(C=...), or "
        "StandardScaler."
    )


def linear_advice(params: Any, name: str = "BMRMClassifier") -> dict[Status, str]:
    """What to do about a missed ``tol`` where a linear estimator solves the same problem."""
    if params.kernel != "linear":
        return {}
    further = f" {name}(C=...) has the same kind of problem, and certifies it in less time."
    return {status: advice + further for status, advice in params._advice.items()}
