"""CRFsuite, timed iteration by iteration through python-crfsuite.

It logs every iteration, and where it minimizes the objective, the value too; the log is stamped
with the CPU time of this process, in which CRFsuite runs. What it learned at an iteration is what
a run of its own returns that ends there (``max_iterations``): the runs of a peer repeat each other,
as the C library's random numbers start anew before each.
"""

import ctypes
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from _chains import ChainTask
from _measure import MissingError, cpu_seconds
from threadpoolctl import threadpool_limits

_ALL = {"feature.possible_states": 1, "feature.possible_transitions": 1}
_TIGHT = {"epsilon": 1e-12, "delta": 1e-12}


@dataclass(frozen=True)
class Peer:
    """An algorithm of CRFsuite and its settings.

    ``same_model``: all attributes by all labels, so that it minimizes our objective. Otherwise it
    has its default feature set, those that occur in the training data.
    """

    algorithm: str
    same_model: bool = False
    params: dict[str, float] = field(default_factory=dict)

    def settings(self, n_sequences: int, reg_lambda: float, max_iter: int | None) -> dict[str, Any]:
        settings = {**(_ALL if self.same_model else {}), **self.params}
        if self.algorithm != "ap":
            settings["c2"] = 0.5 * n_sequences * reg_lambda
        if max_iter is not None:
            settings["max_iterations"] = max_iter
        return settings


PEERS = {
    "lbfgs-all": Peer("lbfgs", True, _TIGHT),
    "l2sgd-all": Peer("l2sgd", True),
    "lbfgs": Peer("lbfgs"),
    "l2sgd": Peer("l2sgd"),
    "ap": Peer("ap"),
}


@dataclass
class Run:
    """CPU seconds since the start of the training, and the loss, after each iteration."""

    settings: dict[str, Any]
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)  # as logged, over n; of L-BFGS the objective
    n_features: int = 0
    feature_seconds: float = 0.0  # of these, until the features are known
    total_seconds: float = 0.0  # with storing the model

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class CRFsuite:
    """The training data of a task inside CRFsuite, and models of it."""

    def __init__(self, task: ChainTask):
        try:
            import pycrfsuite
        except ImportError as error:
            raise MissingError(f"python-crfsuite is not installed ({error})") from error
        self._pycrfsuite = pycrfsuite
        self._task = task
        self._n = len(task.train.labels)
        self._trainer = make_trainer()
        self.append_seconds, _ = cpu_seconds(self._append)
        self._tests = {
            id(part): [pycrfsuite.ItemSequence(x) for x in part.attributes]
            for part in task.tests.values()
        }

    def _append(self) -> None:
        """What CRFsuite has to do with strings: attributes and labels become numbers."""
        part = self._task.train
        for attributes, labels in zip(part.attributes, part.labels, strict=True):
            self._trainer.append(attributes, labels)

    def train(self, peer: Peer, max_iter: int | None, path: Path) -> Run:
        """The model goes to a file."""
        settings = peer.settings(self._n, self._task.reg_lambda, max_iter)
        self._trainer.select(peer.algorithm)
        self._trainer.set_params(settings)
        ctypes.CDLL(None).srand(0)
        log: list[tuple[float, str]] = []
        self._trainer.on_message = lambda line: log.append((time.process_time(), line))
        start = time.process_time()
        self._trainer.train(str(path))
        run = Run(settings, total_seconds=time.process_time() - start)
        for stamp, line in log:
            if line.startswith("Loss: "):
                run.losses.append(float(line.split()[1]) / self._n)
            elif line.startswith("Seconds required for this iteration: "):
                run.seconds.append(stamp - start)
            elif line.startswith("Number of features: "):
                run.n_features = int(line.split()[-1])
            elif line.startswith("Seconds required: ") and not run.feature_seconds:
                run.feature_seconds = stamp - start
        return run

    def model(self, peer: Peer, max_iter: int | None) -> tuple[Run, dict[str, Any]]:
        """The run, and of what it learned the scores and, if it is ours, the objective."""
        with TemporaryDirectory(prefix="crfsuite_") as folder:
            path = Path(folder, "model")
            run = self.train(peer, max_iter, path)
            tagger = self._pycrfsuite.Tagger()
            with tagger.open(str(path)):
                labels = tagger.labels()
                scores = self._task.scores(
                    lambda part: [tagger.tag(items) for items in self._tests[id(part)]]
                )
            objective = None
            if peer.same_model:
                with threadpool_limits(1):
                    objective = self._task.objective(*read_model(path, labels, self._task))
        return run, {
            "iterations": len(run.seconds),
            "seconds": run.seconds[-1],
            "total_seconds": run.total_seconds,
            "objective": objective,
            "scores": scores,
        }


def make_trainer() -> Any:
    """One whose messages go to ``on_message``, and are not parsed on the way."""
    from pycrfsuite._pycrfsuite import BaseTrainer

    class Trainer(BaseTrainer):
        on_message = staticmethod(lambda line: None)

        def message(self, line: str) -> None:
            self.on_message(line)

    return Trainer()


def read_model(path: Path, labels: list[str], task: ChainTask) -> tuple[np.ndarray, np.ndarray]:
    """coef (K, d) and transitions (K, K) of a model file, in the task's order.

    The file is read as CRFsuite writes it, since its dump rounds to six digits.
    """
    content = path.read_bytes()
    offsets = np.frombuffer(content, "<u4", 5, 28)
    features_at, attributes_at = int(offsets[0]), int(offsets[2])
    n_features = int(np.frombuffer(content, "<u4", 1, features_at + 8)[0])
    record = np.dtype([("type", "<u4"), ("src", "<u4"), ("dst", "<u4"), ("weight", "<f8")])
    features = np.frombuffer(content, record, n_features, features_at + 12)
    position = {label: k for k, label in enumerate(task.classes)}
    of_label = np.array([position[label] for label in labels])
    of_attribute = np.array(
        [task.attribute_names[name] for name in _strings(content, attributes_at)], dtype=np.intp
    )
    coef = np.zeros((len(position), len(task.attribute_names)))
    transitions = np.zeros((len(position), len(position)))
    state, moves = features[features["type"] == 0], features[features["type"] == 1]
    coef[of_label[state["dst"]], of_attribute[state["src"]]] = state["weight"]
    transitions[of_label[moves["src"]], of_label[moves["dst"]]] = moves["weight"]
    return coef, transitions


def _strings(content: bytes, at: int) -> list[str]:
    """The strings of a constant quark database, by number."""
    count, table = np.frombuffer(content, "<u4", 2, at + 16)
    strings = []
    for offset in np.frombuffer(content, "<u4", int(count), at + int(table)):
        begin = at + int(offset) + 8
        size = int.from_bytes(content[begin - 4 : begin], "little")
        strings.append(content[begin : begin + size - 1].decode())
    return strings
