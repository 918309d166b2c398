"""Kernels, their values, and how far rounding may move these."""
