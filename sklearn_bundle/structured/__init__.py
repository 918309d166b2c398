"""Structured outputs: hinge loss and likelihood, by an oracle."""
