"""Linear classification by bundle methods."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if

from sklearn_bundle.core.misread import is_collection
from sklearn_bundle.core.parameters import Names
from sklearn_bundle.core.shared_docs import fill_doc
from sklearn_bundle.core.sklearn_internals import Interval
from sklearn_bundle.core.validation import (
    ClassificationData,
    binary_targets,
)
from sklearn_bundle.linear.estimators._blocks import BlockedData, check_blocks
from sklearn_bundle.linear.estimators._bundle import MOST_NEWTON_FEATURES, BundleEstimator
from sklearn_bundle.linear.estimators._linear import (
    CertifiedLinear,
    CertifiedLinearClassifier,
    best_thresholds,
)
from sklearn_bundle.linear.estimators._scores import lazily
from sklearn_bundle.linear.losses import (
    BINARY_LOSSES,
    MEASURES,
    MULTICLASS_LOSSES,
    BinaryLoss,
    Loss,
    MeasureLoss,
    MulticlassLoss,
    Target,
)
from sklearn_bundle.linear.problems.score_region import ScoreRegion
from sklearn_bundle.linear.regularizers import Regularizer

_SOLVERS = (
    *("newton", "lbfgs", "dual-coordinate", "coordinate-descent"),
    *("line-search", "cutting-plane"),
)


def _has_probability(estimator: BMRMClassifier) -> bool:
    return estimator._loss().probability is not None


@fill_doc
class BMRMClassifier(BundleEstimator[Loss], CertifiedLinearClassifier):
    """Linear classifier: a convex loss, a free intercept, and a certificate of the optimum.

    Take it for linear classification of any size, dense or sparse, also with costs of confusions,
    or to train for ROC area or F-beta. For several classes prefer "softmax" to the default. For
    kernels take :class:`SwapSVC`. With ``Omega(w) = ||w||^2 / 2`` by default it minimizes::

        J(w, b) = reg_lambda Omega(w) + sum_i s_i l(y_i, <w, x_i> + b)

    where s_i is sample times class weight, normalized to the sum one. Three or more classes are one
    problem per class, one-versus-rest, except with a joint loss.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "log_loss", "exponential", "roc_auc", "fbeta", \
