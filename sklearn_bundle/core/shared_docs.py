"""Entries that the docstrings of several estimators share: each is written once, here.

A class that is decorated with :func:`fill_doc` names them by markers, as in SciPy and MNE::

    %(verbose)s                        the text of that name below
    %(random_state: the sampling)s     the same, with ``the sampling`` in place of its ``{}``
    %(SwapSVC.break_ties)s             an entry in the docstring of a base class

A marker stands on a line of its own. What follows it, further indented, continues the last entry
of the text; a text that ends in the middle of a sentence needs that.
"""

import inspect
import re
from collections.abc import Mapping
from typing import TypeVar

Kind = TypeVar("Kind", bound=type)

_MARKER = re.compile(r"^( *)%\((?:(\w+)\.)?(\w+)(?:: (.+))?\)s$", re.MULTILINE)

TEXTS: Mapping[str, str] = {
    # Parameters of fits
    "tol": """
tol : float, default={}
    Relative duality gap to reach, in (0, 1]: ``dual_gap_ <= tol * abs(objective_)``. With 1e-3
    the objective is proved to be within 0.1 % of its minimum, with 1e-2 within 1 %.
""",
    "max_time": """
max_time : float, default=None
    Time limit in seconds for {} without compilation, checked between iterations.
    None means no limit.
""",
    "n_jobs": """
n_jobs : int, default=None
    Threads {}.
    None means 1 outside of a joblib context.
""",
    "random_state": """
random_state : int, RandomState instance or None, default=None
    Seed for {}.
""",
    "verbose": """
verbose : int, default=0
    1 prints the progress, in at most four lines per second.
""",
    "class_weight": """
class_weight : dict or "balanced", default=None
    Factors on {} by class. "balanced" gives all classes the same total
    weight, sample weights included.
""",
    "reg_lambda_": """
reg_lambda_ : float
    The `reg_lambda` that the fit used.
""",
    # The certificate of one problem, or of several
    "certificate": """
objective_, lower_bound_, dual_gap_ : float
    {} at the returned point, a lower bound of its minimum, and their difference.
""",
    "convergence": """
converged_ : bool
    Whether `status_` is "converged".
relative_gap_ : float
    ``dual_gap_ / abs(objective_)``: what `tol` limits.
n_iter_ : int
    Number of iterations, in the unit of `max_iter`.
status_ : str
    "converged", "max_iter", "max_time", "callback", "interrupted", or "stalled" (rounding
    prevents further progress).
""",
    "certificates": """
objective_ : float, or ndarray of shape (n_{},)
    J at the returned point. If there are several problems, this and the following attributes
    have one entry for each.
lower_bound_ : float, or ndarray of shape (n_{},)
    Lower bound of the minimum of J.
dual_gap_ : float, or ndarray of shape (n_{},)
    ``objective_ - lower_bound_``.
converged_ : bool
    Whether `status_` is "converged", for all {}.
relative_gap_ : float
    ``dual_gap_ / abs(objective_)``, the largest of all {}: what `tol` limits.
n_iter_ : int, or ndarray of shape (n_{},)
    Number of iterations, in the unit of `max_iter`.
status_ : str, or list of str
    "converged", "max_iter", "max_time", "callback", "interrupted", or "stalled" (rounding
    prevents further progress).
""",
    "history": """
history_ : structured ndarray of shape (`n_iter_`,)
    Fields ``iteration``, ``seconds``, ``objective``, ``lower_bound``, ``passes`` ({}),
""",
    "histories": """
history_ : structured ndarray of shape (`n_iter_`,), or list of them
    Fields ``iteration``, ``seconds``, ``objective``, ``lower_bound``, ``passes`` (products
    with X or X' so far),
""",
    "features": """
n_features_in_ : int
    Number of features.
feature_names_in_ : ndarray of shape (`n_features_in_`,)
    Names of the features, if X had string names.
""",
    # Errors and warnings
    "invalid": """
ValueError
    Before anything is fitted: for a parameter out of its range, NaN or infinity, negative or
    all-zero weights,
""",
    "missed_tol": """
ConvergenceWarning
    If `max_iter`, `max_time` or rounding ended the fit above `tol`.
""",
    # Linear models
    "reg_lambda": """
reg_lambda : float, default=None
    Regularization strength relative to the mean loss: it does not scale with n as C does. None
    means 1e-4, unless C is set.
""",
    "mean_loss_C": """
C : float, default=None
    Another way to set the strength: `reg_lambda_` is ``1 / (C sum_i v_i)``, with v_i the sample
    weight, times the class weight if there is one, before they are normalized; the sum is n
    without weights. The model then minimizes ``{} + C sum_i v_i l_i``;
    `objective_` and the bound remain those of J, which is this divided by ``C sum_i v_i``.
    Setting both is an error.
""",
    "regularizer": """
regularizer : {"l2", "l1", "elasticnet", "lp", "entropy", "entropy_simplex"} or Regularizer, \
default="l2"
    Omega; see :mod:`sklearn_bundle.regularizers`. "quadratic" is passed as an instance.
""",
    "l1_ratio": """
l1_ratio : float, default=0.5
    For "elasticnet": Omega is ``l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2``, between 0 and 1.
""",
    "solver_line_search": """
solver : {"auto", "line-search", "cutting-plane"}, default="auto"
    Algorithm 3 or 2 of [1]_; the latter is for comparison only. "auto" is the former.
""",
    "bundle_size": """
bundle_size : int, default=None
    Maximum number of planes to keep, at least 2, with L1 at least 10; None keeps all.
""",
    "theta": """
theta : float, default=0.1
    For "line-search": the next plane is cut at ``(1 - theta) best + theta w_t``, in (0, 1].
""",
    "max_iter_products": """
max_iter : int, default=1000
    Maximum number of iterations. Each is one product with X and one with X'.
""",
    "warm_start_planes": """
warm_start : bool, default=False
    Whether to keep the planes and start from them when the next fit has the same
    {}.
    reg_lambda, tol and the solver may differ. If only `max_iter`, `max_time`, `n_jobs` or
    `verbose` does, the fit continues with the next iteration; a fit that has reached `tol` is
    kept.
""",
    "n_jobs_exact": """
n_jobs : int, default=None
    Threads over {}.
    The result does not depend on it, to the last bit. None means 1 outside of a joblib context.
""",
    # Kernel machines
    "kernel": """
kernel : {"rbf", "linear", "poly", "precomputed"} or callable, default="rbf"
    ``exp(-gamma ||x - z||^2)``; ``<x, z>``; ``(gamma <x, z> + coef0)^degree``; X is the matrix
    of kernel values; a callable takes (X, Z) and returns the array of shape (n_X, n_Z). It must
    be positive semidefinite, unlike "sigmoid".
gamma : {"scale", "auto", "distance"} or float, default="scale"
    For "rbf" and "poly". ``1 / (n_features X.var())``, ``1 / n_features``, or one over the
    mean of ``||x - z||^2`` over all pairs. Sample weights count in "scale" and "distance".
degree : int, default=3
    Degree of "poly", at least 0.
coef0 : float, default=0.0
    Constant term of "poly", at least 0; 0 makes it homogeneous.
""",
    "max_iter_kernel": """
max_iter : int, default=1000
    Maximum number of iterations. Each takes one product with the kernel matrix.
""",
    "cache_size_factors": """
cache_size : float, default=1000
    Memory in MB, half for kernel values in single precision, half for factors of the kernel
    matrix. If not all values fit, products recompute them by blocks.
""",
    "warm_start_function": """
warm_start : bool, default=False
    Whether to keep the last function and dual point and start from them when the next fit has
    the same {} may differ. If nothing else
    has changed, the fit continues; a fit that has reached `tol` is kept.
""",
    "machine": """
support_ : ndarray of shape (n_support,)
    Indices of the rows of X with a nonzero coefficient.
support_vectors_ : ndarray or CSR of shape (n_support, n_features)
    These rows; empty for a precomputed kernel.
n_support_ : ndarray of shape (1,)
    Their number.
gamma_ : float
    The gamma used.
shape_fit_ : tuple
    Shape of the training data.
coef_ : ndarray or CSR of shape (1, n_features)
    w, for the linear kernel only. Like `dual_coef_`, CSR if X was sparse.
""",
    "invalid_kernel": """
ValueError
    Before anything is fitted: for a parameter out of its range, NaN or infinity, negative or
    all-zero weights, a kernel matrix that is not square, a callable whose result has the wrong
    shape, a kernel that is not symmetric or not positive semidefinite.
""",
    # Searches
    "search_tol": """
tol : float, default={}
    Relative duality gap of every fit, in (0, 1]: ``dual_gap_ <= tol * abs(objective_)``. With
    1e-3 the objective is proved to be within 0.1 % of its minimum, with 1e-2 within 1 %.
""",
    "search_max_iter": """
max_iter : int, default={}
    Maximum number of iterations of every fit.
""",
    "search_max_time": """
max_time : float, default=None
    Time limit in seconds for the whole search without compilation, checked between
    iterations. None means no limit. At least a fifth is for the final fit, and the folds share
    the others. A fit that the limit ends has no score, nor have the values after it. The choice
    is among the values with a score on every fold or, if there is none, on the most folds; a
    warning says so.
""",
    "search_verbose": """
verbose : int, default=0
    1 prints one line per fold and, within long fits, up to four lines per second.
""",
    "reg_lambdas": """
reg_lambdas : int or array-like of shape (n_lambdas,), default=None
    Positive values, or their number: they are then equally spaced on a logarithmic scale.
""",
    "eps_and_Cs": """
eps : float, default=None
    Ratio of the smallest value to the largest, if `reg_lambdas` holds no values. None means
    1e-3 with L1 and the elastic net, otherwise 1e-6.
Cs : int or array-like of shape (n_Cs,), default=None
    In place of `reg_lambdas`: values of the C of :class:`{}`, or their number, then
    equally spaced on a logarithmic scale from 1e-3 to 1e3. In a fold `reg_lambda` is one over C
    times the sum of its weights, as in a grid search over C. Setting both is an error.
""",
    "Cs": """
Cs : int or array-like of shape (n_Cs,), default=7
    Positive values of C, or their number: they are then equally spaced on a logarithmic scale
    from 1e-3 to 1e3.
""",
    "cv": """
cv : int, cross-validation generator, iterable or None, default=None
    Folds. None and an integer mean {} folds (5 by default) of the samples with a
    positive weight. Other splitters get all samples; those without weight are then left out of
    the folds.
""",
    "scoring": """
scoring : str, callable or None, default=None
    As in :class:`~sklearn.model_selection.GridSearchCV`. Sample weights count unless it is a
    callable. None means
""",
    "best_reg_lambda": """
reg_lambda_ : float
    The value with the largest mean score; of equal scores, the largest value. If it is the
    smallest or the largest of `reg_lambdas_`, a warning says so.
reg_lambdas_ : ndarray of shape (n_lambdas,)
    All values, descending.
""",
    "best_C": """
C_ : float
    The C with the largest mean score; of equal scores, the smallest C. If it is the smallest or
    the largest of `Cs_`, a warning says so.
Cs_ : ndarray of shape (n_Cs,)
    All values, ascending.
""",
    "scores": """
scores_ : ndarray of shape (n_folds, {})
    Score of every fold and value.
mean_test_scores_ : ndarray of shape ({},)
    Mean scores over the folds.
cv_results_ : dict
    The same under the names of :class:`~sklearn.model_selection.GridSearchCV`, with an entry
    for each value: "mean_fit_time", "std_fit_time", "param_C" or "param_reg_lambda", "params",
    "split0_test_score" and so on, "mean_test_score", "std_test_score", "rank_test_score". Times
    are seconds; a fit that starts from the one before takes less than a separate fit.
""",
    "search_warnings": """
ConvergenceWarning
    If the final fit ended above `tol`.
UserWarning
    If the choice is at an end of the values and better than its neighbor, or if
    `max_time` ended the search.
""",
    # Papers
    "bmrm_paper": """
.. [{}] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
   risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.
""",
    "swap_paper": """
.. [{}] H. Allende, E. Frandi, R. Nanculef, C. Sartori: A novel Frank-Wolfe algorithm. Analysis
   and applications to large-scale SVM training, 2013.
""",
    "sdca_paper": """
.. [{}] R. Le Priol, A. Piché, S. Lacoste-Julien: Adaptive stochastic dual coordinate ascent for
   conditional random fields. Uncertainty in Artificial Intelligence, 2018.
""",
}


