"""Rows in blocks on dask, for tests of their kind, which are skipped without it."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
CUTS = (0, 70, 75, 190, 300)  # of the rows into blocks


def blocks_of(values, cuts=CUTS):
    """Delayed blocks of rows."""
    return [dask.delayed(values[a:b]) for a, b in pairwise(cuts)]


def collected(X, *columns):
    """X and what goes with it as dask arrays, a sparse X as a list of blocks."""
    chunks = tuple(np.diff(CUTS).tolist())
    if sp.issparse(X):
        return blocks_of(X), *(blocks_of(column) for column in columns)
    arrays = [da.from_array(X, chunks=(chunks, 2))]  # columns in pieces too: they are put together
    return *arrays, *(da.from_array(c, chunks=(chunks, *c.shape[1:])) for c in columns)


def labeled_rows():
    """Rows of three classes."""
    X, labels = make_classification(
        *(300, 6), n_informative=4, n_classes=3, n_clusters_per_class=1, flip_y=0.1, random_state=0
    )
    return X + 0.5, labels


def missing_file():
    """A block that cannot be read."""
    return open("/nowhere/rows.csv")
