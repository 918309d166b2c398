"""Estimators of the linear family."""
