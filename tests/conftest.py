import os
import signal
import sys

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.preprocessing import StandardScaler


@pytest.fixture(scope="session", autouse=True)
def interruptible():
    """Python's own handler of Ctrl-C, which a shell's background job starts without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def cancer():
    """Standardised breast cancer data, labels in {-1.0, +1.0}."""
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), np.where(y == 1, 1.0, -1.0)


@pytest.fixture(scope="session")
def data():
    """A small noisy problem with labels 0 and 1."""
    return make_classification(200, 10, n_informative=5, flip_y=0.1, random_state=0)


@pytest.fixture(scope="session")
def tasks():
    """The benchmark tasks, from the folder that SKLEARN_BUNDLE_DATA names."""
    folder = os.environ.get("SKLEARN_BUNDLE_DATA")
    if not folder:
        pytest.skip("SKLEARN_BUNDLE_DATA does not name the benchmark data folder")
    sys.path.insert(0, folder)
    return pytest.importorskip("tasks")
