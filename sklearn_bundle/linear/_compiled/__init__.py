"""Compiled functions of the linear family, on plain arrays."""
