"""Regularized risk minimization for linear models."""
