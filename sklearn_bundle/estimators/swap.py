"""Kernel support vector classification: blocks of points, or Frank-Wolfe methods."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from sklearn_bundle._parameters import Names
from sklearn_bundle.estimators._fit import Certificates, CertifiedEstimator, Outcome, fit_certified
from sklearn_bundle.estimators._kernel import (
    KernelClassifier,
    KernelTraining,
    Pair,
    machine,
    pairs_of,
)
from sklearn_bundle.estimators._validation import ClassificationData
from sklearn_bundle.estimators._warm import WarmStart, data_fingerprint
from sklearn_bundle.problems.l2svm import L2SVM
from sklearn_bundle.solvers.active_set import ActiveSetSolver
from sklearn_bundle.solvers.contract import SolverResult, Status, run
from sklearn_bundle.solvers.decomposition import DecompositionSolver
from sklearn_bundle.solvers.swap import ALGORITHMS, SimplexPoints, SwapSolver
from sklearn_bundle.solvers.whole import WholeSolver

_MANY = 4000  # points from which on an active set pays
_MANY_GIVEN = 20_000  # where a row is only read
_ACTIVE = 2000  # points that it begins with: their matrix has 16 MB
_WHOLE = 3000  # points up to which a block is the whole problem


class _Task(NamedTuple):
    """The problem of a pair of classes, and memory for its kernel rows."""

    problem: L2SVM
    cache_bytes: int


class SwapSVC(KernelClassifier, Certificates, CertifiedEstimator):
    """Kernel support vector machine with the squared hinge loss, by blocks or SWAP steps.

    For labels y_i in {-1, +1} it minimizes over w, in the feature space of the kernel
    ``k(x, z) = <phi(x), phi(z)>``, and b::

        J(w, b) = 1/2 ||w||^2 + 1/2 b^2 + 1/2 sum_i C_i max(0, 1 - y_i (<w, phi(x_i)> + b))^2

    where C_i is C times sample and class weight: the L2-SVM. The intercept is penalized like one
    more feature that is always 1, which the method needs: its dual is a problem on the unit
    simplex, ``min a'Ka`` with ``K_ij = y_i y_j (k(x_i, x_j) + 1) + delta_ij / C_i``. With Q the
    value reached, the model is ``f(x) = sum_i alpha_i y_i (k(x_i, x) + 1)``, ``alpha = a / Q``, and
    ``1 / (2 Q)`` is a lower bound of J, so that every fit comes with its duality gap. Three and
    more classes are handled one-versus-one, as in :class:`~sklearn.svm.SVC`, whose attributes it
    has.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses, positive. The loss of SVC is not squared: the best C differs.
    kernel : {"rbf", "linear", "poly", "precomputed"} or callable, default="rbf"
        ``exp(-gamma ||x - z||^2)``; ``<x, z>``; ``(gamma <x, z> + coef0)^degree``; X is the matrix
        of kernel values; a callable takes (X, Z) and returns the array of shape (n_X, n_Z). It has
        to be positive semidefinite: "sigmoid" is not.
    gamma : {"scale", "auto", "distance"} or float, default="scale"
        For "rbf" and "poly". ``1 / (n_features X.var())``, ``1 / n_features``, or one over the
        mean of ``||x - z||^2`` over all pairs, the paper's choice up to a factor of 2 (its sigma^2
        is the mean, its gamma ``1/(2 sigma^2)``). Sample weights count in "scale" and "distance".
    degree : int, default=3
        Of "poly", at least 0.
    coef0 : float, default=0.0
        Of "poly", at least 0; 0 makes it homogeneous.
    solver : {"auto", "decomposition", "swap-2o", "swap", "mfw", "fw", "cvm"}, default="auto"
        "decomposition" solves random blocks of 1,024 points, or a small problem as a whole, by
        steps in two variables each, and keeps no kernel values of other points. The others are the
        methods of [1]_: SWAP steps with the partner of largest gain or of smallest gradient (its
        Algorithms 5 and 4), away steps, plain Frank-Wolfe, or steps among the support until it is
        roughly solved before the next point is added. "fw" as a rule does not get to the default
        `tol` in reasonable time. "auto" is "decomposition" where single precision may do and
        kernel values are computed from dense X, or from sparse X of more than 4,000 points, unless
        a parameter of the other methods is set; else it is "swap-2o".
    tol : float, default=1e-2
        Relative duality gap to reach: ``dual_gap_ <= tol * abs(objective_)``. At the default, test
        errors are those of the optimum within the noise between seeds (user guide).
    max_iter : int, default=1000000
        Limit on the steps, for each pair of classes. A step costs 1 to 10 ns a point, and with
        "decomposition" a point of the block.
    max_time : float, default=None
        Limit in seconds on the whole fit. None is no limit.
    cache_size : float, default=1000
        Memory for kernel values in MB. More than that is computed again when needed.
    n_candidates : int, default=None
        Random points among which to look for the next one, before all points are looked at
        (section 2.4 of [1]_; 60 are usual). None looks at all, which is as fast as a rule.
    n_initial : int, default=1
        Random points whose solution the method starts from (20 in section 6 of [1]_); 1 starts at
        the first point.
    active_set : "auto", int or None, default="auto"
        Points to begin with, to which those that violate the solution are added until none is
        left, for problems larger than that; None begins with all. "auto" is 2000 for problems of
        more than 4,000 points (20,000 if the kernel is precomputed), else None. Not used by
        "decomposition", like `n_candidates` and `n_initial`.
    class_weight : dict or "balanced", default=None
        Factors on C by class. "balanced" gives all classes the same total weight, sample weights
        included.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        For three and more classes: scores for each class, or for each pair.
    break_ties : bool, default=False
        Whether `predict` breaks ties of votes by the scores, which takes longer.
    warm_start : bool, default=False
        Whether to keep the dual points, and start from them when the next fit has the same X, y,
        weights and kernel; C and tol may differ. Where nothing else has changed, the fit goes on;
        if it has reached `tol`, it stays as it is.
    n_jobs : int, default=None
        Threads over pairs of classes and in `predict`; for two classes over scores, and those of
        BLAS. None is 1 outside of a joblib context.
    random_state : int, RandomState instance or None, default=None
        Of the blocks, of the first active points, of `n_candidates` and `n_initial`.
    verbose : int, default=0
        1 prints a line a few times per second.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    support_ : ndarray of shape (n_support,)
        Indices of the rows of X with a dual variable that is not zero, by classes.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        These rows; empty for a precomputed kernel.
    n_support_ : ndarray of shape (n_classes,)
        Their number in each class.
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes - 1, n_support)
        ``alpha_i y_i``. With three or more classes, a vector of class i has its coefficient for
        the pair with class j in row j, or j - 1 if j > i; the first class of a pair is +1.
    intercept_ : ndarray of shape (1,) or (n_pairs,)
        b, which is the sum of the coefficients.
    coef_ : ndarray of shape (1, n_features) or (n_pairs, n_features)
        w, for the linear kernel only.
    gamma_ : float
        The gamma used.
    objective_ : float, or ndarray of shape (n_pairs,)
        J at the returned point. With three or more classes this and the following have an entry
        per pair: (0, 1), (0, 2), ..., (1, 2), ...
    lower_bound_ : float, or ndarray of shape (n_pairs,)
        A value that J cannot fall below: the largest ``1 / (2 Q)``, which may come from another
        point than the model does.
    dual_gap_ : float, or ndarray of shape (n_pairs,)
        ``objective_ - lower_bound_``.
    converged_ : bool
        Whether `status_` is "converged", for all pairs.
    relative_gap_ : float
        ``dual_gap_ / abs(objective_)``, the largest of all pairs: what `tol` limits.
    n_iter_ : int, or ndarray of shape (n_pairs,)
        Steps.
    status_ : str, or list of str
        "converged", "max_iter", "max_time", "callback", "interrupted", or "stalled" (rounding
        left nothing to gain).
    history_ : structured ndarray, or list of them
        Fields ``iteration`` (steps so far), ``seconds``, ``objective``, ``lower_bound`` and
        ``passes`` (kernel rows computed). With "decomposition" also ``blocks``; else the steps of
        each kind, ``fw``, ``swap_add``, ``swap_drop``, ``away`` and ``away_drop``, and with an
        active set ``active``, its size.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had string names.
    shape_fit_ : tuple
        Shape of the training data.

    Raises
    ------
    ValueError
        For a parameter out of its range, one class only, NaN or infinity, negative or all-zero
        weights, multilabel y, a kernel matrix that is not square, a callable whose result has the
        wrong shape. Nothing is fitted then.

    Warns
    -----
    ConvergenceWarning
        If `max_iter`, `max_time` or rounding ended the fit above `tol`.
    UserWarning
        If the kernel is found not to be positive semidefinite: then there is no bound, and
        `lower_bound_` is -inf. It may go unnoticed.

    See Also
    --------
    SwapSVCCV : With C by cross-validation.
    PragamSVC : Linear, hinge loss, an intercept that is not penalized.

    Notes
    -----
    "swap-2o" is Algorithm 5 of [1]_, with its second-order choice (19), step length (26) and gain
    (28). One thing is different: gains, by which it chooses the partner and between a SWAP and a
    Frank-Wolfe step, are those of the steps that can be taken, not of unlimited ones.

    Kernel rows are in float32, sums in float64. The certificate is recomputed at exit in float64,
    with fresh kernel values of all points that have a loss or a dual variable; the other losses
    are 0 by a margin that rounding cannot bridge. What rounding may have done to the objective and
    to the bound comes off the bound. Where float32 rows do not reach `tol`, the
    method goes on from exact scores, and at last with float64 rows; below a `tol` of 1e-6 these
    are used from the start. The gap is that of the model at the scale ``1 / Q``; it falls about as
    fast as the square of the relative gap of the simplex problem.

    `predict` works in float32 and computes again in float64 what is too close to call.

    References
    ----------
    .. [1] H. Allende, E. Frandi, R. Nanculef, C. Sartori: A novel Frank-Wolfe algorithm. Analysis
       and applications to large-scale SVM training, 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_bundle import SwapSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SwapSVC(C=10).fit(X[:1000], y[:1000])
    >>> model.relative_gap_ <= 1e-2
    True
    >>> bool(model.score(X[1000:], y[1000:]) > 0.95)
    True
    """

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012 - scikit-learn's convention
        **KernelClassifier._kernel_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
        "solver": [Names({"auto", "decomposition", *ALGORITHMS})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "n_candidates": [Interval(Integral, 1, None, closed="left"), None],
        "n_initial": [Interval(Integral, 1, None, closed="left")],
        "active_set": [Names({"auto"}), Interval(Integral, 2, None, closed="left"), None],
        "class_weight": [Names({"balanced"}), dict, None],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    _advice: ClassVar[dict[Status, str]] = {
        Status.MAX_ITER: "Increase max_iter or tol, or use solver='auto' or a smaller C; "
        "scaling the features helps too.",
        Status.MAX_TIME: "Increase max_time or tol, or use a smaller C.",
        Status.STALLED: "Rounding leaves nothing to gain: increase tol, or scale the features.",
    }
    _unit = "pair"

    def __init__(
        self,
        C: float = 1.0,
        *,
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

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data; for ``kernel="precomputed"``, the matrix of kernel values of shape
            (n_samples, n_samples).
        y : array-like of shape (n_samples,)
            Labels of any kind.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0, which multiply C. A weight 2 is a repeated row, a weight 0 a missing one.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As the class says. Nothing is fitted then.
        """
        return fit_certified(self, X, y, sample_weight)

    def _targets(self, data: KernelTraining) -> list[Pair]:
        return pairs_of(data.samples)

    def _prepare(self, data: KernelTraining, n_threads: int) -> None:
        """Costs out of range are refused; kernel values that several pairs want are kept."""
        samples = data.samples
        self._costs(samples)
        if len(samples.classes) > 2:
            data.values.share(samples.labels, self.cache_size * 2**20, n_threads)
        data.divide_cache(self.cache_size, n_threads)

    def _problem(
        self, data: KernelTraining, target: Pair, n_threads: int
    ) -> AbstractContextManager[_Task]:
        members, signs = target
        costs = self._costs(data.samples, members)
        problem = L2SVM(data.values, data.points(members), signs, costs, n_threads)
        return nullcontext(_Task(problem, data.cache_bytes))

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _fingerprint(self, data: KernelTraining) -> tuple[Any, ...]:
        return data_fingerprint(data.samples), data.values.kernel

    def _settings(self, data: KernelTraining) -> tuple[Any, ...]:
        """A callable kernel may have changed by now: its last point is a start, and no result."""
        scale = object() if callable(self.kernel) else self.C * data.samples.total
        return scale, self.solver

    def _keep(
        self, solver: SwapSolver | ActiveSetSolver, result: SolverResult
    ) -> SimplexPoints | None:
        return solver.kept if self.warm_start else None

    def _released(self, solver: SwapSolver | ActiveSetSolver) -> None:
        """None goes on itself: it has rows of the kernel. A new one starts from its points."""

    def _carry(self, solver: SwapSolver | ActiveSetSolver, result: SolverResult, last: Any) -> Any:
        """The solver with its rows, or if they are those of an active set its best point."""
        if isinstance(solver, SwapSolver) or (isinstance(solver, WholeSolver) and solver.alone):
            return solver
        return SimplexPoints(result.point / result.point.sum())

    def _model(self, data: KernelTraining, points: list[tuple[Any, Any]]) -> dict[str, Any]:
        kernel = data.values.kernel
        model = machine(data.samples, kernel, [alpha for alpha, _ in points])
        return model | {"gamma_": kernel.gamma}

    def _further_attributes(self, data: KernelTraining, warm: WarmStart) -> dict[str, Any]:
        return {"shape_fit_": data.shape}

    def _doubt(self, outcome: Outcome) -> str | None:
        if all(result.lower_bound > -np.inf for result in outcome.results):
            return None
        return (
            f"The values of kernel={self.kernel!r} are not positive semidefinite: the fit "
            "stopped where it met this, and there is no lower bound."
        )

    def _costs(
        self, samples: ClassificationData, members: NDArray[np.intp] | slice = slice(None)
    ) -> NDArray[np.float64]:
        """C_i, C times sample and class weight, of some of the samples."""
        return self._checked_costs(samples.total, samples.weights[members])

    def _solver(
        self, task: _Task, kept: SimplexPoints | SwapSolver | None, seed: int
    ) -> SwapSolver | ActiveSetSolver:
        problem = task.problem
        solver = self._method(problem)
        if solver == "decomposition":
            return self._by_blocks(task, kept, seed)
        settings = {
            "algorithm": solver,
            "cache_bytes": task.cache_bytes,
            "tol": self.tol,
            "max_steps": self.max_iter,
            "n_candidates": self.n_candidates or 0,
            "seed": seed,
        }
        if isinstance(kept, SwapSolver):
            return SwapSolver(problem, last=kept, **settings)
        if kept is None and self.n_initial > 1:
            kept = SimplexPoints(self._start(problem, settings))
        if kept is not None:
            settings |= {"start": kept.newest, "best": kept.best, "first_step": kept.n_steps}
        size, most = self.active_set, self.active_set
        if self.active_set == "auto":
            size, most = _ACTIVE, _MANY_GIVEN if problem.data.given else _MANY
        if size is None or problem.n <= most:
            return SwapSolver(problem, **settings)
        return ActiveSetSolver(problem, size=size, **settings)

    def _by_blocks(
        self, task: _Task, kept: SimplexPoints | WholeSolver | None, seed: int
    ) -> WholeSolver | DecompositionSolver:
        problem, limits = task.problem, {"max_steps": self.max_iter, "tol": self.tol, "seed": seed}
        if problem.n > _WHOLE or not problem.by_tiles:
            return DecompositionSolver(problem, start=kept, **limits)
        last, start = (kept, None) if isinstance(kept, WholeSolver) else (None, kept)
        return WholeSolver(problem, start=start, last=last, cache_bytes=task.cache_bytes, **limits)

    def _method(self, problem: L2SVM) -> str:
        """What "auto" stands for."""
        if self.solver != "auto":
            return self.solver
        asked = self.n_candidates is not None or self.n_initial > 1 or self.active_set != "auto"
        computed = problem.computed and (problem.n > _MANY or not problem.sparse)
        single = problem.dtype == np.float32
        return "decomposition" if computed and single and not asked else "swap-2o"

    def _start(self, problem: L2SVM, settings: dict) -> NDArray[np.float64]:
        """The solution on a few random points: section 6 of the paper takes 20."""
        rng = np.random.default_rng(settings["seed"])
        chosen = rng.permutation(problem.n)[: self.n_initial]
        solver = SwapSolver(problem.part(chosen), **settings | {"n_candidates": 0})
        result = run(solver, tol=self.tol, max_iter=self.max_iter)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        alpha = result.point
        start = np.zeros(problem.n)
        start[chosen] = alpha / alpha.sum()
        return start
