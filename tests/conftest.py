import os
import signal
import sys
from collections import Counter, defaultdict

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.preprocessing import StandardScaler


def pytest_report_header(config):
    """How long it will take, in CPU time of a core of about 3 GHz."""
    if [arg.rstrip("/") for arg in config.args] == ["tests/contract"]:
        return "one to two minutes, four to five where nothing is compiled yet"
    return None


def pytest_sessionfinish(session):
    """Remove machine code of older sources, next to the package: no process will read it."""
    decorators = sys.modules.get("sklearn_bundle.jit.decorators")
    if decorators is not None:
        for path in decorators._ROOT.rglob("__pycache__/*.nb[ic]"):
            if decorators.source_stamp() not in path.name:
                path.unlink(missing_ok=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Of tests that are marked ``matrix`` all but a few that show every value once are ``wide``."""
    matrices = defaultdict(list)
    for item in items:
        if item.get_closest_marker("matrix"):
            matrices[item.parent, item.originalname].append(item)
    for cases in matrices.values():
        for item in set(cases) - set(few_of(cases)):
            item.add_marker("wide")


def few_of(cases):
    """Cases that show every value: next is that with most new ones, of equals the rarest others."""
    values = {case: shown_by(case) for case in cases}
    times = Counter()
    while any(not times[value] for case in cases for value in values[case]):
        case = max(cases, key=lambda case: sorted(-times[value] for value in values[case])[::-1])
        times.update(values[case])
        yield case


def shown_by(case):
    """What stands in each list of parameters, of the test and of its fixtures."""
    names = set(case.callspec.params)
    lists = [mark.args[0] for mark in case.iter_markers("parametrize")]
    lists = [[n.strip() for n in at.split(",")] if isinstance(at, str) else at for at in lists]
    lists += [[name] for name in names.difference(*lists)]
    return [tuple((name, id(case.callspec.params[name])) for name in at) for at in lists]


@pytest.fixture(scope="session", autouse=True)
def interruptible():
    """Python's own handler of Ctrl-C, which a shell's background job starts without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def cancer():
    """Standardized breast cancer data, labels in {-1.0, +1.0}."""
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), np.where(y == 1, 1.0, -1.0)


@pytest.fixture(scope="session")
def data():
    """A small noisy problem with labels 0 and 1."""
    return make_classification(200, 10, n_informative=5, flip_y=0.1, random_state=0)


@pytest.fixture(scope="session")
def regression():
    """A small problem with positive targets of a log-linear mean."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 5))
    return X, np.exp(X @ [0.3, -0.2, 0.0, 0.1, 0.0] + 0.3 * rng.normal(size=90))


@pytest.fixture(scope="session")
def tasks():
    """The benchmark tasks, from the folder that SKLEARN_BUNDLE_DATA names."""
    folder = os.environ.get("SKLEARN_BUNDLE_DATA")
    if not folder:
        pytest.skip("SKLEARN_BUNDLE_DATA does not name the benchmark data folder")
    sys.path.insert(0, folder)
    return pytest.importorskip("tasks")
