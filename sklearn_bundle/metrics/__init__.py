"""Scores of label sequences: tokens, whole sequences, and spans counted like conlleval."""

from sklearn_bundle.metrics._scores import (
    flat_f1_scorer,
    sequence_accuracy_score,
    sequence_accuracy_scorer,
    span_classification_report,
    span_f1_score,
    span_f1_scorer,
    span_precision_recall_fscore_support,
    token_accuracy_score,
    token_accuracy_scorer,
)
from sklearn_bundle.metrics._spans import segment_tags, segments, spans

__all__ = [
    "flat_f1_scorer",
    "segment_tags",
    "segments",
    "sequence_accuracy_score",
    "sequence_accuracy_scorer",
    "span_classification_report",
    "span_f1_score",
    "span_f1_scorer",
    "span_precision_recall_fscore_support",
    "spans",
    "token_accuracy_score",
    "token_accuracy_scorer",
]