def fill_doc(cls: Kind) -> Kind:
    """Replace the markers in the docstring of a class by the texts that they stand for.

    Parameters
    ----------
    cls : type
        A class, which is changed.

    Returns
    -------
    cls : type
        The same class.

    Raises
    ------
    ValueError
        For a marker without a text or with an argument too many or too few, and for what only
        looks like a marker.
    """
    if cls.__doc__ is not None:  # as under python -OO
        filled = _MARKER.sub(lambda marker: _text(cls, marker), inspect.cleandoc(cls.__doc__))
        if "%(" in filled:
            line = next(line for line in filled.splitlines() if "%(" in line)
            raise ValueError(f"{cls.__name__}: no marker on a line of its own: {line.strip()}")
        cls.__doc__ = filled + "\n"  # as if the closing quotes had a line of their own
    return cls


def _text(cls: type, marker: re.Match[str]) -> str:
    indent, owner, name, argument = marker.groups()
    text = TEXTS.get(name) if owner is None else _entry(cls, owner, name)
    if text is None or ("{}" in text) != (argument is not None):
        raise ValueError(f"{cls.__name__}: no text for the marker {marker[0].strip()}")
    text = text.strip().replace("{}", argument or "")
    return "\n".join(indent + line for line in text.splitlines())


def _entry(cls: type, owner: str, name: str) -> str | None:
    """The entry of that name in the docstring of the base class of that name."""
    docs = [base.__doc__ or "" for base in cls.__mro__[1:] if base.__name__ == owner]
    found = re.search(rf"^{name} : .*(?:\n {{4}}.*)*", "".join(docs), re.MULTILINE)
    return found and found[0]
