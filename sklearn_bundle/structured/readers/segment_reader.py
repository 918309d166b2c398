"""Reader of segmentations: sequences, and their segments with labels."""

from itertools import pairwise
from numbers import Integral
from reprlib import repr as short
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.chain.readers.packing import nature, sequences_in
from sklearn_bundle.chain.readers.sequences import (
    Sequences,
    check_labels,
    check_prediction_sequences,
    check_training_sequences,
)
from sklearn_bundle.core.parallel import split_threads
from sklearn_bundle.core.values import require_y, shown
from sklearn_bundle.structured.models.chain_structure import TokenRows, joined
from sklearn_bundle.structured.models.segment_layout import (
    Segmentation,
    SegmentWeights,
    TokenSegments,
    best_segments,
    by_tokens,
    segments_of,
    taken_apart,
)
from sklearn_bundle.structured.readers.structures import Array, Reader, Reading


class SegmentReader(Reader):
    """Sequences as in SDCACRF, each with a list of (label, start, stop)."""

    def read(self, estimator, X, y, sample_weight) -> Reading:
        segmentations = _checked(estimator, X, y)
        tokens = [by_tokens([segments])[0] for segments in segmentations]
        data = check_training_sequences(estimator, X, tokens, sample_weight, least_classes=1)
        _, sizes = by_tokens([segmentations[i] for i in data.kept])
        labels = data.labels.astype(np.int64, copy=False)
        return Reading(
            TokenRows(data.X, data.lengths, len(data.classes)),
            TokenSegments(labels, sizes, data.kept),
            data.weights,
            data.total,
            {"classes_": data.classes, **data.fitted},
            lambda: (data.fingerprint(), joblib.hash(sizes)),
        )

    def attributes(self, model, reading, w) -> dict[str, Any]:
        longest = int(model.max_lengths_.max())
        parts = taken_apart(w, reading.X.n_labels, longest, bool(model.boundaries))
        named = {f"{name}_": part for name, part in parts._asdict().items() if part.size}
        return named | super().attributes(model, reading, joined(parts))

    def predict(self, estimator, X) -> Any:
        sequences, found = _found(estimator, X)
        labels, bounds = estimator.classes_[found.labels].tolist(), sequences.starts.tolist()
        return [segments_of(labels[a:b], found.sizes[a:b]) for a, b in pairwise(bounds)]

    def losses(self, estimator, X, y) -> tuple[Array, Array]:
        segmentations = _checked(estimator, X, y)
        sequences, found = _found(estimator, X)
        tokens = [by_tokens([segments])[0] for segments in segmentations]
        true = check_labels(estimator, sequences, tokens).tolist()
        model, (_, sizes) = estimator.model_, by_tokens(segmentations)
        one, other = np.zeros((2, len(segmentations)))
        for i, (first, last) in enumerate(pairwise(sequences.starts.tolist())):
            if first == last:
                continue
            truth = segments_of(true[first:last], sizes[first:last])
            output = segments_of(found.labels[first:last].tolist(), found.sizes[first:last])
            one[i], other[i] = model.loss(truth, output), model.max_loss(truth)
        return one, other


def _found(estimator: BaseEstimator, X: Any) -> tuple[Sequences, TokenSegments]:
    """Checked sequences, and their best segmentations."""
    check_is_fitted(estimator)
    _refuse_plain(X)
    sequences = check_prediction_sequences(estimator, X)
    weights, model = _weights(estimator), estimator.model_
    _, n_threads = split_threads(estimator.n_jobs, 1)
    given = weights, model.max_lengths_, n_threads
    lengths = sequences.lengths[sequences.lengths > 0]
    return sequences, best_segments(sequences.X, lengths, *given)


def _weights(estimator: BaseEstimator) -> SegmentWeights:
    none: Array = np.empty((len(estimator.classes_), 0))
    ends = (estimator.first_, estimator.last_) if estimator.model_.boundaries else (none, none)
    pairs = estimator.transitions_, estimator.lengths_
    return SegmentWeights(estimator.coef_, *ends, *pairs, estimator.start_, estimator.end_)


def _refuse_plain(X: Any) -> None:
    if sequences_in(X) is None and nature(X) in ("list", "matrix"):
        raise ValueError(
            "X must be a list of sequences for a model of segments, got a 2-D X. One sequence is "
            "written [X]."
        )


def _checked(estimator: BaseEstimator, X: Any, y: Any) -> list[Segmentation]:
    """The segments of each sequence, which cover it; errors of X are raised elsewhere."""
    name = type(estimator).__name__
    require_y(f"This {name} estimator", y)
    _refuse_plain(X)
    if nature(y) != "list":
        raise TypeError(
            "y must be a list with a list of segments (label, start, stop) for each sequence of X, "
            f"got {short(y)} of type {type(y).__name__}."
        )
    y, sequences = list(y), sequences_in(X)
    if sequences is None:  # scikit-learn raises the error
        return []
    if len(sequences) != len(y):
        raise ValueError(
            f"X and y have inconsistent numbers of sequences: {len(sequences)} in X, {len(y)} in y."
        )
    return [
        _segments(i, x, segments) for i, (x, segments) in enumerate(zip(sequences, y, strict=True))
    ]


def _segments(i: int, x: Any, segments: Any) -> Segmentation:
    """The segments of sequence i, with Python's integers."""
    if nature(segments) not in ("list", "matrix"):
        raise ValueError(
            f"Sequence {i} of y must be a list of segments (label, start, stop), got "
            f"{short(segments)} of type {type(segments).__name__}."
        )
    checked, end = [], 0
    for segment in segments:
        is_triple = nature(segment) == "list" and len(segment) == 3
        if not (is_triple and all(map(_is_integer, segment[1:]))):
            raise ValueError(
                f"Sequence {i} of y must hold segments (label, start, stop), start and stop "
                f"integers, got {shown(segment)}."
            )
        label, start, stop = segment
        if start != end:
            what = "overlaps the one before" if start < end else "leaves a gap before it"
            raise ValueError(
                f"Sequence {i} of y has a segment that {what}: {shown(segment)} starts at {start}, "
                f"but must start at {end}. Segments follow one another from 0 on."
            )
        if stop <= start:
            raise ValueError(
                f"Sequence {i} of y has an empty segment, {shown(segment)}: stop must be above "
                "start."
            )
        checked.append((label, int(start), int(stop)))
        end = int(stop)
    length = _length(x)
    if length is not None and end != length:
        raise ValueError(
            f"Sequence {i} has {length} positions in X, but its segments in y end at {end}."
        )
    return checked


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _length(x: Any) -> int | None:
    """Number of positions of a sequence; None if it is not a sequence."""
    kind = nature(x)
    if kind == "matrix":
        return x.shape[0]
    return len(x) if kind == "list" else None
