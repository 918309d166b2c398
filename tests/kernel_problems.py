"""L2-SVMs of the data of two classes, for solvers, and their minimum."""

import numpy as np
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel

from sklearn_bundle.kernel.problems.l2svm import L2SVM
from sklearn_bundle.kernel.values.kernel_data import KernelData
from sklearn_bundle.kernel.values.kernel_function import Kernel
from tests.contract.kernel_machines import optimum

KERNELS = {
    "rbf": (Kernel("rbf", 0.05), lambda X, Z: rbf_kernel(X, Z, gamma=0.05)),
    "linear": (Kernel("linear"), linear_kernel),
    "poly": (
        Kernel("poly", 0.05, 3, 1.0),
        lambda X, Z: polynomial_kernel(X, Z, gamma=0.05, degree=3, coef0=1.0),
    ),
}


def weights_of(y, C, weighted):
    weights = np.random.default_rng(0).integers(1, 4, len(y)) if weighted else np.ones(len(y))
    return C * weights.astype(float)


def problem_of(data, kernel="rbf", C=10.0, weighted=False, dtype=np.float32, layout=np.asarray):
    X, y = data[0], np.where(data[1] == 1, 1.0, -1.0)
    values = KernelData(layout(X), KERNELS[kernel][0], dtype)
    return L2SVM(values, np.arange(len(y)), y, weights_of(y, C, weighted))


def minimum_of(p, data, kernel):
    return optimum(KERNELS[kernel][1](data[0], data[0]), p.y, 1.0 / p.ridge)
