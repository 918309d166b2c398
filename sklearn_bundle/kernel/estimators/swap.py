"""Kernel support vector classification: blocks of points, or Frank-Wolfe methods."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_bundle.core import contract
from sklearn_bundle.core.contract import SolverResult, Status, TimeLimit
from sklearn_bundle.core.docs import fill_doc
from sklearn_bundle.core.estimator import (
    Certificates,
    Fit,
    Points,
    points_of,
    with_callbacks,
)
from sklearn_bundle.core.misread import gathered
from sklearn_bundle.core.parallel import split_threads
from sklearn_bundle.core.parameters import Interval, Names
from sklearn_bundle.core.validation import names_of
from sklearn_bundle.kernel.estimators._kernel import (
    KernelClassifier,
    KernelTraining,
    bounded,
    checked_costs,
    hints,
    located,
    seed_of,
)
from sklearn_bundle.kernel.estimators._machine import Pair, machine, pairs_of
from sklearn_bundle.kernel.problems.box import Box, BoxProblem
from sklearn_bundle.kernel.problems.l2svm import L2SVM
from sklearn_bundle.kernel.solvers.active_set import ActiveSetSolver
from sklearn_bundle.kernel.solvers.base import HandoverSolver, KernelSolver, SimplexPoints
from sklearn_bundle.kernel.solvers.decomposition import DecompositionSolver
from sklearn_bundle.kernel.solvers.pairs import PairPath, suits
from sklearn_bundle.kernel.solvers.swap import ALGORITHMS, SwapSolver
from sklearn_bundle.kernel.solvers.whole import WholeSolver
from sklearn_bundle.kernel.solvers.working_set import (
    WHOLE_SET,
    BoxPoints,
    WorkingSetSolver,
    working_sets,
)
from sklearn_bundle.kernel.values.kernel_data import KernelData

_MANY = 4000  # points above which an active set saves time
_MANY_GIVEN = 20_000  # the same if kernel rows are only read
_ACTIVE = 2000  # its first points: their matrix takes 16 MB
# Points up to which a block is the whole problem: there blocks took 0.97 to 1.9 times as long on
# six sets that did not set this number; from 6,000 points on they were faster on some.
_WHOLE = 5000

_AnySolver = KernelSolver | HandoverSolver
# What the next solver starts from.
_Kept = SimplexPoints | SwapSolver | WholeSolver | BoxPoints | WorkingSetSolver | None


class _Task(NamedTuple):
    """The problem of a pair of classes, with memory for its kernel rows."""

    problem: L2SVM
    cache_bytes: int


class _Solved(NamedTuple):
    """In place of a solver, after a fit in one call: where the next fit may start."""

    kept: SimplexPoints | BoxPoints


@fill_doc
class SwapSVC(KernelClassifier, Certificates):
    """Kernel support vector machine with a certificate; the objective of SVC as an option.

    Take it in place of :class:`~sklearn.svm.SVC`. The default loss, the L2-SVM, is fastest; "hinge"
    has the objective and predictions of SVC, and fewer support vectors. For linear models take
    :class:`BMRMClassifier`. With ``f(x) = <w, phi(x)> + b``, where ``<phi(x), phi(z)>`` is the
    kernel, labels y_i in {-1, +1} and C_i = C times sample and class weight, it minimizes::

        J(w, b) = 1/2 ||w||^2 + 1/2 b^2 + 1/2 sum_i C_i max(0, 1 - y_i f(x_i))^2
        J(w, b) = 1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i f(x_i))    loss="hinge"

    The first penalizes the intercept. Three or more classes are one problem per pair, as in SVC.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses: try 1e-3 to 1e3; smaller is simpler.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        "hinge" is what SVC minimizes.
    %(kernel)s
    solver : {"auto", "decomposition", "swap-2o", "swap", "mfw", "fw", "cvm"}, default="auto"
        For "squared_hinge"; "hinge" has working sets [2]_.
        "auto": "decomposition" where it is faster, otherwise "swap-2o".
        "decomposition": steps in two variables in random blocks of 1,024 points.
        "swap-2o": Algorithm 5 of [1]_, Frank-Wolfe with swaps.
        "swap", "mfw", "cvm", "fw": Algorithms 4 to 1, for comparison.
    %(tol: 1e-2)s
    max_iter : int, default=1000000
        Maximum number of steps per pair of classes; with "hinge", of working sets.
    %(max_time)s
    cache_size : float, default=1000
        Memory for kernel values in MB; others are recomputed.
    n_candidates : int, default=None
        For Algorithms 1 to 5: random points to search first. None searches all.
    n_initial : int, default=1
        For the same: random points whose solution is the start; 1 is the first point.
    active_set : "auto", int or None, default="auto"
        For the same: random points to solve first. None takes all; "auto" all or 2,000.
    %(class_weight: C)s
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        For three or more classes: scores per class, or per pair.
    break_ties : bool, default=False
        Whether `predict` breaks ties of votes by the scores.
    warm_start : bool, default=False
        Whether the next fit on the same X, y, weights and kernel starts from this one.
    %(n_jobs: over pairs of classes, scores and in BLAS)s
    %(random_state: blocks and the random points)s
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
        The fit by blocks, working sets or up to 128 steps: ``iteration`` (steps so far),
        ``seconds``, ``objective``, ``lower_bound``, ``passes`` (kernel rows), counts of steps.
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
        **KernelClassifier._used_with,
        **dict.fromkeys(
            ("n_candidates", "n_initial", "active_set"), ("solver", ("auto", *sorted(ALGORITHMS)))
        ),
        "solver": ("loss", ("squared_hinge",)),
    }
    _allowed: ClassVar[dict[str, Any]] = {
        **KernelClassifier._kernel_constraints,
        "loss": [Names({"squared_hinge", "hinge"})],
        "solver": [Names({"auto", "decomposition", *ALGORITHMS})],
        "n_candidates": [Interval(Integral, 1, None, closed="left"), None],
        "n_initial": [Interval(Integral, 1, None, closed="left")],
        "active_set": [Names({"auto"}), Interval(Integral, 2, None, closed="left"), None],
        "class_weight": [Names({"balanced"}), dict, None],
    }
    _advice: ClassVar[dict[Status, str]] = {
        **KernelClassifier._advice,
        Status.MAX_ITER: "Increase max_iter or tol, or use a smaller C; scaling the features helps "
        "too, and with loss='squared_hinge' solver='auto'.",
    }

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
        n_candidates: int | None = None,
        n_initial: int = 1,
        active_set: str | int | None = "auto",
        class_weight: dict[Any, float] | str | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.C = C
        self.loss = loss
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.cache_size = cache_size
        self.n_candidates = n_candidates
        self.n_initial = n_initial
        self.active_set = active_set
        self.class_weight = class_weight
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

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
        data = run.params._checked(X, y, sample_weight)
        return run.finish(*run.params._solved(run, data))

    def _solved(self, run: Fit, data: KernelTraining) -> tuple[dict[str, Any], list[SolverResult]]:
        """Fitted attributes and the results of all pairs; parameters are checked."""
        samples, pairs, seed = data.samples, self._targets(data), seed_of(self)
        checked_costs(self.C, samples.total, samples.weights)
        outer, inner = split_threads(self.n_jobs, len(pairs))
        if len(samples.classes) > 2 and self.loss == "squared_hinge":
            data.values.share(samples.labels, self.cache_size * 2**20, outer)
        data.divide_cache(self.cache_size, outer)
        # A callable kernel may have changed: its last point is only a start, not a result.
        scale = object() if callable(self.kernel) else self.C * samples.total
        run.reuse(
            lambda: (samples.fingerprint(), data.values.kernel), (scale, self.solver, self.loss)
        )

        def solve(k: int, observe: Any, seconds: float | None) -> SolverResult:
            task = self._task(data, pairs[k], self.C, inner)
            solver, result = self._minimized(task, run.warm.start(k), seed, seconds, observe)
            if self.warm_start:
                run.warm.leave(k, solver, self.tol)
            box = task if isinstance(task, BoxProblem) else None
            return located(result, self.tol, partial(_gap_by_rows, task, result), box)

        def model(points: Points) -> dict[str, Any]:
            return self._attributes(data, points)

        classes = names_of(samples.classes)
        names = [f"{a} vs {b}" for a, b in combinations(classes, 2)]
        threads = {"threads": outer, "blas": inner, "max_time": self.max_time}
        results = run.solve(solve, model, names=names, unit="pair", **threads)
        return model(points_of(results)) | {"shape_fit_": data.shape}, results

    def _targets(self, data: KernelTraining) -> list[Pair]:
        """One per subproblem."""
        return pairs_of(data.samples)

    def _task(
        self, data: KernelTraining, pair: Pair, C: float, n_threads: int
    ) -> _Task | BoxProblem:
        """The problem of a pair of classes."""
        members, signs = pair
        samples = data.samples
        costs = checked_costs(C, samples.total, samples.weights[members])
        data.values.check_costs(members, costs)
        if self.loss == "hinge":
            box = Box(signs, np.minimum(0.0, signs * costs), np.maximum(0.0, signs * costs))
            memory = {"cache_bytes": data.cache_bytes, "n_threads": n_threads}
            return BoxProblem(data.values, members, box, **memory)
        problem = L2SVM(data.values, members, signs, costs, n_threads)
        return _Task(problem, data.cache_bytes)

    def _minimized(
        self,
        task: _Task | BoxProblem,
        kept: _Kept,
        seed: int,
        seconds: float | None,
        observe: Any = None,
    ) -> tuple[Any, SolverResult]:
        """Solver and result: in one call if nothing is kept from another and time has no limit."""
        if kept is None and seconds is None:
            for result in self._at_once(task, np.ones(1)):
                if observe is not None:
                    observe(result.n_iter, result.as_state())
                return _Solved(_points_of(task, result)), result
        solver = self._solver(task, kept, seed)
        limits = {"tol": self.tol, "max_iter": self.max_iter, "max_time": seconds}
        result = contract.run(solver, observe=observe, **limits)
        least = task.least if isinstance(task, BoxProblem) else 0.0
        return solver, bounded(result, least, partial(_indefinite_at, task, solver))

    def _along(
        self, data: KernelTraining, pair: Pair, Cs: NDArray[np.float64], limit: TimeLimit
    ) -> Iterator[list[SolverResult]]:
        """Solutions at ascending C, those together that are found together.

        Each starts from the last. The time limit may end them early.
        """
        n, kept, samples = 0, None, data.samples
        if limit.left is None:
            for C in (Cs[-1], Cs[0]):  # all C are in the range if both ends are
                checked_costs(float(C), samples.total, samples.weights[pair[0]])
            first = self._at_once(self._task(data, pair, float(Cs[0]), 1), Cs / Cs[0])
            n = len(first)
            if first:
                yield first
        for C in Cs[n:]:
            task = self._task(data, pair, float(C), 1)
            solver, result = self._minimized(task, kept, 0, limit.left)
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            if limit.left is not None and result.status is Status.MAX_TIME:
                return
            kept = _next_start(solver, result)
            yield [result]

    def _at_once(self, task: _Task | BoxProblem, ratios: NDArray[np.float64]) -> list[SolverResult]:
        """Solutions at multiples of the costs, ascending, of a pair that is a part of the data.

        One compiled call finds them; as many as meet the tolerance.
        """
        problem = task.problem if isinstance(task, _Task) else task
        data, n = problem.data, problem.n
        if n == data.X.shape[0] or not suits(data):
            return []
        of_path = ratios, self.tol, task.cache_bytes
        if isinstance(problem, BoxProblem):
            if n > WHOLE_SET or self.max_iter < 2:
                return []
            box = problem.box
            path = PairPath(data, problem.points, box.target, box.high - box.low, *of_path)
            results, scores, errors = path.hinge()
            if len(results) == 1:
                problem.know(results[0].point, scores[0], errors[0])
            return results
        by_steps = self._has_blocks(problem) and self._method(problem) == "decomposition"
        if n > _WHOLE or not (self.solver == "auto" if data.precomputed else by_steps):
            return []
        path = PairPath(data, problem.points, problem.y, 1.0 / problem.ridge, *of_path)
        return path.squared_hinge(self.max_iter)

    def _attributes(self, data: KernelTraining, points: Points) -> dict[str, Any]:
        """Fitted attributes of alpha and the intercept of each pair."""
        return machine(data.samples, data.values.kernel, [(np.abs(a), b) for a, b in points])

    def _solver(self, task: _Task | BoxProblem, kept: _Kept, seed: int) -> _AnySolver:
        if isinstance(task, BoxProblem):
            return working_sets(task, kept, self.tol, seed)
        problem = task.problem
        solver = self._method(problem)
        if solver == "decomposition":
            return self._by_blocks(task, kept, seed)
        settings: dict[str, Any] = {
            "algorithm": solver,
            "cache_bytes": task.cache_bytes,
            "tol": self.tol,
            "max_steps": self.max_iter,
            "n_candidates": self.n_candidates or 0,
            "seed": seed,
        }
        if isinstance(kept, SwapSolver):
            return SwapSolver(problem, last=kept, **settings)
        size = self._active_points(problem)

        def single_steps(
            points: SimplexPoints | None, n_steps: int = 0
        ) -> SwapSolver | ActiveSetSolver:
            left: dict[str, Any] = dict(settings, max_steps=self.max_iter - n_steps)
            if size is None:
                return SwapSolver(problem, start=points, **left)
            return ActiveSetSolver(problem, size=size, start=points, **left)

        if self.solver != "auto" or not self._has_blocks(problem):
            points = kept if isinstance(kept, SimplexPoints) else None
            if kept is None and self.n_initial > 1:
                points = SimplexPoints(self._start(problem, settings))
            return single_steps(points)
        fields = (SwapSolver if size is None else ActiveSetSolver).history_fields
        return HandoverSolver(self._by_blocks(task, kept, seed), single_steps, fields, self.tol)

    def _active_points(self, problem: L2SVM) -> int | None:
        """The number of points that an active set begins with; None if all points are active."""
        if self.active_set is None:
            return None
        if isinstance(self.active_set, str):  # "auto"
            most = _MANY_GIVEN if problem.data.precomputed else _MANY
            return _ACTIVE if problem.n > most else None
        return self.active_set if problem.n > self.active_set else None

    def _by_blocks(self, task: _Task, kept: _Kept, seed: int) -> WholeSolver | DecompositionSolver:
        problem, start = task.problem, kept if isinstance(kept, SimplexPoints) else None
        limits: dict[str, Any] = {"max_steps": self.max_iter, "tol": self.tol, "seed": seed}
        if problem.n > _WHOLE or not problem.by_tiles:
            return DecompositionSolver(problem, start=start, **limits)
        last = kept if isinstance(kept, WholeSolver) else None
        return WholeSolver(problem, start=start, last=last, cache_bytes=task.cache_bytes, **limits)

    def _method(self, problem: L2SVM) -> str:
        """The solver that "auto" stands for."""
        if self.solver != "auto":
            return self.solver
        single = problem.dtype == np.float32
        # Blocks do not make scores as accurate as the common tests of scikit-learn want them.
        return "decomposition" if single and self._has_blocks(problem) else "swap-2o"

    def _has_blocks(self, problem: L2SVM) -> bool:
        """Whether blocks suit the points, and no parameter of other methods is set."""
        if self.n_candidates is not None or self.n_initial > 1 or self.active_set != "auto":
            return False
        return problem.computed and (problem.n > _MANY or not problem.sparse)

    def _start(self, problem: L2SVM, settings: dict[str, Any]) -> NDArray[np.float64]:
        """The solution on a few random points; section 6 of the paper uses 20."""
        rng = np.random.default_rng(settings["seed"])
        chosen = rng.permutation(problem.n)[: self.n_initial]
        solver = SwapSolver(problem.part(chosen), **dict(settings, n_candidates=0))
        result = contract.run(solver, tol=self.tol, max_iter=self.max_iter)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        alpha = result.point
        start = np.zeros(problem.n)
        start[chosen] = alpha / alpha.sum()
        return start


