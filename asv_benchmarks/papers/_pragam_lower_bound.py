"""Section 3 of Saha, Zhang and Vishwanathan: a problem on which BMRM needs 1/eps iterations."""

import numpy as np
from _common import Study
from scipy.linalg import hadamard

from sklearn_bundle.linear.solvers import master
from sklearn_bundle.regularizers import L2

Array = np.ndarray
REG_LAMBDA = 0.01
DIMENSION = 512
_EPSILONS = (10.0, 3.0, 1.0, 0.3, 0.1)
_ROUNDING = 1e-8  # relative, of the inner problem
_EXACT = 1e-10  # absolute, of the inner problem


def bmrm(columns: Array) -> tuple[Array, Array]:
    """eps_t of Algorithm 2 for t = 1, ..., d or fewer, and J(w_t) from w_0 = 0 on.

    R(w) = max_i <a_i, w> with the a_i as columns; ties go to the first.
    """
    d = len(columns)
    w, planes, alpha = np.zeros(d), np.empty((0, d)), np.empty(0)
    objectives: list[float] = []
    gaps: list[float] = []
    bound = -np.inf
    for _ in range(columns.shape[1] + 1):
        values = w @ columns
        # What rounding has left between equals does not count.
        first = np.flatnonzero(values >= values.max() - 1e-12 * (1.0 + np.abs(values).max()))[0]
        objectives.append(float(values[first] + 0.5 * REG_LAMBDA * (w @ w)))
        if len(planes):
            gaps.append(min(objectives) - bound)
            if gaps[-1] <= _ROUNDING * abs(bound):
                break
        planes = np.vstack([planes, columns[:, first]])
        alpha = np.append(alpha, float(not len(alpha)))
        t = len(planes)
        given = L2(), REG_LAMBDA, planes @ planes.T, alpha, _EXACT
        alpha = master.solve(planes, np.zeros(t), np.empty((t, 0)), *given).alpha
        aggregate = alpha @ planes
        bound = -float(aggregate @ aggregate) / (2.0 * REG_LAMBDA)
        w = aggregate / -REG_LAMBDA
    return np.array(gaps), np.array(objectives)


def papers_columns(d: int) -> Array:
    """The matrix A below (13)."""
    quarter = hadamard(d // 2)
    return np.block([[quarter, -quarter], [-quarter, quarter]]) / np.sqrt(d)


def run(study: Study) -> tuple[Array, Array]:
    """Gaps with orthonormal columns, and with the paper's."""
    columns = papers_columns(DIMENSION)
    unit, objectives = bmrm(np.eye(DIMENSION))
    hadamards, _ = bmrm(columns)
    study.keep(figure="lower bound", reg_lambda=REG_LAMBDA, gaps=unit.tolist())
    study.keep(figure="lower bound", columns="paper's", gaps=hadamards.tolist())
    rows = []
    for eps in _EPSILONS:
        t = int(np.flatnonzero(unit <= eps * (1.0 + _ROUNDING))[0]) + 1
        upper = 8.0 / (REG_LAMBDA * eps) - 4.0  # (13) less its first term: J(0) = 0 has no log
        rows.append([f"{eps:g}", str(t), f"{1 / (2 * REG_LAMBDA * eps):.1f}", f"{upper:.0f}"])
    study.show(
        f"Lower bound: R(w) = max_i w_i, d = {DIMENSION}, lambda = {REG_LAMBDA:g}",
        ["eps", "iterations", "1/(2 lambda eps)", "8/(lambda eps) - 4, of (13)"],
        rows,
    )
    t = np.arange(1, len(unit) + 1)
    inside = t < DIMENSION // 2
    ratio = 2.0 * REG_LAMBDA * t * unit
    study.compare(
        "theorem 6",
        "With d orthonormal a_i, eps_t >= 1/(2 lambda t) for all t < d/2.",
        f"R(w) = max_i w_i: 2 lambda t eps_t is between {ratio[inside].min():.9f} and "
        f"{ratio[inside].max():.9f}.",
        bool((ratio[inside] >= 1.0 - _ROUNDING).all()),
    )
    zero = np.flatnonzero(hadamards <= _ROUNDING / REG_LAMBDA)
    at = f"closes at t = {zero[0] + 1}" if len(zero) else "does not close"
    study.compare(
        "theorem 6",
        "The columns of its matrix A, made of Hadamard matrices, are orthonormal.",
        f"They are in pairs a, -a, and the gap of BMRM {at}.",
        bool(np.allclose(columns.T @ columns, np.eye(DIMENSION))),
    )
    optimum = -1.0 / (2.0 * REG_LAMBDA * DIMENSION)
    steps = t[inside]
    bound = (1.0 - _ROUNDING) / (2.0 * REG_LAMBDA * steps)
    excess, without = (
        np.minimum.accumulate(values)[steps - shift] - optimum
        for values, shift in ((objectives, 0), (objectives[1:], 1))
    )
    holds = "holds" if (without >= bound).all() else "does not hold either"
    study.compare(
        "theorem 7",
        "The same holds for the excess over the optimum, min J(w_t') - J(w*).",
        f"R(w) = max_i w_i: J(w_0) = 0 is {-optimum:.4f} above J*, the best of all t < d/2 "
        f"{excess.min():.4f}, and 1/(2 lambda t) between {bound[0]:.4g} and {bound[-1]:.4f}. "
        f"Without w_0 it {holds}.",
        bool((excess >= bound).all()),
    )
    return unit, hadamards
