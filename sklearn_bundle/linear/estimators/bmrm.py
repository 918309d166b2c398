"""Linear classification by bundle methods."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if

from sklearn_bundle.core.docs import fill_doc
from sklearn_bundle.core.estimator import Fit, Points, with_callbacks
from sklearn_bundle.core.parameters import POSITIVE, Names
from sklearn_bundle.core.validation import check_classification_data, check_prediction_data
from sklearn_bundle.core.values import is_collection
from sklearn_bundle.linear import losses
from sklearn_bundle.linear.blocks import check_blocks, lazily
from sklearn_bundle.linear.estimators.fitting import (
    MemoryData,
    checked_loss,
    loss_of,
    one_versus_rest,
    solve_problems,
)
from sklearn_bundle.linear.estimators.linear import (
    BundleEstimator,
    CertifiedLinear,
    LinearClassifier,
    best_thresholds,
    regions_of,
)
from sklearn_bundle.linear.regularizers import Regularizer
from sklearn_bundle.linear.solvers.choice import BUNDLES

_SOLVERS = "auto", *BUNDLES, "newton", "lbfgs", "dual-coordinate", "coordinate-descent"


def _has_probability(estimator: BMRMClassifier) -> bool:
    return loss_of(estimator).probability is not None


@fill_doc
class BMRMClassifier(BundleEstimator, LinearClassifier):
    """Linear classifier: a convex loss, a free intercept, and a certificate of the optimum.

    Take it for linear classification of any size, dense or sparse, also with costs of confusions,
    or to train for ROC area or F-beta. For several classes prefer "softmax" to the default. For
    kernels take :class:`SwapSVC`. With ``Omega(w) = ||w||^2 / 2`` by default it minimizes::

        J(w, b) = reg_lambda Omega(w) + sum_i s_i l(y_i, <w, x_i> + b)

    where s_i is sample times class weight, normalized to sum to one. Three or more classes are one
    problem per class, one-versus-rest, except with a joint loss.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "log_loss", "roc_auc", "fbeta", "multiclass_hinge", \
