"""Base of SwapSVR and SwapNoveltyDetector: one problem, solved by conjugate gradients."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _num_samples

from sklearn_bundle.estimators._fit import CertifiedEstimator, OneCertificate, Outcome
from sklearn_bundle.estimators._kernel import KernelMachine
from sklearn_bundle.estimators._validation import TrainingData, check_sample_weight
from sklearn_bundle.estimators._warm import WarmStart, data_fingerprint
from sklearn_bundle.problems.kernel_data import KernelData
from sklearn_bundle.problems.kernel_scores import KernelScores
from sklearn_bundle.problems.l2tube import L2Tube, Tube
from sklearn_bundle.solvers.contract import SolverResult, Status
from sklearn_bundle.solvers.kernel_gradients import KernelGradients

_LARGEST_COST = 1e100  # of C_i: the squares of it and of its inverse are finite


@dataclass
class TubeTraining:
    """Samples, kernel values between them, the costs C_i, and the shape of the caller's X."""

    samples: TrainingData
    values: KernelData
    costs: NDArray[np.float64]
    shape: tuple[int, ...]


class KernelTubeEstimator(KernelMachine, OneCertificate, CertifiedEstimator):
    """A kernel machine with squared losses outside of a tube."""

    _tube_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelMachine._kernel_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    _advice: ClassVar[dict[Status, str]] = {
        Status.MAX_ITER: "Increase max_iter or tol, or use a smaller C.",
        Status.MAX_TIME: "Increase max_time or tol, or use a smaller C.",
        Status.STALLED: "Rounding prevents further progress: increase tol, or scale the features.",
    }
    _intercept: ClassVar[bool]  # whether functions have one, which is penalized

    def _tube(self, data: TubeTraining) -> Tube:
        """Targets, and the limits between which residuals cost nothing."""
        raise NotImplementedError

    def _training(
        self, check: Callable[..., TrainingData], X: Any, *y: Any, sample_weight: Any
    ) -> TubeTraining:
        self._refuse_sparse_matrix(X)
        samples, n_samples = self._checked(check, X, *y, sample_weight), _num_samples(X)
        values = self._kernel_values(samples, n_samples)
        with np.errstate(over="ignore"):
            total = float(np.sum(check_sample_weight(sample_weight, n_samples)))
            costs = self.C * total * samples.weights
        if not (costs.min() >= 1.0 / _LARGEST_COST and costs.max() <= _LARGEST_COST):
            raise ValueError(
                f"C times the sample weights must lie between {1.0 / _LARGEST_COST:g} and "
                f"{_LARGEST_COST:g}; got C={self.C!r} and products from {costs.min()} to "
                f"{costs.max()}."
            )
        return TubeTraining(samples, values, costs, self._shape_of(X))

    def _targets(self, data: TubeTraining) -> list[None]:
        return [None]

    def _problem(
        self, data: TubeTraining, target: None, n_threads: int
    ) -> AbstractContextManager[L2Tube]:
        problem = L2Tube(
            *(data.values, self._tube(data), data.costs),
            intercept=self._intercept,
            cache_bytes=self.cache_size * 2**20,
        )
        return nullcontext(problem)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _fingerprint(self, data: TubeTraining) -> tuple[Any, ...]:
        return data_fingerprint(data.samples), data.values.kernel

    def _settings(self, data: TubeTraining) -> tuple[Any, ...]:
        """A callable kernel may have changed: its last point is only a start, not a result."""
        tube = self._tube(data)
        scale = object() if callable(self.kernel) else tuple(data.costs[:1])
        return scale, tube.above, tube.below, self.cache_size

    def _solver(self, problem: L2Tube, kept: Any, seed: int) -> KernelGradients:
        return KernelGradients(problem, start=kept, seed=seed)

    def _keep(self, solver: KernelGradients, result: SolverResult) -> Any:
        return solver.kept

    def _machine(self, data: TubeTraining, coef: NDArray[np.float64]) -> dict[str, Any]:
        """Fitted attributes in SVR's shapes."""
        kernel, support = data.values.kernel, np.flatnonzero(coef)
        vectors = np.empty((0, 0)) if self._given() else data.samples.X[support]
        rows = data.samples.rows[support]
        dual_coef = coef[support][np.newaxis]
        intercept = np.array([dual_coef.sum() if self._intercept else 0.0])
        scores = KernelScores(
            *(rows if self._given() else vectors, kernel, dual_coef, intercept),
            n_support=[len(support), 0],
        )
        return {
            "support_": rows.astype(np.int32),
            "support_vectors_": vectors,
            "n_support_": np.array([len(support)], dtype=np.int32),
            "dual_coef_": dual_coef,
            "intercept_": intercept,
            "gamma_": kernel.gamma,
            "_scores": scores,
        }

    def _further_attributes(self, data: TubeTraining, warm: WarmStart) -> dict[str, Any]:
        return {"shape_fit_": data.shape}

    def _doubt(self, outcome: Outcome) -> str | None:
        if outcome.results[0].lower_bound > -np.inf:
            return None
        return (
            f"The values of kernel={self.kernel!r} are not positive semidefinite: the fit "
            "stopped when it found this, and there is no lower bound."
        )
