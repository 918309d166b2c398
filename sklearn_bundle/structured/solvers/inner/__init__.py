"""Subproblems of one example, or of all in turn."""
