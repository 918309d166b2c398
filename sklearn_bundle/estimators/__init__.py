"""scikit-learn's language: parameters, checks, labels, fitted attributes, callbacks."""
