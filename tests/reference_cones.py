"""Quadratic programs over cones by clarabel's interior points; their tests skip without it."""

import numpy as np
import pytest
import scipy.sparse as sp


def by_clarabel(bend, linear, A, side, cones, tol=1e-11):
    """argmin x' bend x / 2 + linear'x, A x + s = side, s in the cones; ``tol`` is relative."""
    clarabel = pytest.importorskip("clarabel")
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
    settings.presolve_enable = False
    bend = sp.triu(sp.csc_matrix(bend), format="csc")
    solver = clarabel.DefaultSolver(bend, linear, sp.csc_matrix(A), side, cones, settings)
    return np.array(solver.solve().x)


def zeros(n):
    """n equations."""
    return [pytest.importorskip("clarabel").ZeroConeT(n)]


def halflines(n):
    """n inequalities."""
    return [pytest.importorskip("clarabel").NonnegativeConeT(n)]


def exponential(n):
    """n triples (x, y, z) with y exp(x / y) <= z."""
    return [pytest.importorskip("clarabel").ExponentialConeT()] * n
