"""pystruct 0.3.2, the last release, on label sequences.

    python asv_benchmarks/studies/_structured_pystruct.py FOLDER

fetches its source and cvxopt with pip, into a folder outside of the repository, and fits two words.
pip cannot install it: setuptools no longer knows ``use_2to3``, which its setup.py asks for. Its
source is run as it is; what it imports and today's libraries lack is put in place beforehand:

* two small compiled modules, of which the archive has the C that Cython 0.21 wrote, for no Python
  after 3.6: max-product on a chain and the loss in its scores are the same loops here, by numba;
* ``np.int`` and ``np.float``, ``sklearn.externals.joblib``.
"""

import importlib
import os
import subprocess
import sys
import tarfile
import time
import types
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from _measure import MissingError, quiet_single_thread
from numba import njit

_RELEASE = "pystruct-0.3.2"
_STEP = 1.05  # seconds from a kept w to the next, in relation to those so far


@dataclass(frozen=True)
class Learner:
    """A class of pystruct and its settings."""

    name: str
    settings: dict[str, Any]


# No test of convergence costs time or ends a run: the study knows when it is enough.
_BCFW = {"check_dual_every": 10**9, "tol": 0.0, "max_iter": 10**6, "random_state": 0}
LEARNERS = {
    "FrankWolfeSSVM": Learner("FrankWolfeSSVM", _BCFW),
    "FrankWolfeSSVM, not averaged": Learner("FrankWolfeSSVM", {**_BCFW, "do_averaging": False}),
    "OneSlackSSVM": Learner("OneSlackSSVM", {"tol": 1e-6}),
}


@dataclass
class Run:
    """The weights of a learner on its way, and the CPU seconds and passes until then."""

    seconds: list[float]
    passes: list[int]
    points: list[np.ndarray]


def fetch(folder: Path) -> None:
    """Put source and cvxopt into the folder, unless they are there."""
    if (folder / _RELEASE / "pystruct").is_dir() and (folder / "libraries" / "cvxopt").is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    tools = folder.resolve() / "tools"  # pip asks setup.py even where it is to download alone
    _pip("install", "--target", tools, "setuptools<58", "wheel")
    _pip(
        *("download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"),
        *("--dest", folder, _RELEASE.replace("-", "==")),
        environment={"PYTHONPATH": str(tools)},
    )
    with tarfile.open(folder / f"{_RELEASE}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    _pip("install", "--no-deps", "--target", folder / "libraries", "cvxopt")


def _pip(*arguments: Any, environment: dict[str, str] | None = None) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", *map(str, arguments)]
    environment = {**os.environ, **(environment or {})}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise MissingError(f"pip {arguments[0]} failed: {' '.join(last)}")


def learn(
    folder: Path,
    learner: Learner,
    X: Sequence[np.ndarray],
    y: Sequence[np.ndarray],
    C: float,
    max_seconds: float,
) -> Run:
    """Run a learner on words of pixels and label indices, in a process of its own."""
    fetch(folder)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_learn, folder, learner, X, y, C, max_seconds).result()


def _learn(
    folder: Path,
    learner: Learner,
    X: Sequence[np.ndarray],
    y: Sequence[np.ndarray],
    C: float,
    max_seconds: float,
) -> Run:
    _put_in_place(folder)
    learners = importlib.import_module("pystruct.learners")
    models = importlib.import_module("pystruct.models")
    made = getattr(learners, learner.name)
    n_states = 1 + max(int(labels.max()) for labels in y)

    def new_model() -> Any:
        return models.ChainCRF(n_states=n_states, n_features=X[0].shape[1], directed=True)

    with quiet_single_thread():
        made(new_model(), C=C, **{**learner.settings, "max_iter": 1}).fit(X, y)  # compiles
        log = _Log(max_seconds)
        made(new_model(), C=C, logger=log, **learner.settings).fit(X, y)
    return log.run


class _Log:
    """What the learner calls after each pass; it ends the fit as Ctrl-C would."""

    def __init__(self, max_seconds: float):
        self.run = Run([], [], [])
        self._max_seconds, self._own = max_seconds, 0.0
        self._start = time.process_time()

    def __call__(self, learner: Any, iteration: int | str) -> None:
        if iteration == "final":
            return
        now, run = time.process_time(), self.run
        seconds = now - self._start - self._own
        ended = seconds >= self._max_seconds
        if ended or not run.seconds or seconds >= _STEP * run.seconds[-1]:
            run.seconds.append(seconds)
            run.passes.append(iteration + 1)
            run.points.append(np.array(learner.w))
        self._own += time.process_time() - now
        if ended:
            raise KeyboardInterrupt


def _put_in_place(folder: Path) -> None:
    import joblib
    import sklearn.cluster  # noqa: F401  first: with the aliases numpy is not what it expects

    vars(np).update(int=int, float=float)
    modules = {
        "sklearn.externals.joblib": joblib,
        "pystruct.inference._viterbi": types.SimpleNamespace(viterbi=_viterbi),
        "pystruct.models.utils": types.SimpleNamespace(
            loss_augment_unaries=_loss_augment_unaries, crammer_singer_joint_feature=None
        ),
    }
    sys.modules.update(modules)
    sys.path[:0] = [str(folder / _RELEASE), str(folder / "libraries")]


@njit
def _viterbi(scores: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """Best path of scores (T, K) and transitions (T - 1, K, K), in the memory of the scores."""
    n, n_states = scores.shape
    from_ = np.empty((n, n_states), np.intp)
    for t in range(1, n):
        for k in range(n_states):
            best, at = -np.inf, 0
            for j in range(n_states):
                score = scores[t - 1, j] + scores[t, k] + transitions[t - 1, j, k]
                if score > best:
                    best, at = score, j
            scores[t, k] = best
            from_[t, k] = at
    path = np.empty(n, np.intp)
    path[n - 1] = scores[n - 1].argmax()
    for t in range(n - 2, -1, -1):
        path[t] = from_[t + 1, path[t + 1]]
    return path


@njit
def _loss_augment_unaries(scores: np.ndarray, y: np.ndarray, class_weight: np.ndarray) -> None:
    for t in range(scores.shape[0]):
        for k in range(scores.shape[1]):
            if k != y[t]:
                scores[t, k] += class_weight[y[t]]


def main() -> None:
    folder = Path(sys.argv[1])
    X = [np.eye(3), np.eye(3)[::-1].copy()]
    y = [np.array([0, 1, 2]), np.array([2, 1, 0])]
    for name, learner in LEARNERS.items():
        run = learn(folder, learner, X, y, 1.0, 0.1)
        print(f"{name}: {run.passes[-1]} passes, w {np.round(run.points[-1][:3], 3)}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main()
