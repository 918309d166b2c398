"""Scores of label sequences: tokens, whole sequences, and spans counted like conlleval."""

from sklearn_bundle.metrics._segments import segment_tags, segments
from sklearn_bundle.metrics._spans import (
    span_f1_score,
    span_f1_scorer,
    span_precision_recall_fscore_support,
    span_precision_score,
    span_precision_scorer,
    span_recall_score,
    span_recall_scorer,
    spans,
)
from sklearn_bundle.metrics._tokens import (
    flat_accuracy_score,
    flat_classification_report,
    flat_f1_score,
    flat_f1_scorer,
    flat_fbeta_score,
    flat_precision_score,
    flat_recall_score,
    sequence_accuracy_score,
    sequence_accuracy_scorer,
    token_accuracy_score,
    token_accuracy_scorer,
)

__all__ = [
    "flat_accuracy_score",
    "flat_classification_report",
    "flat_f1_score",
    "flat_f1_scorer",
    "flat_fbeta_score",
    "flat_precision_score",
    "flat_recall_score",
    "segment_tags",
    "segments",
    "sequence_accuracy_score",
    "sequence_accuracy_scorer",
    "span_f1_score",
    "span_f1_scorer",
    "span_precision_recall_fscore_support",
    "span_precision_score",
    "span_precision_scorer",
    "span_recall_score",
    "span_recall_scorer",
    "spans",
    "token_accuracy_score",
    "token_accuracy_scorer",
]
