"""Reader of segmentations: sequences, and their segments with labels."""

from itertools import pairwise
from numbers import Integral
from reprlib import repr as short
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from sklearn_bundle.chain.readers.packing import lengths_of, nature, sequences_in
from sklearn_bundle.chain.readers.sequences import (
    Sequences,
    check_labels,
    check_prediction_sequences,
    check_training_sequences,
)
from sklearn_bundle.core.parallel import split_threads
from sklearn_bundle.core.values import require_y, shown
from sklearn_bundle.structured.models.chain_structure import TokenRows
from sklearn_bundle.structured.models.segments import (
    Layout,
    Segmentation,
    TokenSegments,
    by_tokens,
    segments_of,
)
from sklearn_bundle.structured.readers.structures import Array, Reader, Reading


class SegmentReader(Reader):
    """Sequences as in SDCACRF, each with a list of (label, start, stop)."""

    def read(self, estimator, X, y, sample_weight) -> Reading:
        segmentations = _checked(estimator, X, y)
        tokens = _labels(segmentations)
        data = check_training_sequences(estimator, X, tokens, sample_weight, least_classes=1)
        sizes = by_tokens([segmentations[i] for i in data.kept]).sizes
        return Reading(
            TokenRows(data.X, data.lengths, len(data.classes)),
            TokenSegments(data.labels.astype(np.int64, copy=False), sizes),
            data.weights,
            data.total,
            {"classes_": data.classes, **data.fitted},
            lambda: (data.fingerprint(), joblib.hash(sizes)),
        )

    def attributes(self, model, reading, w) -> dict[str, Any]:
        d, longest = reading.X.X.shape[1], int(model.max_lengths_.max())
        layout = Layout(reading.X.n_labels, d, longest)
        w = layout.public(w)
        parts = layout.split(w)._asdict()
        named = {f"{name}_": part for name, part in parts.items()}
        return named | super().attributes(model, reading, w)

    def predict(self, estimator, X) -> Any:
        sequences, found = _found(estimator, X)
        labels, starts = estimator.classes_[found.labels].tolist(), sequences.starts.tolist()
        return [segments_of(labels[a:b], found.sizes[a:b]) for a, b in pairwise(starts)]

    def losses(self, estimator, X, y) -> tuple[Array, Array]:
        truth = _checked(estimator, X, y)
        sequences, found = _found(estimator, X)
        wrong = check_labels(estimator, sequences, _labels(truth)) != found.labels
        ends = (by_tokens(truth).sizes > 0) != (found.sizes > 0)
        wrong[1:] |= ends[:-1]  # where another segment begins; sequences end alike
        until = np.append(0, np.cumsum(wrong))[sequences.starts]
        return np.diff(until).astype(np.float64), sequences.lengths.astype(np.float64)


def _labels(segmentations: list[Segmentation]) -> list[Any]:
    """The labels of the tokens of each sequence."""
    return [by_tokens([segments]).labels for segments in segmentations]


def _found(estimator: BaseEstimator, X: Any) -> tuple[Sequences, TokenSegments]:
    """Checked sequences, and their best segmentations."""
    check_is_fitted(estimator)
    sequences = check_prediction_sequences(estimator, X)
    lengths = sequences.lengths[sequences.lengths > 0]
    n_threads = split_threads(estimator.n_jobs, 1)[1]
    given = sequences.X, lengths, estimator.w_, n_threads
    return sequences, estimator.model_.best_segments(*given)


def _checked(estimator: BaseEstimator, X: Any, y: Any) -> list[Segmentation]:
    """The segments of each sequence; they cover it, so that labels of its tokens fit in memory."""
    require_y(f"This {type(estimator).__name__} estimator", y)
    if nature(y) != "list":
        raise TypeError(
            "y must be a list with a list of segments (label, start, stop) for each sequence of X, "
            f"got {short(y)} of type {type(y).__name__}."
        )
    sequences = sequences_in(X)
    lengths = [1] * len(y) if sequences is None else lengths_of(sequences).tolist()
    check_consistent_length(lengths, y)
    return [_segments(i, *own) for i, own in enumerate(zip(y, lengths, strict=True))]


def _segments(i: int, segments: Any, length: int) -> Segmentation:
    """The segments of sequence i, with Python's integers."""
    checked, end = [], 0
    for segment in segments if nature(segments) in ("list", "matrix") else [segments]:
        if not _follows(segment, end):
            raise ValueError(
                f"Sequence {i} of y must be a list of segments (label, start, stop) that follow "
                f"one another from 0 on, start and stop integers, got {shown(segment)} where a "
                f"segment must start at {end} and stop later."
            )
        checked.append((segment[0], end, int(segment[2])))
        end = int(segment[2])
    if end != length:
        raise ValueError(
            f"Sequence {i} of y has segments up to {end}, but sequence {i} of X has {length} "
            "positions."
        )
    return checked


def _follows(segment: Any, end: int) -> bool:
    """Whether it is a segment that starts there."""
    if nature(segment) != "list" or len(segment) != 3:
        return False
    integers = all(isinstance(v, Integral) and not isinstance(v, bool) for v in segment[1:])
    return integers and segment[1] == end < segment[2]