def _gap_by_rows(task: _Task | BoxProblem, result: SolverResult) -> float:
    if isinstance(task, BoxProblem):
        return task.gap_by_rows(result.point, result.intercept)
    return task.problem.gap_by_rows(result.point)


def _indefinite_at(
    task: _Task | BoxProblem, solver: _AnySolver
) -> tuple[KernelData, NDArray, NDArray]:
    """Kernel values, points, and the coefficients at which they do not seem to be definite."""
    newest = solver.kept.newest
    if isinstance(task, BoxProblem):
        return task.data, task.points, newest
    return task.problem.data, task.problem.points, task.problem.y * newest


def _points_of(task: _Task | BoxProblem, result: SolverResult) -> SimplexPoints | BoxPoints:
    if isinstance(task, BoxProblem):
        return BoxPoints(result.point)
    return SimplexPoints(result.point / result.point.sum(), n_steps=result.n_iter)


def _next_start(solver: _AnySolver | _Solved, result: SolverResult) -> Any:
    """The start at the next C: the solver if it has rows of all points, or its best point.

    None after a solution in one call, which the next value may have too.
    """
    if isinstance(solver, _Solved):
        return None
    if isinstance(solver, WorkingSetSolver):
        return solver
    solver = solver.current if isinstance(solver, HandoverSolver) else solver
    if isinstance(solver, SwapSolver) or (isinstance(solver, WholeSolver) and solver.alone):
        return solver
    return SimplexPoints(result.point / result.point.sum())
