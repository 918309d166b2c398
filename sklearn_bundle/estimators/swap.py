"""Kernel support vector classification by Frank-Wolfe methods with SWAP steps."""

import warnings
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_bundle._parallel import blas_threads, split_threads
from sklearn_bundle.estimators._base import (
    CallbackSupportMixin,
    Monitor,
    certificate,
    fit_certified,
    with_callbacks,
)
from sklearn_bundle.estimators._kernel import KernelClassifier, machine, pairs_of
from sklearn_bundle.estimators._multiclass import solve_each
from sklearn_bundle.estimators._validation import ClassificationData, check_classification_data
from sklearn_bundle.estimators._warm import WarmStart, data_fingerprint
from sklearn_bundle.problems.kernel_function import Kernel
from sklearn_bundle.problems.l2svm import L2SVM, KernelData
from sklearn_bundle.solvers._run import SolverResult, Status, run
from sklearn_bundle.solvers.active_set import ActiveSetSolver
from sklearn_bundle.solvers.swap import ALGORITHMS, CHUNK, SwapSolver

_MANY = 4000  # points from which on an active set pays
_MANY_GIVEN = 20_000  # where a row is only read
_ACTIVE = 2000
_SINGLE_TOL = 1e-6  # below, rounding of single precision would be in the way from the start


