"""SwapSVC and SwapSVR with C, or C and gamma, chosen by cross-validation."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.core.docs import fill_doc
from sklearn_bundle.core.validation import ClassificationData, RegressionData
from sklearn_bundle.core.values import shown
from sklearn_bundle.kernel.estimators.search import KernelSearch, Steps, kernel_search_constraints
from sklearn_bundle.kernel.estimators.swap import SwapSVC, along_classes, classes_of, fit_classes
from sklearn_bundle.kernel.estimators.swap_svr import (
    SwapSVR,
    along_numbers,
    fit_numbers,
    numbers_of,
)


def _part_of_classes(samples: ClassificationData, train: NDArray[np.intp]) -> ClassificationData:
    labels, weights = samples.labels[train], samples.weights[train]
    missing = np.setdiff1d(np.arange(len(samples.classes)), labels)
    if len(missing):
        label = shown(samples.classes[missing[0]])
        raise ValueError(
            f"The class {label} has no sample in the training part of a fold of cv: use "
            "stratified or fewer folds."
        )
    return replace(samples, labels=labels, weights=weights, left=None)


def _part_of_numbers(samples: RegressionData, train: NDArray[np.intp]) -> RegressionData:
    return replace(samples, weights=samples.weights[train], y=samples.y[train], left=None)


@fill_doc
class SwapSVCCV(KernelSearch, SwapSVC):
    """:class:`SwapSVC` that chooses C, or C and gamma, by cross-validation.

    Take it in place of a grid search. All pairs of classes and all C of a fold are solved together,
    or each fit starts from the one with the next smaller C; see :doc:`/user_guide/kernels`. Then
    the best values fit all data.
    gamma="scale" and "distance" and balanced class weights are computed from all data, not from
    each training part.

    Parameters
    ----------
    %(Cs)s
    %(gammas)s
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        "hinge" is what :class:`~sklearn.svm.SVC` minimizes.
    %(cv: stratified)s
    %(scoring)s
        accuracy.
    %(kernel)s
    %(search_tol: 1e-2)s
    max_iter : int, default=1000000
        Maximum number of working sets of every fit, per pair of classes.
    %(search_max_time)s
    %(search_cache_size)s
    %(SwapSVC.class_weight)s
    %(SwapSVC.decision_function_shape)s
    %(SwapSVC.break_ties)s
    %(n_jobs: over the folds, and in the final fit)s
    %(random_state: all fits)s
    %(search_verbose)s

    Attributes
    ----------
    %(best_C_and_gamma)s
    classes_, support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_, objective_, \
lower_bound_, dual_gap_, converged_, relative_gap_, n_iter_, status_, history_, \
n_features_in_, feature_names_in_, shape_fit_
        Of the final fit, as in :class:`SwapSVC`.

    Raises
    ------
    ValueError
        As in :class:`SwapSVC`, for Cs and gammas that are not positive, gammas beside a gamma or
        with a kernel that has none, and a class that is missing in a training part.

    Warns
    -----
    %(search_warnings)s

    See Also
    --------
    SwapSVC : With a given C; describes the objective and has the references.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_bundle import SwapSVCCV
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SwapSVCCV(Cs=[1, 10], gammas=[1e-4, 1e-3, 1e-2], loss="hinge", cv=3)
    >>> model.fit(X[:600], y[:600] % 2).mean_test_scores_.shape
    (2, 3)
    >>> model.C_, model.gamma_
    (10.0, 0.001)
    """

    _kind = SwapSVC
    _allowed: ClassVar[dict[str, Any]] = kernel_search_constraints(SwapSVC)
    _steps = Steps(classes_of, _part_of_classes, along_classes, fit_classes)

    def __init__(
        self,
        Cs: Any = 7,
        *,
        gammas: Any = None,
        loss: str = "squared_hinge",
        cv: Any = None,
        scoring: Any = None,
        kernel: Any = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-2,
        max_iter: int = 1_000_000,
        max_time: float | None = None,
        cache_size: float = 1000,
        class_weight: dict[Any, float] | str | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self._store(locals())


@fill_doc
class SwapSVRCV(KernelSearch, SwapSVR):
    """:class:`SwapSVR` that chooses C, or C and gamma, by cross-validation.

    Take it in place of a grid search. Kernel values are used for all values of C, and each
    fit starts from the one with the next smaller C; see :doc:`/user_guide/kernels`. Then the model
    is fitted to all data with the best values. gamma="scale" and "distance" are computed from all
    data, not from each training part. To search over epsilon too, put
    :class:`~sklearn.model_selection.GridSearchCV` around this estimator.

    Parameters
    ----------
    %(Cs)s
    %(gammas)s
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        "epsilon_insensitive" is what :class:`~sklearn.svm.SVR` minimizes.
    %(cv: consecutive)s
    %(scoring)s
        R^2.
    %(SwapSVR.epsilon)s
        In a fold it is that of its own y.
    %(kernel)s
    %(search_tol: 1e-2)s
    %(search_max_iter: 1000)s
    %(search_max_time)s
    %(search_cache_size)s
    %(n_jobs: over the folds, and of BLAS in the final fit)s
    %(random_state: the final fit)s
    %(search_verbose)s

    Attributes
    ----------
    %(best_C_and_gamma)s
    support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_, epsilon_, \
objective_, lower_bound_, dual_gap_, converged_, relative_gap_, n_iter_, status_, history_, \
n_features_in_, feature_names_in_, shape_fit_
        Of the final fit, as in :class:`SwapSVR`.

    Raises
    ------
    ValueError
        As in :class:`SwapSVR`, for Cs and gammas that are not positive, and for gammas beside a
        gamma or with a kernel that has none.

    Warns
    -----
    %(search_warnings)s
        For the final fit as in :class:`SwapSVR`.

    See Also
    --------
    SwapSVR : With a given C; describes the objective and has the references.
    SwapSVCCV : The same for labels.

    Notes
    -----
    User guide: :ref:`kernels`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from sklearn_bundle import SwapSVRCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SwapSVRCV(Cs=[0.01, 0.1, 1, 10], cv=3).fit(scale(X), scale(y))
    >>> model.scores_.shape, float(model.C_)
    ((3, 4), 1.0)
    """

    _kind = SwapSVR
    _allowed: ClassVar[dict[str, Any]] = kernel_search_constraints(SwapSVR)
    _steps = Steps(numbers_of, _part_of_numbers, along_numbers, fit_numbers)

    def __init__(
        self,
        Cs: Any = 7,
        *,
        gammas: Any = None,
        loss: str = "epsilon_insensitive",
        cv: Any = None,
        scoring: Any = None,
        epsilon: float | None = None,
        kernel: Any = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-2,
        max_iter: int = 1000,
        max_time: float | None = None,
        cache_size: float = 1000,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self._store(locals())
