"""What functions return that fit many values of reg_lambda."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeVarTuple

import numpy as np
from numpy.typing import NDArray

Unpacked = TypeVarTuple("Unpacked")
Numbers = NDArray[np.float64]


class PathResult(tuple[*Unpacked]):
    """Fits for many values of reg_lambda: a tuple with named fields, and with further ones.

    Attributes
    ----------
    reg_lambdas : ndarray of shape (n_lambdas,)
        The values in descending order.
    objectives, lower_bounds, dual_gaps : ndarray of shape (n_lambdas,) or (n_outputs, n_lambdas)
        Objective, lower bound of its minimum, and their difference; one per output if each is a
        problem of its own.
    n_iters : ndarray of the same shape
        Iterations for each value.
    statuses : ndarray of the same shape
        "converged" or what ended the fit, as in `status_` of the estimators.
    """

    reg_lambdas: Numbers
    objectives: Numbers
    lower_bounds: Numbers
    dual_gaps: Numbers
    n_iters: NDArray[np.int64]
    statuses: NDArray[np.str_]

    #: The fields that the tuple holds, in order.
    _unpacked: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, **fields: Any) -> Self:
        result = super().__new__(cls, [fields[name] for name in cls._unpacked])
        vars(result).update(fields)
        return result

    @classmethod
    def of(cls, reg_lambdas: Numbers, models: Sequence[Any], /, **fields: Any) -> Self:
        """With the certificates of fitted models, one for each value."""

        def along(name: str) -> NDArray[Any]:
            return np.stack([np.asarray(getattr(model, name)) for model in models], axis=-1)

        return cls(
            reg_lambdas=reg_lambdas,
            objectives=along("objective_"),
            lower_bounds=along("lower_bound_"),
            dual_gaps=along("dual_gap_"),
            n_iters=along("n_iter_"),
            statuses=along("status_"),
            **fields,
        )

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]:  # for copies and pickles
        return (), vars(self)

    def __repr__(self) -> str:
        first, last, n = self.reg_lambdas[0], self.reg_lambdas[-1], len(self.reg_lambdas)
        met = np.count_nonzero(np.all(np.atleast_2d(self.statuses == "converged"), axis=0))
        fields = ", ".join(dict.fromkeys((*self._unpacked, *vars(self))))
        return (
            f"<{type(self).__name__}: {n} values of reg_lambda from {first:g} to {last:g}, {met} "
            f"converged; fields {fields}>"
        )
