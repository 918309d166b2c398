"""What ``fingerprints.py`` hashes of a fit, part by part."""

import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from _fingerprints_data import LAYOUTS, task
from sklearn.base import clone

_DIGITS = 16  # of a hash in hexadecimal: 64 bits
_ROWS = 15  # of X, evenly spaced, whose predictions are hashed

#: Part -> what belongs to it, of that which an estimator has. All are public names.
ATTRIBUTES = {
    "coefficients": (
        *("coef_", "intercept_", "dual_coef_", "support_", "support_vectors_", "n_support_"),
        *("transitions_", "start_", "end_", "classes_", "attribute_names_", "thresholds_"),
        *("grades_", "offset_", "gamma_", "shape_fit_", "n_features_in_", "solver_"),
        *("w_", "exact_"),
        *("C_", "Cs_", "reg_lambda_", "reg_lambdas_", "scores_", "mean_test_scores_"),
    ),
    "objective": ("objective_",),
    "bound": ("lower_bound_", "dual_gap_"),
    "iterations": ("n_iter_", "status_"),
    "history": ("history_",),
}
PREDICTIONS = (
    *("predict", "decision_function", "predict_proba", "score_samples", "predict_grades"),
    *("predict_marginals", "predict_pairwise_marginals", "predict_log_proba", "decode"),
)


class Found(NamedTuple):
    """Values of each part, and what a line shows."""

    values: dict[str, list]
    n_iter: int
    status: str
    gap: float
    certificates: list[tuple[float, float]]  # objective and bound of each problem


@dataclass(frozen=True)
class Case:
    """An estimator on data; ``then`` are parameters to set before a refit each."""

    name: str
    model: Any
    task: str
    layout: str = ""
    fit: dict = field(default_factory=dict)
    then: tuple[dict, ...] = ()

    def __call__(self) -> Iterator[Found]:
        X, y = task(self.task)
        X = LAYOUTS[self.layout](X)
        model = clone(self.model)
        for changed in ({}, *self.then):
            fitted = found(model.set_params(**changed).fit(X, y, **self.fit), X)
            if hasattr(model, "score"):
                fitted.values["predictions"].append(("score", model.score(X, y, **self.fit)))
            yield fitted


def found(model: Any, X: Any) -> Found:
    """What is there of a fitted estimator; a pickle of it predicts."""
    model = pickle.loads(pickle.dumps(model))
    values = {
        part: [(name, getattr(model, name)) for name in names if hasattr(model, name)]
        for part, names in ATTRIBUTES.items()
    }
    rows = some_rows(model, X)
    values["predictions"] = [
        (name, getattr(model, name)(rows)) for name in PREDICTIONS if hasattr(model, name)
    ]
    gap = np.max(np.divide(model.dual_gap_, np.abs(model.objective_)))
    status = [model.status_] if isinstance(model.status_, str) else model.status_
    n_iter, statuses = int(np.sum(model.n_iter_)), "+".join(sorted(set(status)))
    bounds = zip(np.ravel(model.objective_), np.ravel(model.lower_bound_), strict=True)
    certificates = [(float(objective), float(bound)) for objective, bound in bounds]
    return Found(values, n_iter, statuses, float(gap), certificates)


def computed(**values: Any) -> Found:
    """Results of a function that fits no estimator."""
    return Found({"coefficients": list(values.items())}, 0, "-", 0.0, [])


def some_rows(model: Any, X: Any) -> Any:
    """A few of the rows, or sequences, that the model was fitted to."""
    n = len(X) if isinstance(X, list) else X.shape[0]
    chosen = range(0, n, max(1, n // _ROWS))
    return [X[k] for k in chosen] if isinstance(X, list) else _rows(X, list(chosen))


def _rows(X: Any, chosen: list[int]) -> Any:
    return X.tocsr()[chosen] if sp.issparse(X) else X[chosen]


def hashes(case: Callable[[], Iterable[Found]]) -> dict[str, Any]:
    """The record of an instance: a hash of each part over all its fits, figures of the last."""
    digests: dict[str, Any] = {}
    fits = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for fitted in case():
            fits.append([fitted.n_iter, fitted.status, fitted.certificates])
            for part, values in fitted.values.items():
                _update(digests.setdefault(part, sha256()), values)
    # Their kinds alone: texts may become better ones. Those of libraries are of other kinds.
    kinds = [w.category.__name__ for w in caught if issubclass(w.category, UserWarning)]
    _update(digests.setdefault("warnings", sha256()), sorted(kinds))
    parts = {part: digest.hexdigest()[:_DIGITS] for part, digest in digests.items()}
    return {
        "hash": short_hash(parts),
        "parts": parts,
        "n_iter": fitted.n_iter,
        "status": fitted.status,
        "gap": fitted.gap,
        "fits": fits,
    }


def short_hash(value: Any) -> str:
    """Of anything that ``_update`` takes."""
    digest = sha256()
    _update(digest, value)
    return digest.hexdigest()[:_DIGITS]


def _update(digest: Any, value: Any) -> None:
    """Exact bytes, with type and shape, and without the seconds of a history."""
    if isinstance(value, dict):
        _update(digest, sorted(value.items()))
    elif isinstance(value, list | tuple):
        digest.update(f"[{len(value)}".encode())
        for item in value:
            _update(digest, item)
    elif sp.issparse(value):
        value = value.tocsr()
        _update(digest, [value.shape, value.data, value.indices, value.indptr])
    elif isinstance(value, np.ndarray) and value.dtype.names:
        names = [name for name in value.dtype.names if name != "seconds"]
        _update(digest, [(name, value[name]) for name in names])
    elif isinstance(value, np.ndarray) and value.dtype.hasobject:
        _update(digest, value.tolist())
    elif isinstance(value, np.ndarray | np.generic | float | int):
        array = np.asarray(value)
        digest.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    else:
        digest.update(repr(value).encode())
