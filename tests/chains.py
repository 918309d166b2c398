"""Chain CRFs for tests of the inside: the same problem from the package and the reference."""

import numpy as np
import scipy.sparse as sp

from sklearn_bundle import SDCACRF
from sklearn_bundle.chain.problem import ChainProblem
from sklearn_bundle.chain.readers.sequences import TrainingSequences
from tests import reference_chain as reference


def sequences(K, lengths, d=3, seed=0, nonnegative=False, sparse=0.6, scale=1.0):
    """Dense X, a list, and y."""
    rng = np.random.default_rng(seed)
    X = [scale * rng.normal(size=(T, d)) * (rng.random((T, d)) < sparse) for T in lengths]
    X = [np.abs(x) for x in X] if nonnegative else X
    return X, [rng.integers(0, K, T) for T in lengths]


def bound(
    K,
    lengths,
    intercept=True,
    reg_lambda=0.3,
    n_threads=1,
    dtype=np.float64,
    l1_ratio=0.0,
    **changes,
):
    """The same problem from the package and from the reference."""
    X, y = sequences(K, lengths, **changes)
    X = [x.astype(dtype) for x in X]
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(lengths))
    weights /= weights.sum()
    data = TrainingSequences(
        *(sp.csr_array(np.concatenate(X)), np.array(lengths), False, np.concatenate(y)),
        *(np.arange(K), weights, 1.0, np.arange(len(X)), np.zeros((K + 2, K)), {}),
    )
    params = SDCACRF(l1_ratio=l1_ratio, fit_intercept=intercept)
    ours = ChainProblem(data, reg_lambda, params, n_threads)
    return ours, reference.Model(X, y, K, reg_lambda, weights, intercept, l1_ratio=l1_ratio)
