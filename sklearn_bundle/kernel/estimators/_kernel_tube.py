"""Base of SwapSVR and SwapNoveltyDetector: one problem, solved by conjugate gradients."""

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.contract import SolverResult
from sklearn_bundle.core.fit import OneCertificate
from sklearn_bundle.core.sklearn_internals import num_samples
from sklearn_bundle.core.validation import TrainingData
from sklearn_bundle.core.weights import check_sample_weight, total_of
from sklearn_bundle.kernel.estimators._kernel import (
    KernelMachine,
    MachineTraining,
    attributes_of,
)
from sklearn_bundle.kernel.problems.l2tube import L2Tube, Tube
from sklearn_bundle.kernel.solvers.kernel_gradients import KernelGradients
from sklearn_bundle.kernel.values.kernel_data import KernelData

Samples = TypeVar("Samples", bound=TrainingData)


@dataclass
class TubeTraining(MachineTraining, Generic[Samples]):
    """Samples with or without targets, and kernel values between them.

    ``total`` is what the weights sum to before they are normalized; ``shared`` says that several
    fits use the kernel values.
    """

    samples: Samples
    total: float = field(kw_only=True)
    shared: bool = field(default=False, kw_only=True)


class KernelTubeEstimator(KernelMachine, OneCertificate):
    """A kernel machine with squared losses outside of a tube."""

    _intercept: ClassVar[bool]  # whether functions have one, which is penalized

    @abstractmethod
    def _tube(self, data: TubeTraining) -> Tube:
        """Targets, and the limits between which residuals cost nothing."""

    def _training(
        self, check: Callable[..., Samples], X: Any, *y: Any, sample_weight: Any
    ) -> TubeTraining[Samples]:
        self._refuse_sparse_matrix(X)
        samples, n_samples = self._checked(check, X, *y, sample_weight), num_samples(X)
        values = self._kernel_values(samples, n_samples)
        total = total_of(check_sample_weight(sample_weight, n_samples))
        return TubeTraining(samples, values, self._shape_of(X), total=total)

    def _costs(self, data: TubeTraining) -> NDArray[np.float64]:
        return self._checked_costs(data.total, data.samples.weights)

    def _prepare(self, data: TubeTraining, n_threads: int) -> None:
        """Costs out of range are refused."""
        self._costs(data)
        data.divide_cache(self.cache_size, 1)

    def _targets(self, data: TubeTraining) -> list[None]:
        return [None]

    def _problem(
        self, data: TubeTraining, target: None, n_threads: int
    ) -> AbstractContextManager[L2Tube]:
        costs = self._costs(data)
        data.values.check_costs(np.arange(len(costs)), costs)
        problem = L2Tube(
            data.values,
            self._tube(data),
            costs,
            intercept=self._intercept,
            cache_bytes=data.cache_bytes,
            shared=data.shared,
        )
        return nullcontext(problem)

    def _settings(self, data: TubeTraining) -> tuple[Any, ...]:
        """A callable kernel may have changed: its last point is only a start, not a result."""
        tube = self._tube(data)
        scale = object() if callable(self.kernel) else self.C * data.total
        return scale, tube.above, tube.below, self.cache_size

    def _solver(self, problem: L2Tube, kept: Any, seed: int) -> KernelGradients:
        if isinstance(kept, KernelGradients):
            return KernelGradients(problem, last=kept, seed=seed)
        return KernelGradients(problem, start=kept, seed=seed)

    def _keep(self, solver: KernelGradients, result: SolverResult) -> Any:
        return solver.kept

    def _next_start(self, solver: KernelGradients, result: SolverResult, last: Any) -> Any:
        """The solver, with its factors."""
        return solver

    def _machine(self, data: TubeTraining, coef: NDArray[np.float64]) -> dict[str, Any]:
        """Fitted attributes in SVR's shapes."""
        support = np.flatnonzero(coef)
        dual_coef = coef[support][np.newaxis]
        intercept = np.array([dual_coef.sum() if self._intercept else 0.0])
        n_support = np.array([len(support), 0], dtype=np.int32)
        machine = dual_coef, intercept, n_support
        fitted = attributes_of(data.samples, data.values.kernel, support, *machine)
        return fitted | {"n_support_": n_support[:1].copy()}

    def _indefinite_at(
        self, task: L2Tube, solver: KernelGradients
    ) -> tuple[KernelData, NDArray, NDArray]:
        return task.data, np.arange(task.n), solver.indefinite_coef
