"""Conditional random fields on chains."""