"softmax"} or loss, default="hinge"
        With the score f and y in {-1, +1}: ``max(0, 1 - y f)``; ``max(0, 1 - y f)^2 / 2``;
        ``log(1 + exp(-y f))``. In place of the sum, "roc_auc" is the mean of
        ``max(0, 1 - (f_i - f_j))`` over pairs of a positive i and a negative j, and "fbeta" is
        :class:`~sklearn_bundle.losses.FBeta`. The last two are joint: ``max_k f_k - f_y +
        Delta(y, k)``; ``log sum_k exp f_k - f_y``. Or an instance from
        :mod:`sklearn_bundle.losses`, or your own.
    %(reg_lambda)s
    %(mean_loss_C)s
        With "squared_hinge" it is twice the C of LinearSVC.
    %(regularizer)s
    %(l1_ratio)s
    %(positive: with losses that are not joint)s
    cost : array-like of shape (n_classes, n_classes), default=None
        For "multiclass_hinge": Delta(y, k) in row y, in the order of ``classes_``. None means 1.
    beta : float, default=1.0
        For "fbeta": recall counts beta times as much as precision.
    solver : {"auto", "newton", "lbfgs", "dual-coordinate", "coordinate-descent", "line-search", \
"cutting-plane"}, default="auto"
        "auto": by the loss, the regularizer and the shape of X.
        "coordinate-descent": L1 and elastic net; "squared_hinge", "log_loss".
        "lbfgs": L2 and Quadratic; the same losses and "softmax".
        "newton": L2 and Quadratic; a square matrix of the features; all these losses and "hinge".
        "dual-coordinate": L2; "hinge", "squared_hinge", "log_loss", "multiclass_hinge".
        "line-search": Algorithm 3 of [1]_, for everything.
        "cutting-plane": Algorithm 2 of [1]_, for comparison.
    %(tol: 1e-3)s
    max_iter : int, default=1000
        Maximum number of iterations per class.
    %(max_time)s
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalized.
    %(class_weight: the sample weights)s
    %(warm_start_planes: data, loss and regularizer)s
    %(n_jobs_exact: the classes or blocks of rows)s
    %(verbose)s

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights w.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts b.
    classes_ : ndarray of shape (n_classes,)
        The labels; the second of two is +1.
    %(reg_lambda_)s
    %(certificates: classes)s
    %(histories)s
        and ``solver``.
    %(features)s

    Raises
    ------
    %(invalid)s
        a single class, multilabel y, or weights, or a cost that the loss cannot take.

    Warns
    -----
    %(missed_tol)s
    UserWarning
        If w is 0, or for a parameter that nothing uses.

    See Also
    --------
    BMRMClassifierCV : Cross-validation over reg_lambda.
    bmrm_path : Many values of reg_lambda.

    Notes
    -----
    User guide: :ref:`classify`, :doc:`/user_guide/bmrm_solvers`.

    Losses: tables 5 and 6, appendices A.3, A.4 of [1]_. Bound: theorem 2, for L2 (10).

    References
    ----------
    %(bmrm_paper: 1)s

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sklearn_bundle import BMRMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BMRMClassifier(reg_lambda=1e-2).fit(scale(X), y)
    >>> model.status_
    'converged'
    """

    positive: bool
    cost: ArrayLike | None
    beta: float

    _losses = losses.BINARY_LOSSES | losses.MULTICLASS_LOSSES | losses.MEASURES
    _used_with = BundleEstimator._used_with | {
        "cost": ("loss", ("multiclass_hinge",)),
        "beta": ("loss", ("fbeta",)),
    }
    _loss_kinds = losses.BinaryLoss, losses.MulticlassLoss, losses.MeasureLoss
    _allowed: ClassVar[dict[str, Any]] = {
        **CertifiedLinear._common,
        "loss": [Names(_losses), *_loss_kinds],
        "solver": [Names(_SOLVERS)],
        "cost": ["array-like", None],
        "beta": [POSITIVE],
    }

    def __init__(
        self,
        loss: str | losses.Loss = "hinge",
        *,
        reg_lambda: float | None = None,
        C: float | None = None,
        regularizer: str | Regularizer = "l2",
        l1_ratio: float = 0.5,
        positive: bool = False,
        cost: ArrayLike | None = None,
        beta: float = 1.0,
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self._store(locals())

    @with_callbacks
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data. C-ordered arrays, and CSR whose indices are sorted, are used without a
            copy if they hold float32 or float64.
        y : array-like of shape (n_samples,)
            Labels of any type.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0. A weight of 2 counts as a repeated row, a weight of 0 as a missing one.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As listed for the class. Nothing is fitted then.
        """
        run = Fit(self, X, y, sample_weight=sample_weight)
        data = run.params._checked(X, y, sample_weight)
        fitted, results, caveat = solve_problems(run, run.params, data)
        return run.finish(fitted, results, caveat=caveat)

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """The checked data with their problems: one of a joint loss, else one per class."""
        in_blocks = is_collection(X)
        loss = checked_loss(self, in_blocks)
        if not loss.supports_weights and (sample_weight is not None or self.class_weight):
            name = "class_weight" if sample_weight is None else "sample_weight"
            raise ValueError(
                f"loss={self.loss!r} takes no weights, but {name} was given: {loss.weights_reason}."
            )
        if loss.joint and self.positive:
            raise ValueError(
                f"positive=True is for losses of two classes, but loss={self.loss!r} is one of all "
                "classes: its weights are known only up to what all classes share."
            )
        if in_blocks:
            blocked = check_blocks(self, X, y, sample_weight, "labels", self.class_weight)
            blocked.prepare([loss], self.loss)
            return blocked
        samples = check_classification_data(self, X, y, sample_weight, self.class_weight)
        n = samples.n_samples
        if loss.joint:
            targets, names = [losses.Target(samples.labels.astype(np.int64), n)], [""]
        else:
            signs, names = one_versus_rest(samples)
            targets = [losses.Target(y, n) for y in signs]
        prepared = [loss.prepare_target(target) for target in targets]
        return MemoryData(samples, prepared, self.n_jobs, names)

    def _attributes(self, data: Any, points: Points) -> dict[str, Any]:
        """Fitted attributes of the points of all problems."""
        loss, target = data.prepared[0]
        fitted = {"classes_": data.classes}
        if loss.joint:
            w, b = points[0]
            coef = w.reshape(loss.n_outputs(target), -1)
            intercept = np.array(np.broadcast_to(b, len(coef)))
            if len(coef) == 2:
                coef, intercept = np.diff(coef, axis=0), np.diff(intercept)
        else:
            coef = np.array([w for w, _ in points])
            intercept = np.array([np.ravel(b)[0] for _, b in points], dtype=np.float64)
            if loss.free_intercept is None and self.fit_intercept:
                intercept = self._thresholds(data, coef)
        return fitted | {"coef_": coef, "intercept_": intercept}

    def _thresholds(self, data: MemoryData, coef: np.ndarray) -> np.ndarray:
        """The intercept of the best training accuracy, for a loss without one.

        The accuracy is balanced, or weighted by class weights if there are any.
        """
        intercepts = []
        for (_, target), w in zip(data.prepared, coef, strict=True):
            positive = (target > 0.0).astype(np.intp)
            counts = data.weights
            if not self.class_weight:
                counts = counts / np.bincount(positive, counts)[positive]
            scores = safe_sparse_dot(data.samples.X, w, dense_output=True)
            intercepts.append(-best_thresholds(scores, positive, counts)[0])
        return np.array(intercepts)

    # ---- predictions, and bounds of those of the optimum ----------------------------------------

    @available_if(_has_probability)
    @lazily
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, with a loss that has them ("log_loss", "softmax").

        With "log_loss" and three or more classes the one-versus-rest probabilities are scaled to
        sum to one.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.

        Raises
        ------
        AttributeError
            If the loss has no probabilities.
        """
        scores, loss = self.decision_function(X), loss_of(self)
        assert loss.probability is not None
        if loss.joint:
            return loss.probability(_of_classes(scores))
        positive = loss.probability(scores)
        if positive.ndim == 1:
            return np.column_stack([1.0 - positive, positive])
        total = positive.sum(axis=1, keepdims=True)
        return np.where(total > 0.0, positive, 1.0) / np.where(
            total > 0.0, total, positive.shape[1]
        )

    @available_if(_has_probability)
    @lazily
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the class probabilities, finite even if a probability is 0.

        Like :meth:`predict_proba`. A loss of your own without ``log_probability`` gets the
        logarithm of its probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.

        Raises
        ------
        AttributeError
            If the loss has no probabilities.
        """
        loss = loss_of(self)
        if loss.log_probability is None:
            with np.errstate(divide="ignore"):
                return np.log(self.predict_proba(X))
        scores = self.decision_function(X)
        if loss.joint:
            return loss.log_probability(_of_classes(scores))
        if scores.ndim == 1:
            return np.column_stack([loss.log_probability(-scores), loss.log_probability(scores)])
        return log_softmax(loss.log_probability(scores), axis=1)

    def _intervals(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Of classes also for a joint loss; an intercept that was chosen after the fit counts."""
        loss = loss_of(self)
        if not loss.joint:
            low, high = super()._intervals(X)
            chosen = self.intercept_ if loss.free_intercept is None else 0.0
            return low + chosen, high + chosen
        (region,) = regions_of(self)
        region = region.difference if len(self.classes_) == 2 else region
        return region.intervals(check_prediction_data(self, X))

    def _possible(self, X: Any) -> np.ndarray:
        if not loss_of(self).joint or len(self.classes_) == 2:
            return super()._possible(X)
        (region,) = regions_of(self)
        return region.may_be_largest(check_prediction_data(self, X))


def _of_classes(scores: np.ndarray) -> np.ndarray:
    """Scores of all classes, where those of two may be their difference."""
    return np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores
