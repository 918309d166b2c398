"""Compiled functions of chains, on packed sequences."""
