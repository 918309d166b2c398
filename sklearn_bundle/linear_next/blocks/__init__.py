"""Rows in blocks on the workers of a cluster."""
