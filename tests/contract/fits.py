"""Fits that may miss their tol."""

import warnings

from sklearn.exceptions import ConvergenceWarning


def quiet(model, *data, **further):
    """Fit without the warning of a miss; others come through."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*data, **further)
