"""Compiled functions on plain arrays and scalars; no classes, no scikit-learn."""
