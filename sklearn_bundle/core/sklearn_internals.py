"""Parts of scikit-learn that are not its public interface, under one roof: a release may move them.

``tests/jit/test_internals.py`` holds their form, and names the versions they were last tried with.

Interval, Options, StrOptions, InvalidParameterError, validate_parameter_constraints
    Constraints of parameters as data, checked with scikit-learn's own messages; our estimators'
    ``_parameter_constraints`` and ``_validate_params`` rest on them. Without them:
    a class per kind of constraint and a loop over the parameters, about 100 lines.
num_samples
    The length of whatever a user passes as X, with scikit-learn's message if it has none. Without
    it: ``X.shape[0]`` or ``len(X)``, and that message.
safe_indexing
    Rows of arrays, sparse matrices, data frames and lists by their positions. Without it: a case
    for each of these, three lines.
ovr_decision_function
    Scores of classes from votes of pairs of classes, as those of :class:`~sklearn.svm.SVC`. Without
    it: its 30 lines.
SparseCoefMixin
    ``sparsify`` and ``densify`` of a linear model. Without it: four lines.
"""

from collections.abc import Callable
from typing import Any

from sklearn import utils
from sklearn.linear_model import _base
from sklearn.utils import _param_validation, multiclass, validation

# Assigned, since a type checker does not follow names through a library without types.
Interval = _param_validation.Interval
Options = _param_validation.Options
StrOptions = _param_validation.StrOptions
InvalidParameterError = _param_validation.InvalidParameterError
validate_parameter_constraints = _param_validation.validate_parameter_constraints
num_samples: Callable[[Any], int] = validation._num_samples
safe_indexing: Callable[..., Any] = utils._safe_indexing
ovr_decision_function: Callable[..., Any] = multiclass._ovr_decision_function
SparseCoefMixin = _base.SparseCoefMixin
