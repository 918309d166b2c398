"""Risks over structured outputs, and their duals."""