class SwapSVC(CallbackSupportMixin, KernelClassifier):
    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **KernelClassifier._kernel_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions(set(ALGORITHMS))],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "n_candidates": [Interval(Integral, 1, None, closed="left"), None],
        "n_initial": [Interval(Integral, 1, None, closed="left")],
        "active_set": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left"), None],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    _advice: ClassVar[dict[Status, str]] = {
        Status.MAX_ITER: "Increase max_iter or tol, or use solver='swap-2o' or a smaller C; "
        "scaling the features helps too.",
        Status.MAX_TIME: "Increase max_time or tol, or use a smaller C.",
        Status.STALLED: "Rounding leaves nothing to gain: increase tol, or scale the features.",
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        solver: str = "swap-2o",
        tol: float = 1e-3,
        max_iter: int = 1_000_000,
        max_time: float | None = None,
        cache_size: float = 1000,
        n_candidates: int | None = None,
        n_initial: int = 1,
        active_set: str | int | None = "auto",
        class_weight: dict | str | None = None,
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
        """
        return fit_certified(self, X, y, sample_weight)

    @with_callbacks
    def _fit(self, X, y, sample_weight, warm) -> tuple[dict[str, Any], list[SolverResult], bool]:
        self._check_kernel(X)
        data = check_classification_data(self, X, y, sample_weight, self.class_weight)
        if self._given() and len(data.rows) < data.X.shape[1]:
            data.X = data.X[:, data.rows]
        kernel = self._kernel_of(data)
        values = self._kernel_data(data, kernel)
        C, further = self._choose(data, values)
        C = self._costs(data, C)
        subproblems = pairs_of(data)
        warm = self._warm_start(warm, data, kernel, len(subproblems))
        outer, inner = split_threads(self.n_jobs, len(subproblems))
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

        def model(points):
            return machine(data, kernel, [alpha for alpha, _ in points]) | {"gamma_": kernel.gamma}

        monitor = Monitor(
            *(self, X, y, sample_weight, len(subproblems), self.max_iter, self.verbose, model),
            unit="pair",
        )
        solvers = [None] * len(subproblems)

        def solve(k: int, seconds: float | None) -> SolverResult:
            points, target = subproblems[k]
            solvers[k] = self._solver(values, points, target, C[points], warm.kept[k], seed, outer)
            result = run(
                solvers[k],
                tol=self.tol,
                max_iter=-(-self.max_iter // CHUNK),
                max_time=seconds,
                observe=partial(monitor, k),
            )
            warm.kept[k] = result.w / result.w.sum()
            return result

        with blas_threads(inner):
            results, interrupted = solve_each(
                solve, monitor.close, len(subproblems), outer, self.max_time, monitor.stop
            )
        try:
            monitor.close_all(results)
        except KeyboardInterrupt:
            interrupted = True
        if any(solver.indefinite for solver in solvers):
            warnings.warn(
                f"The values of kernel={self.kernel!r} are not positive semidefinite: the fit "
                "stopped where it met this, and its bound and gap certify nothing.",
                UserWarning,
                stacklevel=5,
            )
        fitted = further | model([(r.w, r.intercept) for r in results]) | certificate(results)
        if self.warm_start and not interrupted:  # Ctrl-C may hit in the middle of a change
            fitted["_warm"] = warm
        return fitted, results, interrupted

    def _choose(self, data: ClassificationData, values: KernelData) -> tuple[float, dict]:
        """C, and fitted attributes that say how it was chosen."""
        return self.C, {}

    def _costs(self, data: ClassificationData, C: float) -> NDArray[np.float64]:
        """C_i, C times sample and class weight."""
        costs = C * data.total * data.weights
        with np.errstate(over="ignore"):
            usable = np.isfinite(costs).all() and np.isfinite(1.0 / costs).all()
        if not usable:
            raise ValueError(
                "C times a sample weight, and one over that, must be finite; got C="
                f"{C!r} and products from {costs.min()} to {costs.max()}."
            )
        return costs

    def _kernel_data(self, data: ClassificationData, kernel: Kernel) -> KernelData:
        values = KernelData(data.X, kernel)
        rows = values.rows(self._dtype())
        lowest = int(rows.diagonal.argmin())
        if not rows.diagonal[lowest] >= 0.0:
            raise ValueError(
                f"kernel={self.kernel!r} is not positive semidefinite: k(x, x) is "
                f"{rows.diagonal[lowest]} for the sample {data.rows[lowest]}."
            )
        return values

    def _dtype(self) -> type:
        """Of kernel rows."""
        return np.float32 if self.tol >= _SINGLE_TOL else np.float64

    def _solver(
        self, values: KernelData, points, target, C, kept, seed: int, n_threads: int
    ) -> SwapSolver | ActiveSetSolver:
        problem = L2SVM(values, points, target, C, self._dtype())
        settings = {
            "algorithm": self.solver,
            "cache_bytes": int(self.cache_size * 2**20 / n_threads),
            "tol": self.tol,
            "max_steps": self.max_iter,
            "n_candidates": self.n_candidates or 0,
            "seed": seed,
        }
        start = kept
        if kept is None and self.n_initial > 1:
            start = self._start(problem, settings)
        size, most = self.active_set, self.active_set
        if self.active_set == "auto":
            size, most = _ACTIVE, _MANY_GIVEN if values.given else _MANY
        if size is None or problem.n <= most:
            return SwapSolver(problem, start=start, **settings)
        return ActiveSetSolver(problem, size=size, start=start, **settings)

    def _start(self, problem: L2SVM, settings: dict) -> NDArray[np.float64]:
        """The solution on a few random points: section 6.1 of the paper takes 20."""
        rng = np.random.default_rng(settings["seed"])
        chosen = rng.permutation(problem.n)[: self.n_initial]
        solver = SwapSolver(problem.part(chosen), **settings | {"n_candidates": 0})
        alpha = run(solver, tol=self.tol, max_iter=-(-self.max_iter // CHUNK)).w
        start = np.zeros(problem.n)
        start[chosen] = alpha / alpha.sum()
        return start

    def _warm_start(
        self, last: WarmStart | None, data: ClassificationData, kernel: Kernel, n_subproblems: int
    ) -> WarmStart:
        """What the last fit kept if it belongs to the same data and kernel, else nothing."""
        fingerprint = None
        if self.warm_start:
            fingerprint = data_fingerprint(data), kernel
            if last is not None and last.fingerprint == fingerprint:
                return last
        return WarmStart(fingerprint, [None] * n_subproblems)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in super().__getstate__().items() if key != "_warm"}
