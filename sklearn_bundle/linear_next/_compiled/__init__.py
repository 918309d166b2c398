"""Compiled loops of the linear family."""
