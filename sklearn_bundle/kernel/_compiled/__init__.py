"""Compiled functions of kernel machines, on plain arrays."""
