"""Linear models: losses, regularizers, rows, risks, certificates, solvers, estimators."""