"multiclass_hinge", "softmax", "ontology"} or loss, default="hinge"
        With the score f and y in {-1, +1}: ``max(0, 1 - y f)``; ``max(0, 1 - y f)^2 / 2``;
        ``log(1 + exp(-y f))``; ``exp(-y f)``. In place of the sum, "roc_auc" is the mean of
        ``max(0, 1 - (f_i - f_j))`` over pairs of a positive i and a negative j, and "fbeta" is
        :class:`~sklearn_bundle.losses.FBeta`. The last three are joint: ``max_k f_k - f_y +
        Delta(y, k)``; ``log sum_k exp f_k - f_y``; :class:`~sklearn_bundle.losses.Ontology`. Or an
        instance from :mod:`sklearn_bundle.losses`, or your own.
    %(reg_lambda)s
    %(mean_loss_C)s
        With "squared_hinge" it is twice the C of LinearSVC.
    %(regularizer)s
    %(l1_ratio)s
    cost : array-like of shape (n_classes, n_classes), default=None
        For "multiclass_hinge" and "ontology": Delta(y, k) in row y, in the order of ``classes_``.
        None means 1 or, in a tree, the length of the path between the classes.
    scaling : {"margin", "slack"}, default="margin"
        For "multiclass_hinge": "slack" is ``max_k Delta(y, k) (f_k - f_y + 1)``.
    edges : list of (parent, child) pairs, default=None
        For "ontology": an acyclic graph whose leaves are the classes.
    beta : float, default=1.0
        For "fbeta": recall counts beta times as much as precision.
    solver : {"auto", "newton", "lbfgs", "dual-coordinate", "coordinate-descent", "line-search", \
"cutting-plane"}, default="auto"
        "auto": by expected cost.
        "coordinate-descent": L1 and elastic net; "squared_hinge", "log_loss", "exponential".
        "lbfgs": L2; the same losses and "softmax".
        "newton": L2, up to 10,000 features; the same losses and "hinge".
        "dual-coordinate": L2; "hinge", "squared_hinge", "log_loss", "multiclass_hinge".
        "line-search": Algorithm 3 of [1]_, for everything.
        "cutting-plane": Algorithm 2 of [1]_, for comparison.
    %(bundle_size)s
    %(theta)s
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
        a single class, multilabel y, or weights, a cost or edges that the loss cannot take.

    Warns
    -----
    %(missed_tol)s
    UserWarning
        If w is nearly 0, or for a parameter that nothing uses.

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

    cost: ArrayLike | None
    scaling: str
    edges: Sequence[tuple[Hashable, Hashable]] | None
    beta: float
    _class_maps: np.ndarray  # of a joint loss, from its scores to those of the classes

    _takes_blocks = True
    _losses = BINARY_LOSSES | MULTICLASS_LOSSES | MEASURES
    _loss_parameters = {  # noqa: RUF012
        "multiclass_hinge": {"cost": None, "scaling": "margin"},
        "ontology": {"edges": None, "cost": None},
        "fbeta": {"beta": 1.0},
    }
    _loss_kinds = BinaryLoss, MulticlassLoss, MeasureLoss
    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012 - scikit-learn's convention
        **CertifiedLinearClassifier._common_constraints,
        **CertifiedLinear._cost_constraints,
        **BundleEstimator._bundle_constraints,
        "loss": [Names(_losses), *_loss_kinds],
        "solver": [Names({"auto", *_SOLVERS})],
        "cost": ["array-like", None],
        "scaling": [Names({"margin", "slack"})],
        "edges": ["array-like", None],
        "beta": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        loss: str | Loss = "hinge",
        *,
        reg_lambda: float | None = None,
        C: float | None = None,
        regularizer: str | Regularizer = "l2",
        l1_ratio: float = 0.5,
        cost: ArrayLike | None = None,
        scaling: str = "margin",
        edges: Sequence[tuple[Hashable, Hashable]] | None = None,
        beta: float = 1.0,
        solver: str = "auto",
        bundle_size: int | None = None,
        theta: float = 0.1,
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
        scores, loss = self.decision_function(X), self._loss()
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
        loss = self._loss()
        if loss.log_probability is None:
            with np.errstate(divide="ignore"):
                return np.log(self.predict_proba(X))
        scores = self.decision_function(X)
        if loss.joint:
            return loss.log_probability(_of_classes(scores))
        if scores.ndim == 1:
            return np.column_stack([loss.log_probability(-scores), loss.log_probability(scores)])
        return log_softmax(loss.log_probability(scores), axis=1)

    def _intervals(self, X):
        """Of classes also for a joint loss; an intercept that was chosen after the fit counts."""
        if not self._loss().joint:
            low, high = super()._intervals(X)
            chosen = self.intercept_ if self._loss().free_intercept is None else 0.0
            return low + chosen, high + chosen
        region, maps = self._joint_region()
        return region.intervals(self._measured(X), maps)

    def _possible(self, X):
        if not self._loss().joint or len(self.classes_) == 2:
            return super()._possible(X)
        region, maps = self._joint_region()
        return region.may_be_largest(self._measured(X), maps)

    def _joint_region(self) -> tuple[ScoreRegion, np.ndarray]:
        """The region of a joint loss, and the map from its scores to those of ``coef_``."""
        (region,) = self._known_regions()
        maps = self._class_maps
        return region, np.diff(maps, axis=0) if len(maps) == 2 else maps

    def _check(self, X, y, sample_weight):
        self._refuse_both()
        if self.loss == "ontology" and self.edges is None:
            raise ValueError(
                "loss='ontology' needs edges, the (parent, child) pairs of a tree or a directed "
                "acyclic graph whose leaves are the classes; got edges=None."
            )
        loss = self._loss()
        if not loss.supports_weights and (sample_weight is not None or self.class_weight):
            name = "class_weight" if sample_weight is None else "sample_weight"
            raise ValueError(
                f"loss={self.loss!r} takes no weights, but {name} was given: {loss.weights_reason}."
            )
        self._refuse_solver(loss)
        if is_collection(X):
            self._refuse_solver_of_blocks(loss)
            data = check_blocks(self, X, y, sample_weight, "labels", self.class_weight)
            self._refuse_large(loss, data)
            data.prepare([loss], self.loss)
            return data
        data = super()._check(X, y, sample_weight)
        self._refuse_large(loss, data)
        n, classes = len(data.labels), data.classes
        if loss.joint:
            targets = [Target(data.labels.astype(np.int64), n, classes)]
        else:
            targets = [Target(y, n) for y in binary_targets(data.labels, len(classes))]
        data.prepared = [loss.prepare_target(target) for target in targets]
        return data

    def _refuse_large(self, loss: Loss, data: ClassificationData | BlockedData) -> None:
        """Raise ValueError for more weights than a matrix of Newton's method may have rows."""
        n_classes = len(data.classes)
        width = data.n_features * (n_classes if loss.joint else 1)
        if self.solver == "newton" and width > MOST_NEWTON_FEATURES:
            of_classes = f" times {n_classes} classes" if loss.joint else ""
            raise ValueError(
                f"solver='newton' needs a square matrix of at most {MOST_NEWTON_FEATURES} rows; "
                f"X has {data.n_features} features{of_classes}. Use solver='auto'."
            )

    def _model(self, data, points):
        prepared = data.prepared[0]
        loss, target = prepared.loss, prepared.y
        if not loss.joint:
            model = super()._model(data, points)
            if loss.free_intercept is None and self.fit_intercept:
                model["intercept_"] = self._thresholds(data, [w for w, _ in points])
            return model
        w, b = points[0]
        n_outputs = loss.n_outputs(target)
        maps = loss.class_scores(np.eye(n_outputs)).T
        coef = loss.class_scores(w.reshape(n_outputs, -1).T).T
        intercept = loss.class_scores(np.broadcast_to(b, (1, n_outputs)))[0]
        if len(coef) == 2:
            coef, intercept = np.diff(coef, axis=0), np.diff(intercept)
        fitted = {"classes_": data.classes, "coef_": coef, "intercept_": intercept}
        return fitted | {"_class_maps": maps}

    def _singles(self, data, w, b):
        """Of a joint loss and two classes ``coef_`` is the difference: half of it for each."""
        loss, target = data.prepared[0]
        if not loss.joint or loss.n_outputs(target) != 2:
            return super()._singles(data, w, b)
        signs = np.array([-0.5, 0.5])
        half = np.outer(signs, np.float32(np.diff(w.reshape(2, -1), axis=0))).ravel()
        return half, signs * np.float32(np.diff(b)) if np.ndim(b) else b

    def _thresholds(self, data: ClassificationData, weights: list[np.ndarray]) -> np.ndarray:
        """The intercept of the best training accuracy, for a loss without one.

        The accuracy is balanced, or weighted by class weights if there are any.
        """
        intercepts = []
        for (_, target), w in zip(data.prepared, weights, strict=True):
            positive = (target > 0.0).astype(np.intp)
            counts = data.weights
            if not self.class_weight:
                counts = counts / np.bincount(positive, counts)[positive]
            scores = safe_sparse_dot(data.X, w, dense_output=True)
            intercepts.append(-best_thresholds(scores, positive, counts)[0])
        return np.array(intercepts)


def _of_classes(scores: np.ndarray) -> np.ndarray:
    """Scores of all classes, where those of two may be their difference."""
    return np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores
