"""Contests of SwapSVC with its peers, on one task.

All sides have the same C, gamma and 1000 MB for kernel values, the tol that is their default, and
get X in the same format. Theirs is the hinge loss and ours the squared one: they minimize different
objectives, and what is compared is what they cost and how accurate they are.
"""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from _measure import cpu_seconds, take_turns
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


Maker = Callable[[float, float], Any]  # of C and gamma
PEERS: dict[str, Maker] = {"SVC": make_svc}


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
