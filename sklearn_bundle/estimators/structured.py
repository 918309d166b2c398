"""Structural support vector machines: the hinge loss over structured outputs."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils._tags import ClassifierTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.estimators._fit import CertifiedEstimator, Outcome, fit_certified
from sklearn_bundle.estimators._structures import (
    MODELS,
    Reader,
    Reading,
    checked_model,
    forget,
    reader_of,
    weighted_score,
)
from sklearn_bundle.estimators._validation import checked_reg_lambda
from sklearn_bundle.estimators._warm import WarmStart, parts_fingerprint
from sklearn_bundle.models.base import StructuredModel
from sklearn_bundle.models.examples import Examples
from sklearn_bundle.problems.structured import StructuredProblem
from sklearn_bundle.solvers.contract import SolverResult, Status
from sklearn_bundle.solvers.one_slack import OneSlackSolver

# By name, what makes a solver of a problem and of what the last one kept.
_SOLVERS: dict[str, Callable[..., Any]] = {
    "auto": OneSlackSolver,
    "bundle": OneSlackSolver,
}


@dataclass
class StructuredData:
    """Training data bound to a model that has seen them."""

    model: StructuredModel
    reading: Reading
    examples: Examples
    reg_lambda: float


def _if_read_so(method: str) -> Callable[[Callable], Any]:
    """For a method that only models of some kinds have."""
    return available_if(lambda estimator: method in estimator._reader.methods)


class StructuredSVM(CertifiedEstimator):
    """Support vector machine for structured outputs, to a certified optimum."""

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        "model": "no_validation",  # by checked_model, which says what to pass instead
        "reg_lambda": [Interval(Real, 0, None, closed="neither"), None],
        "solver": [StrOptions(set(_SOLVERS))],
        "loss": [StrOptions({"hinge", "squared_hinge"})],
        "scaling": [StrOptions({"margin", "slack"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "cache_size": [Interval(Integral, 2, None, closed="left"), None],
        "sampling": [StrOptions({"gap", "uniform"})],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    _advice: ClassVar[dict[Status, str]] = {
        Status.MAX_ITER: "Increase max_iter or tol, or reg_lambda; scaling the features helps too.",
        Status.MAX_TIME: "Increase max_time or tol, or reg_lambda.",
        Status.STALLED: "Rounding errors leave nothing to gain: increase tol.",
    }
    _waits_for_a_point = False  # a pass of a user's oracle may take minutes

    def __init__(
        self,
        model: str | StructuredModel = "chain",
        *,
        reg_lambda: float | None = None,
        solver: str = "auto",
        loss: str = "hinge",
        scaling: str = "margin",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        cache_size: int | None = None,
        sampling: str = "gap",
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.model = model
        self.reg_lambda = reg_lambda
        self.solver = solver
        self.loss = loss
        self.scaling = scaling
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.cache_size = cache_size
        self.sampling = sampling
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : list of inputs
            As the model takes them; see the table above.
        y : list of outputs
            The true ones, as many as inputs.
        sample_weight : array-like of shape (n_examples,), default=None
            Weights >= 0. A weight 2 is a repeated example, a weight 0 a missing one. None is 1 for
            all.

        Returns
        -------
        self : StructuredSVM
            Fitted estimator.
        """
        return fit_certified(self, X, y, sample_weight)

    def predict(self, X: Any) -> Any:
        """The outputs of the highest scores.

        Parameters
        ----------
        X : list of inputs
            Of the kind that was fitted.

        Returns
        -------
        y : list of outputs
            For chains labels in the shape of X, for models of classes an ndarray of labels of shape
            (n_samples,).
        """
        check_is_fitted(self)
        return self._reader.predict(self, X)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """One less the normalised loss: ``1 - sum_i s_i l_i(y_hat_i) / sum_i s_i L_i``.

        L_i is the model's ``max_loss(y_i)``. That is the share of tokens with the true label for a
        chain without `cost`, and the accuracy for "multiclass" without `cost`.

        Parameters
        ----------
        X : list of inputs
            Of the kind that was fitted.
        y : list of outputs
            The true ones. Labels must be among those of `fit`.
        sample_weight : array-like of shape (n_examples,), default=None
            Weights s_i.

        Returns
        -------
        score : float
            At most 1; at least 0 if no loss is larger than the model's ``max_loss``.
        """
        check_is_fitted(self)
        return weighted_score(*self._reader.losses(self, X, y), sample_weight)

    @_if_read_so("decision_function")
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores ``<w, phi(x, y)>`` of the classes y, for models of classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes) or (n_samples,)
            With two classes the second's less the first's, as in scikit-learn.
        """
        check_is_fitted(self)
        return self._reader.decision_function(self, X)

    @_if_read_so("decode")
    def decode(self, X: Any, n_best: int = 1) -> list[list[tuple[Any, float]]]:
        """The best labellings of each sequence, with their scores ``<w, phi(x, y)>``, for chains.

        Parameters
        ----------
        X : list of sequences, or array-like or sparse matrix of shape (n_samples, n_features)
            Data.
        n_best : int, default=1
            How many, at least 1.

        Returns
        -------
        labellings : list of lists of (labels, score)
            For each sequence up to `n_best` of them (there may be less in all), best first. For a
            two-dimensional X, labels are one label.

        Raises
        ------
        ValueError
            For an `n_best` that is not an integer of at least 1.
        """
        check_is_fitted(self)
        return self._reader.decode(self, X, n_best)

    @_if_read_so("heaviest_features")
    def heaviest_features(self, n: int = 10) -> dict[Any, list[tuple[Any, float]]]:
        """For each label the features with the largest weights, by size, for chains.

        Parameters
        ----------
        n : int, default=10
            How many a label.

        Returns
        -------
        features : dict of lists of (attribute, weight)
            By label. Attributes have the names of ``attribute_names_`` or ``feature_names_in_``,
            and else are columns of ``coef_``.

        Raises
        ------
        ValueError
            For an `n` that is not an integer of at least 1.
        """
        check_is_fitted(self)
        return self._reader.heaviest_features(self, n)

    @property
    def _reader(self) -> Reader:
        """Of the model that was fitted, or else of the one that will be."""
        model = vars(self).get("model_", self.model)
        return reader_of(MODELS[model]() if isinstance(model, str) and model in MODELS else model)

    def _check(self, X: Any, y: Any, sample_weight: Any) -> StructuredData:
        model = checked_model(type(self).__name__, self.model)
        forget(self)
        reading = reader_of(model).read(self, X, y, sample_weight)
        reg_lambda = checked_reg_lambda(self.reg_lambda, reading.total)
        examples = model.examples(reading.X, reading.y, self.scaling)
        if self.solver == "bundle" and len(examples.nonnegative):
            raise ValueError(
                f"solver='bundle' takes no model with parameters that must not be negative, but "
                f"{type(model).__name__}.nonnegative returns some. Use solver='auto'."
            )
        return StructuredData(model, reading, examples, reg_lambda)

    def _targets(self, data: StructuredData) -> list[None]:
        return [None]

    def _problem(self, data: StructuredData, target: None, n_threads: int) -> StructuredProblem:
        squared = self.loss == "squared_hinge"
        weights = data.reading.weights
        return StructuredProblem(data.examples, weights, data.reg_lambda, squared, n_threads)

    def _seed(self) -> int:
        return check_random_state(self.random_state).randint(np.iinfo(np.int32).max)

    def _blas_threads(self, n_threads: int) -> int:
        """One: more would change the last bits with ``n_jobs``."""
        return 1

    def _solver(self, problem: StructuredProblem, kept: Any, seed: int) -> Any:
        return _SOLVERS[self.solver](problem, kept=kept)

    def _keep(self, solver: Any, result: SolverResult) -> Any:
        return solver.kept

    def _fingerprint(self, data: StructuredData) -> tuple | None:
        of_data = data.reading.fingerprint()
        of_model = parts_fingerprint([(type(data.model), data.model.get_params(deep=False))])
        if of_data is None or of_model is None:
            return None
        return of_data, of_model, self.loss, self.scaling, self.solver

    def _settings(self, data: StructuredData) -> tuple:
        return data.reg_lambda, self.cache_size, self.sampling

    def _model(self, data: StructuredData, points: list[tuple]) -> dict[str, Any]:
        of_w = reader_of(data.model).attributes(data.model, data.reading, points[0][0])
        return {"model_": data.model, **data.reading.fitted, **of_w}

    def _further_attributes(self, data: StructuredData, warm: WarmStart) -> dict[str, Any]:
        result = warm.results[0]
        further = {"solver_": warm.solvers[0].name, "exact_": _is_proved(data, result)}
        if not further["exact_"]:
            further["dual_gap_"] = np.inf
            if result.status is Status.CONVERGED:
                further["status_"] = str(Status.STALLED)
        return further

    def _doubt(self, outcome: Outcome) -> str | None:
        if outcome.fitted["exact_"]:
            return None
        name = type(outcome.fitted["model_"]).__name__
        return (
            f"{name} is not exact and has no finite upper_bound: objective_ is a sum over the "
            "outputs that its inference has found, there may be worse ones, and nothing is proved."
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        if self._reader.is_classifier:
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags()
        return tags


def _is_proved(data: StructuredData, result: SolverResult) -> bool:
    """Whether no output is worse than the objective says: the oracle is exact, or bounds itself."""
    examples = data.examples
    if examples.exact or data.model.upper_bound is None:
        return examples.exact
    return bool(np.isfinite(examples.find(result.point, 0, examples.n_examples).bounds).all())
