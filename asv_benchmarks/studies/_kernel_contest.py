"""Contests of SwapSVC with its peers, on one task.

All sides have the same C, gamma and 1000 MB for kernel values, the tol that is their default, and
get X in the same format. Theirs is the hinge loss and ours the squared one: they minimize different
objectives, and what is compared is what they cost and how accurate they are.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from _measure import MissingError, cpu_seconds, take_turns
from _svm import Data, accuracy, relative_gap, status
from sklearn.svm import SVC

import sklearn_bundle

OURS = "ours"
_SETTINGS = {"cache_size": 1000}


def make_ours(C: float, gamma: float, **further: Any) -> Any:
    settings = {"gamma": gamma, "n_jobs": 1, "random_state": 0, **_SETTINGS, **further}
    return sklearn_bundle.SwapSVC(C, **settings)


def make_svc(C: float, gamma: float) -> SVC:
    return SVC(C=C, gamma=gamma, **_SETTINGS)


def make_intelex(C: float, gamma: float) -> Any:
    """scikit-learn-intelex's SVC; its threads are not those that threadpoolctl limits."""
    from sklearnex import svm

    return svm.SVC(C=C, gamma=gamma, n_jobs=1, **_SETTINGS)


Maker = Callable[[float, float], Any]  # of C and gamma
PEERS: dict[str, Maker] = {"SVC": make_svc, "intelex": make_intelex}


def check_intelex() -> None:
    """Raise unless its own code runs."""
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    try:
        model = make_intelex(1.0, 1.0)
    except ImportError as error:
        raise MissingError(f"scikit-learn-intelex is not installed ({error})") from error
    with _no_fallback():
        model.fit(X, y).predict(X)


@contextmanager
def _no_fallback() -> Iterator[None]:
    """Where it cannot do what is asked, it runs scikit-learn's code and says so in its log."""
    messages: list[str] = []

    def note(record: logging.LogRecord) -> bool:
        messages.append(record.getMessage())
        return False

    logger = logging.getLogger("sklearnex")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addFilter(note)
    try:
        yield
    finally:
        logger.removeFilter(note)
        logger.setLevel(level)
    own = [m for m in messages if "running accelerated version" in m]
    if len(own) < 2 or any("fallback" in m for m in messages):
        raise MissingError(f"scikit-learn-intelex did not run its own code: {messages}")


def compare(
    C: float, gamma: float, data: Data, peers: dict[str, Maker], repeat: int
) -> dict[str, Any]:
    """Seconds of fit and predict and the accuracy of all sides, and our certificate.

    What is compiled has to be warm. The first runs count only if LONG. A timed prediction is the
    first one of its model, which may keep what the next one can use, unless a LONG fit ran once.
    """
    models: dict[str, list[Any]] = {}
    fits, predicts, sides = {}, {}, {}
    for name, make in {OURS: make_ours, **peers}.items():
        models[name] = []
        fit = partial(_fit, models[name], make, C, gamma, data)
        predict = partial(_predict, models[name], data)
        with _no_fallback() if name == "intelex" else nullcontext():
            fits[name] = fit, cpu_seconds(fit)[0]
            seconds, predicted = cpu_seconds(predict)
        predicts[name] = predict, seconds
        right = accuracy(predicted, data.y_test)
        sides[name] = {"accuracy": right, "n_support": len(models[name][0].support_)}
    for what, runs in (("fit", fits), ("predict", predicts)):
        for name, taken in take_turns(runs, repeat).items():
            sides[name] |= {what: median(taken), f"{what}_runs": taken}
    own = models[OURS][0]
    return {
        "C": C,
        "gamma": gamma,
        **data.sizes,
        "status": status(own),
        "gap": relative_gap(own),
        "steps": int(np.sum(own.n_iter_)),
        "sides": sides,
    }


def _fit(models: list[Any], make: Maker, C: float, gamma: float, data: Data) -> None:
    models.append(make(C, gamma).fit(data.X, data.y))


def _predict(models: list[Any], data: Data) -> Any:
    """By the newest model, which is then done with; the first one stays."""
    model = models.pop() if len(models) > 1 else models[0]
    return model.predict(data.X_test)
