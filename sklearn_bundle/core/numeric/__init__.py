"""Numeric tools that several solvers share: searches, factorizations."""
