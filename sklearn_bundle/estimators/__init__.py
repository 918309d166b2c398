"""Estimators in scikit-learn's terms: parameters, checks, labels, fitted attributes, callbacks."""
