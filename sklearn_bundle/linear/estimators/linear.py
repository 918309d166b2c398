"""What all linear models have: parameters, scores, bounds of the optimum's scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.core.contract import Status
from sklearn_bundle.core.estimator import Certificates, CertifiedEstimator
from sklearn_bundle.core.optimum import (
    CertainClassifier,
    ClassifierMixin,
    SparseCoefMixin,
    known_regions,
)
from sklearn_bundle.core.parameters import OF_FITS, POSITIVE, Interval, Names
from sklearn_bundle.core.validation import check_prediction_data
from sklearn_bundle.core.values import is_collection
from sklearn_bundle.linear.blocks import lazily, lazy_accuracy
from sklearn_bundle.linear.estimators.bounds import ScoreRegion
from sklearn_bundle.linear.estimators.fitting import BY_NAME
from sklearn_bundle.linear.losses import Loss
from sklearn_bundle.linear.regularizers import REGULARIZERS, Regularizer
from sklearn_bundle.linear.solvers.choice import BUNDLES


class CertifiedLinear(SparseCoefMixin, CertifiedEstimator):
    """The parameters of all linear models, and scores.

    Entries that docstrings share:

    [reg_lambda]
    reg_lambda : float, default=None
        Regularization strength relative to the mean loss: try 1e-1 to 1e-5; larger is simpler. None
        means 1e-4, unless C is set.

    [mean_loss_C]
    C : float, default=None
        In place of `reg_lambda`: ``C = 1 / (W reg_lambda)``, with W the sum of the weights, n
        without any.
    """

    reg_lambda: float | None = None  # a parameter, except of searches
    C: float | None = None  # a parameter of some
    fit_intercept: bool

    reg_lambda_: float | NDArray[np.float64]
    coef_: NDArray[np.float64]  # after sparsify a CSR matrix, which the annotation omits
    intercept_: float | NDArray[np.float64]

    #: What the parameters may be that several of them have.
    _common: ClassVar[dict[str, list[Any]]] = {
        **OF_FITS,
        "reg_lambda": [POSITIVE, None],
        "C": [POSITIVE, None],
        "fit_intercept": ["boolean"],
        "positive": ["boolean"],
        "class_weight": [Names({"balanced"}), dict, None],
        "regularizer": [Names(BY_NAME), Regularizer],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "solver": [Names({"auto", *BUNDLES})],
    }
    _advice: ClassVar[dict[Status, str]] = {
        Status.MAX_ITER: "Increase max_iter or tol, or reg_lambda; scaling the features helps too.",
        Status.MAX_TIME: "Increase max_time or tol, or reg_lambda.",
        Status.STALLED: "Rounding prevents further progress: center the features and scale them to "
        "similar sizes, or increase tol or reg_lambda.",
    }

    def _products(self, X: Any) -> np.ndarray:
        """``X coef_'``, whether the coefficients are sparse or not."""
        check_is_fitted(self)
        X = check_prediction_data(self, X)
        products = safe_sparse_dot(X, self.coef_.T, dense_output=True)
        return products.ravel() if self._has_vector() else products

    def _has_vector(self) -> bool:
        """Whether ``coef_`` of the fitted model has shape (n_features,)."""
        return False

    def _intervals(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bounds of the scores, of shape (n_samples, n_outputs), one problem after the other."""
        regions, X = regions_of(self), check_prediction_data(self, X)
        lows, highs = zip(*[region.intervals(X) for region in regions], strict=True)
        return np.concatenate(lows, axis=1), np.concatenate(highs, axis=1)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def regions_of(model: Any) -> list[ScoreRegion]:
    """Where the scores of the optimum lie, by problem; ValueError says what the fit lacks."""
    why = (
        "that takes a strongly convex regularizer (as 'l2', 'elasticnet' or Quadratic), rows "
        "in memory, and an intercept that is minimized for each row's own loss, 'softmax' "
        f"included, or fit_intercept=False. Here it is {model!r}."
    )
    return known_regions(model, ScoreRegion, why)


class BundleEstimator(CertifiedLinear):
    """A subclass defines the table of its losses and their parameters.

    Entries that docstrings share:

    [regularizer]
    regularizer : {"l2", "l1", "elasticnet"} or Regularizer, default="l2"
        Omega; see :mod:`sklearn_bundle.regularizers`.

    [l1_ratio]
    l1_ratio : float, default=0.5
        For "elasticnet", in [0, 1]: Omega is ``l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2``.

    [positive]
    positive : bool, default=False
        Whether to minimize over ``w >= 0``, {}.

    [solver_line_search]
    solver : {"auto", "line-search", "cutting-plane"}, default="auto"
        Algorithm 3 or 2 of [1]_; the latter is for comparison only. "auto" is the former.

    [max_iter_products]
    max_iter : int, default=1000
        Maximum number of iterations. Each is one product with X and one with X'.

    [warm_start_planes]
    warm_start : bool, default=False
        Whether the next fit with the same {} starts from this one.
    """

    loss: str | Loss
    regularizer: str | Regularizer
    l1_ratio: float
    solver: str

    _unit: ClassVar[str] = "class"  # what has a problem of its own
    #: Factories of losses, by name.
    _losses: Mapping[str, Callable[..., Loss]]
    #: Parameters of losses whose default None is this many times the spread of y.
    _in_spreads: ClassVar[dict[str, float]] = {}
    #: Classes of losses that may be passed as an instance.
    _loss_kinds: ClassVar[tuple[type[Loss], ...]] = ()

    #: Also for each parameter of losses the names of these.
    _used_with = {  # noqa: RUF012
        "l1_ratio": ("regularizer", ("elasticnet",)),
    }

    @property
    def penalty(self) -> str:
        """The name of the regularizer under scikit-learn's name; not a parameter.

        :class:`~sklearn.feature_selection.SelectFromModel` reads it: with "l1" it keeps features
        with an absolute coefficient of at least 1e-5, otherwise of at least the mean. The elastic
        net with ``l1_ratio=1`` and :class:`~sklearn_bundle.regularizers.WeightedL1` are "l1".
        """
        given = self.regularizer
        if isinstance(given, str):
            return "l1" if given == "elasticnet" and self.l1_ratio == 1 else given
        form = given.lasso_form
        names = {kind: name for name, kind in REGULARIZERS.items()}
        is_l1 = form is not None and form.ridge == 0.0
        return "l1" if is_l1 else names.get(type(given), type(given).__name__)


class LinearClassifier(CertainClassifier, ClassifierMixin, Certificates, CertifiedLinear):
    """Labels by the largest score, of which two classes have one."""

    class_weight: dict[Any, float] | str | None

    classes_: np.ndarray
    intercept_: NDArray[np.float64]

    @abstractmethod
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model."""

    def _bounds(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        low, high = self._intervals(X)
        return (low.ravel(), high.ravel()) if low.shape[1] == 1 else (low, high)

    def _possible(self, X: Any) -> NDArray[np.bool_]:
        low, high = self._intervals(X)
        if low.shape[1] == 1:
            return np.column_stack([low[:, 0] <= 0.0, high[:, 0] > 0.0])
        return high >= low.max(axis=1, keepdims=True)

    @lazily
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores ``<w, x> + b``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            With two classes, positive if the second class is predicted.
        """
        scores = self._products(X) + self.intercept_
        return scores.ravel() if scores.shape[1] == 1 else scores

    @lazily
    def predict(self, X: Any) -> np.ndarray:
        """Labels with the largest score.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Elements of ``classes_``.
        """
        scores = self.decision_function(X)
        indices = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[indices]

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Any:
        """Accuracy of the predictions; for dask collections, a dask array that is not computed yet.

        Parameters
        ----------
        X : array-like, sparse matrix or dask collection of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        score : float, or dask array of shape ()
            Between 0 and 1.
        """
        if is_collection(X):
            return lazy_accuracy(self.predict, X, y, sample_weight)
        return super().score(X, y, sample_weight)


def best_thresholds(
    scores: NDArray[np.float64], grades: NDArray[np.intp], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Thresholds theta_1 <= ... of grades 0..K-1; grade k is predicted if k of them are below f.

    Each minimizes the weight of grades on its wrong side; together they minimize the weighted mean
    absolute error. They are midpoints between two scores, or one unit outside if all scores are on
    one side.
    """
    order = np.argsort(scores, kind="stable")
    scores, grades, weights = scores[order], grades[order].astype(np.intp), weights[order]
    last = np.r_[scores[1:] > scores[:-1], True]  # a threshold may follow
    values = scores[last]
    cuts = np.r_[values[0] - 1.0, 0.5 * (values[1:] + values[:-1]), values[-1] + 1.0]
    thresholds = []
    for k in range(1, grades.max() + 1):
        # a threshold after sample i is wrong for high grades up to i and low grades after it
        gain = np.r_[0.0, np.cumsum(np.where(grades < k, -weights, weights))[last]]
        thresholds.append(cuts[np.argmin(gain)])
    return np.maximum.accumulate(np.array(thresholds))
