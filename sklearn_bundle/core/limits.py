"""Limits that many modules share."""

TINY = 1e-300  # replaces 0 in quotients and logarithms
