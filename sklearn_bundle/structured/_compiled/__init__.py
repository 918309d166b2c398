"""Compiled oracles, expectations and steps over outputs."""
