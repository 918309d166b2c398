"""Linear models by regularized risk minimization, with certificates."""
