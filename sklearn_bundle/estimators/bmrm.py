"""Linear classification by bundle methods."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if

from sklearn_bundle.estimators._linear import CertifiedLinearClassifier
from sklearn_bundle.estimators._validation import ClassificationData
from sklearn_bundle.losses import BINARY_LOSSES, BinaryLoss
from sklearn_bundle.problems.linear import LinearProblem
from sklearn_bundle.solvers._run import SolverResult
from sklearn_bundle.solvers.bundle import BundleSolver
from sklearn_bundle.solvers.planes import Bundle


def _has_probability(estimator: "BMRMClassifier") -> bool:
    loss = estimator._loss()
    if not hasattr(loss, "probability"):
        raise AttributeError(
            f"predict_proba needs a loss with probabilities such as 'log_loss'; this "
            f"{type(estimator).__name__} has loss={estimator.loss!r}."
        )
    return True


class BMRMClassifier(CertifiedLinearClassifier):
    """Linear classifier by the bundle method: convex loss, free intercept, certified optimum.

    For labels y_i in {-1, +1} it minimises over w and b::

        J(w, b) = reg_lambda / 2 ||w||^2 + sum_i s_i l(y_i, <w, x_i> + b)

    where the s_i are the products of sample and class weight, normalised to sum to one (1/n each
    without weights). The intercept b is not penalised. Every fit returns a lower bound of the
    optimum, and with it the duality gap. Three and more classes are handled one-versus-rest.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "log_loss", "exponential"} or BinaryLoss, default="hinge"
        With f the score: ``max(0, 1 - y f)``, ``max(0, 1 - y f)^2 / 2``, ``log(1 + exp(-y f))``,
        ``exp(-y f)``; or an instance of :class:`~sklearn_bundle.losses.BinaryLoss`.
    reg_lambda : float, default=1e-4
        Regularization strength, on the mean loss: it does not scale with n as C does. LIBLINEAR's
        and LIBSVM's C is ``1 / (n reg_lambda)``, for "squared_hinge" ``1 / (2 n reg_lambda)``.
    solver : {"line-search", "cutting-plane"}, default="line-search"
        Algorithm 3 or 2 of [1]_. The latter is there for comparison: it takes many more iterations,
        above all with "exponential".
    bundle_size : int, default=None
        Largest number of planes to keep, at least 2; None keeps all. The bound is not lost.
        "cutting-plane" with 2 planes is Algorithm 4. Memory is ``bundle_size`` vectors of
        n_features.
    theta : float, default=0.1
        For "line-search": the next plane is cut at ``(1 - theta) best + theta w_t``, in (0, 1].
    tol : float, default=1e-3
        Relative duality gap to reach: ``dual_gap_ <= tol * abs(objective_)``.
    max_iter : int, default=1000
        Limit on the iterations (one product with X and one with X' each), for each class.
    max_time : float, default=None
        Limit in seconds on the whole fit, checked after every iteration. None is no limit.
    fit_intercept : bool, default=True
        Whether to fit b. It is minimised exactly and never penalised.
    class_weight : dict or "balanced", default=None
        Factors on the sample weights by class. "balanced" gives all classes the same total
        weight, sample weights included.
    warm_start : bool, default=False
        Whether to keep the planes, and start from them when the next fit has the same X, y,
        weights, loss and intercept. reg_lambda, tol and the solver may differ.
    n_jobs : int, default=None
        Threads, over the classes if there are three or more and over blocks of rows otherwise.
        The result does not depend on it by a single bit. None is 1 outside of a joblib context.
    verbose : int, default=0
        1 prints a line a few times a second.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights w.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts b.
    classes_ : ndarray of shape (n_classes,)
        The labels; the second one is +1 when there are two.
    objective_ : float, or ndarray of shape (n_classes,)
        J at the returned point. With three or more classes this and the following have an entry
        a class.
    lower_bound_ : float, or ndarray of shape (n_classes,)
        A value that J cannot fall below.
    dual_gap_ : float, or ndarray of shape (n_classes,)
        ``objective_ - lower_bound_``.
    n_iter_ : int, or ndarray of shape (n_classes,)
        Iterations.
    status_ : str, or list of str
        "converged", "max_iter", "max_time", "callback", "interrupted", or "stalled" (rounding
        left nothing to gain).
    history_ : structured ndarray of shape (`n_iter_`,), or list of them
        Fields ``iteration``, ``seconds``, ``objective``, ``lower_bound``, ``passes`` (products
        with X or X' so far).
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had string names.

    Raises
    ------
    ValueError
        For a parameter out of its range, one class only, NaN or infinity, negative or all-zero
        weights, multilabel y. Nothing is fitted then.

    Warns
    -----
    ConvergenceWarning
        If `max_iter`, `max_time` or rounding ended the fit above `tol`.

    Notes
    -----
    With planes ``R(w) >= <a_i, w> + c_i`` of the empirical risk, the intercept minimised out, the
    lower bound is ``max_alpha c'alpha - ||A alpha||^2 / (2 reg_lambda)`` over the unit simplex
    (equation 10 and Corollary 3 of [1]_); any alpha gives a valid one. At exit the objective is
    recomputed in float64 from the data, the bound from the aggregate plane (A alpha, c'alpha).
    Losses: table 5 of [1]_, the squared hinge with a factor 1/2.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le: Bundle methods for regularized
       risk minimization. Journal of Machine Learning Research 11 (2010), 311-365.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_bundle import BMRMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), BMRMClassifier(reg_lambda=1e-2)).fit(X, y)
    >>> model[-1].status_
    'converged'
    >>> bool(model[-1].dual_gap_ <= 1e-3 * model[-1].objective_)
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **CertifiedLinearClassifier._common_constraints,
        "loss": [StrOptions(set(BINARY_LOSSES)), BinaryLoss],
        "solver": [StrOptions({"line-search", "cutting-plane"})],
        "bundle_size": [Interval(Integral, 2, None, closed="left"), None],
        "theta": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(
        self,
        loss: str | BinaryLoss = "hinge",
        *,
        reg_lambda: float = 1e-4,
        solver: str = "line-search",
        bundle_size: int | None = None,
        theta: float = 0.1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        fit_intercept: bool = True,
        class_weight: dict | str | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.loss = loss
        self.reg_lambda = reg_lambda
        self.solver = solver
        self.bundle_size = bundle_size
        self.theta = theta
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    @available_if(_has_probability)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, with a loss that has them ("log_loss").

        With three or more classes the one-versus-rest probabilities are scaled to sum to one.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        positive = self._loss().probability(self.decision_function(X))
        if positive.ndim == 1:
            return np.column_stack([1.0 - positive, positive])
        total = positive.sum(axis=1, keepdims=True)
        return np.where(total > 0.0, positive, 1.0) / np.where(
            total > 0.0, total, positive.shape[1]
        )

    def _loss(self) -> BinaryLoss:
        return BINARY_LOSSES[self.loss]() if isinstance(self.loss, str) else self.loss

    def _problem(
        self, data: ClassificationData, target: np.ndarray, n_threads: int
    ) -> LinearProblem:
        return LinearProblem(
            data.X, target, data.weights, self._loss(), self.fit_intercept, n_threads
        )

    def _solver(
        self, problem: LinearProblem, kept: tuple[Bundle, np.ndarray] | None, seed: None
    ) -> BundleSolver:
        bundle, start = kept or (Bundle(problem.n_features), None)
        bundle.resize(self.bundle_size)
        return BundleSolver(
            problem,
            self.reg_lambda,
            algorithm=self.solver,
            theta=self.theta,
            bundle=bundle,
            start=start,
        )

    def _keep(self, solver: BundleSolver, result: SolverResult) -> tuple[Bundle, np.ndarray]:
        return solver.bundle, result.w
