"""SwapSVC's kernels and algorithms, and its optimum by LIBSVM and in extended precision."""

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.svm import OneClassSVM

from tests.contract.judge import judge_subproblem
from tests.reference_kernel import L2SVM
from tests.reference_programme import LONG

FRANK_WOLFE = ["fw", "cvm", "mfw", "swap", "swap-2o"]
SOLVERS = [*FRANK_WOLFE, "decomposition"]
GAMMA = 0.05
KERNELS = {
    "rbf": ({"kernel": "rbf", "gamma": GAMMA}, lambda X, Z: rbf_kernel(X, Z, gamma=GAMMA)),
    "linear": ({"kernel": "linear"}, linear_kernel),
    "poly": (
        {"kernel": "poly", "gamma": GAMMA, "degree": 3, "coef0": 1.0},
        lambda X, Z: polynomial_kernel(X, Z, gamma=GAMMA, degree=3, coef0=1.0),
    ),
    "homogeneous": (
        {"kernel": "poly", "gamma": GAMMA, "degree": 2},
        lambda X, Z: polynomial_kernel(X, Z, gamma=GAMMA, degree=2, coef0=0.0),
    ),
    "precomputed": (
        {"kernel": "precomputed"},
        lambda X, Z: rbf_kernel(X, Z, gamma=GAMMA),
    ),
    "callable": (
        {"kernel": lambda X, Z: rbf_kernel(X.astype(float), Z.astype(float), gamma=GAMMA)},
        lambda X, Z: rbf_kernel(X, Z, gamma=GAMMA),
    ),
}
LAYOUTS = {
    "dense64": lambda X: X,
    "dense32": lambda X: X.astype(np.float32),
    "csr_matrix": sp.csr_matrix,
    "csr_array": sp.csr_array,
}


def signs_of(y):
    return np.where(y == np.unique(y)[1], 1.0, -1.0)


def full_matrix(K, y, C):
    """``y_i y_j (k + 1) + delta_ij / C_i``."""
    return np.outer(y, y) * (K + 1.0) + np.diag(1.0 / C)


def optimum(K, y, C):
    """1/(2 Q): with nu = 1/n LIBSVM's one-class problem on the full matrix is the same one."""
    M = full_matrix(K, y, C)
    model = OneClassSVM(kernel="precomputed", nu=1.0 / len(y), tol=1e-12).fit(M)
    a = np.zeros(len(y))
    a[model.support_] = model.dual_coef_[0]
    a /= a.sum()
    return 0.5 / (a @ M @ a)


def coefficients(model, y):
    """alpha of every training point, from the attributes of a model of two classes."""
    signed = np.zeros(len(y))
    dual = model.dual_coef_
    signed[model.support_] = (dual.toarray() if sp.issparse(dual) else dual)[0]
    assert (signed * y >= 0.0).all()
    return np.abs(signed)


def assert_true_certificate(model, K, y, C):
    """Objective, bound, gap, status and history against the optimum, from both sides."""
    K = np.asarray(K, LONG)
    problem = L2SVM(K, np.abs(K), y, np.asarray(C, LONG), coefficients(model, y).astype(LONG))
    key = K.astype(float).tobytes(), y.tobytes(), np.asarray(C, float).tobytes()
    if key not in _OPTIMA:
        _OPTIMA[key] = problem.optimum()
    judge_subproblem(model, problem, _OPTIMA[key])


_OPTIMA = {}
