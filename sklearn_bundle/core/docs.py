"""Documentation of estimators: entries that their docstrings share, and links to their pages.

A class that is decorated with :func:`fill_doc` names shared entries by markers, as in SciPy and
MNE. Each is written once, in the docstring of a base class, under its name in brackets::

    %(verbose)s                        the text under ``[verbose]`` in the docstring of a base
    %(random_state: the sampling)s     the same, with ``the sampling`` in place of its ``{}``
    %(SwapSVC.break_ties)s             an entry in the docstring of a base class
    %(SwapSVC.break_ties: As there.)s  its name, type and default, with the text ``As there.``

A marker stands on a line of its own. What follows it, further indented, continues the last entry
of the text; a text that ends in the middle of a sentence needs that. A text ends at an empty line.
"""

import inspect
import re
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from typing import ClassVar, TypeVar

Kind = TypeVar("Kind", bound=type)

_MARKER = re.compile(r"^( *)%\((?:(\w+)\.)?(\w+)(?:: (.+))?\)s$", re.MULTILINE)
_SHARED = re.compile(r"^\[(\w+)\]\n(.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
_PLACEHOLDER = "//example.org/"  # a host without pages, of projects that have none yet


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
        shared = shared_texts(cls)
        filled = _MARKER.sub(
            lambda marker: _text(cls, shared, marker), inspect.cleandoc(cls.__doc__)
        )
        if "%(" in filled:
            line = next(line for line in filled.splitlines() if "%(" in line)
            raise ValueError(f"{cls.__name__}: no marker on a line of its own: {line.strip()}")
        cls.__doc__ = filled + "\n"  # as if the closing quotes had a line of their own
    return cls


def shared_texts(cls: type) -> dict[str, str]:
    """The texts in the docstrings of a class and its bases, by name."""
    docs = [inspect.cleandoc(base.__doc__ or "") for base in cls.__mro__]
    return {name: text for doc in docs for name, text in _SHARED.findall(doc)}


def _text(cls: type, shared: dict[str, str], marker: re.Match[str]) -> str:
    indent, owner, name, argument = marker.groups()
    text = shared.get(name) if owner is None else _entry(cls, owner, name)
    if text and owner and argument:
        text = text.partition("\n")[0] + "\n    {}"
    if text is None or ("{}" in text) != (argument is not None):
        raise ValueError(f"{cls.__name__}: no text for the marker {marker[0].strip()}")
    text = text.replace("{}", argument or "")
    return "\n".join(indent + line for line in text.splitlines())


def _entry(cls: type, owner: str, name: str) -> str | None:
    """The entry of that name in the docstring of the base class of that name."""
    docs = [base.__doc__ or "" for base in cls.__mro__[1:] if base.__name__ == owner]
    found = re.search(rf"^{name} : .*(?:\n {{4}}.*)*", "".join(docs), re.MULTILINE)
    return found and found[0]


@cache  # reading the metadata takes some milliseconds
def project_url(label: str) -> str | None:
    """The address under this label of ``[project.urls]``; None for a placeholder, or if unknown."""
    try:
        entries = metadata("sklearn-bundle").get_all("Project-URL") or []
    except PackageNotFoundError:  # run from a checkout that nobody installed
        return None
    for entry in entries:
        name, _, url = entry.partition(", ")
        if name == label and _PLACEHOLDER not in url:
            return url
    return None


class Documented:
    """Links HTML representations to the API pages, as scikit-learn's estimators have it.

    It comes before ``BaseEstimator``, whose link it replaces. Without an address there is none.

    The entries that docstrings of estimators share, except those of linear models and of searches:

    [tol]
    tol : float, default={}
        Largest `relative_gap_` to accept, in (0, 1]. 1e-3 proves that the objective is within
        0.1 % of its minimum.

    [max_time]
    max_time : float, default=None
        Time limit in seconds, without compilation.

    [n_jobs]
    n_jobs : int, default=None
        Threads {}. None means 1.

    [n_jobs_exact]
    n_jobs : int, default=None
        Threads over {}, without effect on the result. None means 1.

    [random_state]
    random_state : int, RandomState instance or None, default=None
        Seed for {}.

    [verbose]
    verbose : int, default=0
        1 prints the progress.

    [class_weight]
    class_weight : dict or "balanced", default=None
        Factors on {} by class; "balanced" gives all classes the same total weight.

    [reg_lambda_]
    reg_lambda_ : float
        The `reg_lambda` that the fit used.

    [certificate]
    objective_, lower_bound_, dual_gap_ : float
        {} at the returned point, a lower bound of its minimum, and their difference.

    [convergence]
    converged_ : bool
        Whether `status_` is "converged".
    relative_gap_ : float
        ``dual_gap_ / abs(objective_)``.
    n_iter_ : int
        Number of iterations.
    status_ : str
        "converged", "max_iter", "max_time", "callback", "interrupted" or "stalled" (by rounding).

    [certificates]
    objective_, lower_bound_, dual_gap_ : float, or ndarray of shape (n_{},)
        J at the returned point, a lower bound of its minimum, and their difference.
    converged_ : bool
        Whether all {} have `status_` "converged".
    relative_gap_ : float
        The largest ``dual_gap_ / abs(objective_)``.
    n_iter_ : int, or ndarray of shape (n_{},)
        Number of iterations.
    status_ : str, or list of str
        "converged", "max_iter", "max_time", "callback", "interrupted" or "stalled" (by rounding).

    [history]
    history_ : structured ndarray of shape (`n_iter_`,)
        The fit by iterations: ``iteration``, ``seconds``, ``objective``, ``lower_bound``,
        ``passes`` ({}),

    [histories]
    history_ : structured ndarray, or list of them
        The fit by iterations: ``iteration``, ``seconds``, ``objective``, ``lower_bound``,
        ``passes`` over X,

    [features]
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, if X had string names.

    [invalid]
    ValueError
        For a parameter out of its range, NaN or infinity, negative or all-zero weights,

    [missed_tol]
    ConvergenceWarning
        If `max_iter`, `max_time` or rounding ended the fit above `tol`.

    [bmrm_paper]
    .. [{}] C. H. Teo et al.: Bundle methods for regularized risk minimization. Journal of Machine
       Learning Research 11, 2010.

    [kernel]
    kernel : {"rbf", "linear", "poly", "precomputed"} or callable, default="rbf"
        ``exp(-gamma ||x - z||^2)``; ``<x, z>``; ``(gamma <x, z> + coef0)^degree``; X is the matrix
        of kernel values; a callable maps (X, Z) to the array of shape (n_X, n_Z).
    gamma : {"scale", "auto", "distance"} or float, default="scale"
        For "rbf" and "poly": ``1 / (n_features X.var())``, ``1 / n_features``, or one over the
        mean of ``||x - z||^2`` over all pairs.
    degree : int, default=3
        Degree of "poly", at least 0.
    coef0 : float, default=0.0
        Constant of "poly", at least 0.

    [invalid_kernel]
    ValueError
        For a parameter out of its range, NaN or infinity, negative or all-zero weights, or a kernel
        that is not symmetric, not positive semidefinite or of the wrong shape.

    [swap_paper]
    .. [{}] H. Allende, E. Frandi, R. Nanculef, C. Sartori: A novel Frank-Wolfe algorithm. Analysis
       and applications to large-scale SVM training, 2013.

    [max_iter_kernel]
    max_iter : int, default=1000
        Maximum number of states: working sets or, of up to 2,048 rows, some thousand steps each.

    [cache_size_rows]
    cache_size : float, default=1000
        Memory for kernel values in MB; others are computed again when needed.

    [warm_start_function]
    warm_start : bool, default=False
        Whether the next fit on the same {} starts from this one.

    [machine]
    support_ : ndarray of shape (n_support,)
        Rows of X with a nonzero coefficient.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        These rows; empty for a precomputed kernel.
    n_support_ : ndarray of shape (1,)
        Their number.
    gamma_ : float
        The gamma used.
    shape_fit_ : tuple
        Shape of the training data.
    coef_ : ndarray or CSR of shape (1, n_features)
        w, for the linear kernel only; CSR if X was sparse.

    [sdca_paper]
    .. [{}] R. Le Priol et al.: Adaptive stochastic dual coordinate ascent for conditional random
       fields. Uncertainty in Artificial Intelligence, 2018.
    """

    _doc_link_module = "sklearn_bundle"
    _public_module: ClassVar[str] = "sklearn_bundle"  # of the pages; files have other names

    @property
    def _doc_link_template(self) -> str:
        root = project_url("Documentation")
        if root is None:
            return ""
        return f"{root.rstrip('/')}/generated/{self._public_module}.{{estimator_name}}.html"
