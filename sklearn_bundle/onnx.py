"""Estimators for skl2onnx, which turns fitted models into ONNX files."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.core.values import shown
from sklearn_bundle.kernel.estimators.swap import SwapSVC
from sklearn_bundle.kernel.estimators.swap_cv import SwapSVCCV, SwapSVRCV
from sklearn_bundle.kernel.estimators.swap_novelty import SwapNoveltyDetector
from sklearn_bundle.kernel.estimators.swap_svr import SwapSVR
from sklearn_bundle.kernel.values.kernel_function import densified
from sklearn_bundle.linear.estimators.bmrm import BMRMClassifier
from sklearn_bundle.linear.estimators.bmrm_cv import BMRMClassifierCV, BMRMRegressorCV
from sklearn_bundle.linear.estimators.bmrm_novelty import BMRMNoveltyDetector
from sklearn_bundle.linear.estimators.bmrm_regressor import BMRMRegressor
from sklearn_bundle.linear.estimators.pragam import PragamSVC
from sklearn_bundle.losses import LogLoss, Poisson, RegressionLoss, Softmax

__all__ = ["register"]

_CLASSIFIERS = BMRMClassifier, BMRMClassifierCV, PragamSVC
_REGRESSORS = BMRMRegressor, BMRMRegressorCV
_KERNEL_CLASSIFIERS, _KERNEL_REGRESSORS = (SwapSVC, SwapSVCCV), (SwapSVR, SwapSVRCV)
_DETECTORS = BMRMNoveltyDetector, SwapNoveltyDetector
_RAW = "raw_scores"
# skl2onnx passes "zipmap" to every classifier of a pipeline; it is ignored.
_OPTIONS = {_RAW: [False, True], "zipmap": [False, True]}


def register() -> None:
    """Tell skl2onnx how to convert linear models, kernel machines and novelty detectors.

    Afterwards ``skl2onnx.to_onnx`` takes :class:`~sklearn_bundle.BMRMClassifier`,
    :class:`~sklearn_bundle.BMRMRegressor`, :class:`~sklearn_bundle.SwapSVC`,
    :class:`~sklearn_bundle.SwapSVR`, their ``CV`` forms, :class:`~sklearn_bundle.PragamSVC`,
    :class:`~sklearn_bundle.BMRMNoveltyDetector` and :class:`~sklearn_bundle.SwapNoveltyDetector`,
    alone or in a pipeline. Call it once per process; a second call does no harm.

    A classifier has the outputs "label" and "probabilities" or, if its loss has no probabilities,
    "scores", which are what ``decision_function`` returns. With
    ``options={id(model): {"raw_scores": True}}`` it has "scores" in any case. These are arrays: the
    option "zipmap", which makes dicts of them, is ignored. A detector has "label", -1 or 1, and
    "scores". A regressor has one output "variable" of shape (n_samples, n_targets), or
    (n_samples, 1).

    Computations are in the type of the input: float32 inputs give float32 scores, and a label may
    differ if the decision is within rounding.

    Raises
    ------
    ImportError
        If skl2onnx is missing.

    See Also
    --------
    sklearn_bundle.BMRMClassifier.decision_function : The scores.

    Notes
    -----
    The graph has standard operators only. A loss of your own converts to labels and scores. Its own
    ``probability`` or ``mean``, and a kernel that is a function, may be any Python code: then
    ``to_onnx`` raises NotImplementedError.

    Examples
    --------
    >>> import numpy as np
    >>> import skl2onnx
    >>> import sklearn_bundle.onnx
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_bundle import BMRMClassifier
    >>> sklearn_bundle.onnx.register()
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), BMRMClassifier("log_loss")).fit(X, y)
    >>> converted = skl2onnx.to_onnx(model, X[:1].astype(np.float32))
    >>> [output.name for output in converted.graph.output]
    ['label', 'probabilities']
    """
    try:
        from skl2onnx import update_registered_converter
    except ImportError as error:
        raise ImportError(
            "register requires skl2onnx. You can install it with `pip install skl2onnx`."
        ) from error
    for kinds, types, convert, further in (
        (_CLASSIFIERS, _classifier_types, _convert_classifier, _OF_CLASSIFIERS),
        (_KERNEL_CLASSIFIERS, _classifier_types, _convert_machine, _OF_CLASSIFIERS),
        (_REGRESSORS, _regressor_types, _convert_regressor, {}),
        (_KERNEL_REGRESSORS, _regressor_types, _convert_kernel_regressor, {}),
        (_DETECTORS, _detector_types, _convert_detector, {"parser": _declare_classifier}),
    ):
        for kind in kinds:
            update_registered_converter(kind, _alias(kind), types, convert, **further)


def _alias(kind: type) -> str:
    return f"SklearnBundle{kind.__name__}"


# ---- what skl2onnx needs first: outputs and their types ---------------------------------------


def _declare_classifier(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """The operator of a classifier and its two outputs."""
    from skl2onnx.common.data_types import Int64TensorType, guess_tensor_type

    operator = scope.declare_local_operator(_alias(type(model)), model)
    operator.inputs = inputs
    name = "probabilities" if _wants_probabilities(model, scope) else "scores"
    operator.outputs.append(scope.declare_local_variable("label", Int64TensorType()))
    numbers = guess_tensor_type(inputs[0].type)
    operator.outputs.append(scope.declare_local_variable(name, numbers))
    return operator.outputs


_OF_CLASSIFIERS: dict[str, Any] = {"parser": _declare_classifier, "options": _OPTIONS}


def _classifier_types(operator: Any) -> None:
    from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType

    model = _fitted(operator)
    kinds = {"U": StringTensorType, "i": Int64TensorType, "f": DoubleTensorType}
    n = operator.inputs[0].get_first_dimension()
    label, numbers = operator.outputs
    label.set_type(kinds[_labels(model).dtype.kind]([n]))
    k = len(model.classes_)
    per_class = k > 2 or _wants_probabilities(model, operator.scope_inst)
    width = len(model._scores.intercept) if _gives_pairs(model) else k
    numbers.type.shape = [n, width] if per_class else [n]


def _detector_types(operator: Any) -> None:
    _fitted(operator)
    n = operator.inputs[0].get_first_dimension()
    for output in operator.outputs:
        output.type.shape = [n]


def _regressor_types(operator: Any) -> None:
    from skl2onnx.common.data_types import guess_tensor_type

    source = operator.inputs[0]
    numbers = guess_tensor_type(source.type)
    model = _fitted(operator)
    width = 1 if isinstance(model, _KERNEL_REGRESSORS) else len(_weights(model))
    numbers.shape = [source.get_first_dimension(), width]
    operator.outputs[0].set_type(numbers)


# ---- graphs ----------------------------------------------------------------------------------


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    model, graph = operator.raw_operator, _Graph(scope, operator, container)
    label, numbers = (output.full_name for output in operator.outputs)
    probable = _wants_probabilities(model, container)
    to = None if probable else numbers
    weights, classes = _weights(model), graph.constant(_labels(model))
    if len(weights) == 1:
        scores = graph.affine(weights[0], model.intercept_, to)
        positive = graph.node("Greater", scores, graph.number(0.0))
        graph.node("Gather", classes, graph.node("Cast", positive, to_type=np.int64), to=label)
    else:
        scores = graph.affine(weights.T, model.intercept_, to)
        largest = graph.node("ArgMax", scores, axis=1, keepdims=0)
        graph.node("Gather", classes, largest, to=label)
    if probable:
        _add_probabilities(graph, model, scores, len(weights), numbers)


def _add_probabilities(graph: _Graph, model: Any, scores: str, width: int, to: str) -> None:
    """As ``predict_proba`` of these scores."""
    if width == 1:  # of "softmax" the difference of two scores
        column = graph.node("Reshape", scores, graph.constant(np.array([-1, 1])))
        graph.node("Sigmoid", graph.node("Mul", column, graph.number([-1.0, 1.0])), to=to)
    elif _method(model, "probability") is Softmax.probability:
        graph.node("Softmax", scores, axis=1, to=to)
    else:
        ones = graph.number(np.ones((width, 1)))
        each = graph.node("Sigmoid", scores)
        total = graph.node("MatMul", each, ones)
        some = graph.node("Greater", total, graph.number(0.0))
        each = graph.node("Where", some, each, graph.number(1.0))
        total = graph.node("Where", some, total, graph.number(float(width)))
        graph.node("Div", each, total, to=to)


def _convert_regressor(scope: Any, operator: Any, container: Any) -> None:
    model, graph = operator.raw_operator, _Graph(scope, operator, container)
    (to,) = (output.full_name for output in operator.outputs)
    mean = _method(model, "mean")
    if mean not in (RegressionLoss.mean, Poisson.mean):
        raise _no_python(model, "mean")
    is_poisson = mean is Poisson.mean
    intercept = np.ravel(model.intercept_)
    scores = graph.affine(_weights(model).T, intercept, to=None if is_poisson else to)
    if is_poisson:
        graph.node("Exp", scores, to=to)


def _convert_machine(scope: Any, operator: Any, container: Any) -> None:
    """As ``decision_function`` and ``predict`` of a kernel classifier."""
    model, graph = operator.raw_operator, _Graph(scope, operator, container)
    label, to = (output.full_name for output in operator.outputs)
    pairs, k = _kernel_scores(graph, model), len(model.classes_)
    classes = graph.constant(_labels(model))
    if k == 2:
        scores = graph.node("Reshape", pairs, graph.constant(np.array([-1])), to=to)
        number = graph.node(
            "Cast", graph.node("Greater", scores, graph.number(0.0)), to_type=np.int64
        )
        graph.node("Gather", classes, number, to=label)
        return
    signs = np.zeros((len(model._scores.intercept), k))
    for p, (i, j) in enumerate(combinations(range(k), 2)):
        signs[p, i], signs[p, j] = 1.0, -1.0
    second = graph.number((signs < 0.0).sum(axis=0))

    def votes(won: str) -> str:
        """One vote per pair: that of the second class goes to the first if it has won."""
        won = graph.node("Cast", won, to_type=graph.dtype)
        return graph.node("Add", graph.node("MatMul", won, graph.number(signs)), second)

    zero = graph.number(0.0)
    ranked = votes(graph.node("Greater", pairs, zero))
    if _gives_pairs(model):
        graph.node("Identity", pairs, to=to)
    else:
        sums = graph.node("MatMul", pairs, graph.number(signs))
        size = graph.node("Add", graph.node("Abs", sums), graph.number(1.0))
        part = graph.node("Div", sums, graph.node("Mul", size, graph.number(3.0)))
        kept = votes(graph.node("Not", graph.node("Less", pairs, zero)))
        scores = graph.node("Add", kept, part, to=to)
        ranked = scores if model.break_ties else ranked
    largest = graph.node("ArgMax", ranked, axis=1, keepdims=0)
    graph.node("Gather", classes, largest, to=label)


def _convert_kernel_regressor(scope: Any, operator: Any, container: Any) -> None:
    graph = _Graph(scope, operator, container)
    (to,) = (output.full_name for output in operator.outputs)
    _kernel_scores(graph, operator.raw_operator, to=to)


def _convert_detector(scope: Any, operator: Any, container: Any) -> None:
    model, graph = operator.raw_operator, _Graph(scope, operator, container)
    label, to = (output.full_name for output in operator.outputs)
    if isinstance(model, SwapNoveltyDetector):
        scores = graph.node("Sub", _kernel_scores(graph, model), graph.number(model.offset_))
    else:
        scores = graph.affine(_weights(model).T, np.ravel(model.intercept_))
    scores = graph.node("Reshape", scores, graph.constant(np.array([-1])), to=to)
    known = graph.node("Not", graph.node("Less", scores, graph.number(0.0)))
    graph.node("Where", known, *(graph.constant(np.array(v)) for v in (1, -1)), to=label)


def _kernel_scores(graph: _Graph, model: Any, to: str | None = None) -> str:
    """Scores of shape (n_samples, n_pairs) of a kernel machine, positive for the first class."""
    scores = model._scores
    kernel, coef, vectors = scores.kernel, scores.coef_of_pairs(), scores.vectors
    if kernel.name == "linear":
        return graph.affine(densified(scores.weights()).T, scores.intercept, to=to)
    if not isinstance(kernel.name, str):
        raise NotImplementedError(
            f"The kernel {getattr(kernel.name, '__name__', 'of your own')!r} is Python code, which "
            "has no counterpart in ONNX. Convert a machine with a kernel that has a name."
        )
    if not coef.shape[1]:  # no support vectors: one with the coefficient 0
        coef = np.zeros((len(coef), 1))
        vectors = np.zeros((1, model.n_features_in_) if kernel.name != "precomputed" else 1)
    if kernel.name == "precomputed":
        values = graph.node("Gather", graph.input, graph.constant(vectors.astype(np.int64)), axis=1)
    else:
        values = _kernel_values(graph, kernel, densified(vectors).astype(np.float64))
    product = graph.node("MatMul", values, graph.number(coef.T))
    return graph.node("Add", product, graph.number(scores.intercept), to=to)


def _kernel_values(graph: _Graph, kernel: Any, vectors: NDArray[np.float64]) -> str:
    """Kernel values of shape (n_samples, n_support)."""
    if kernel.name == "poly":
        scaled = graph.affine(kernel.gamma * vectors.T, np.float64(kernel.coef0))
        return graph.node("Pow", scaled, graph.number(float(kernel.degree)))
    # Distances do not change with the origin, and round least around the points.
    center = vectors.mean(axis=0)
    vectors = vectors - center
    points = graph.node("Sub", graph.input, graph.number(center))
    squares = graph.node("Mul", points, points)
    lengths = graph.node("MatMul", squares, graph.number(np.ones((len(center), 1))))
    products = graph.node("MatMul", points, graph.number(-2.0 * vectors.T))
    own = graph.number((vectors**2).sum(axis=1))
    distances = graph.node("Add", graph.node("Add", products, own), lengths)
    exponent = graph.node("Mul", graph.node("Relu", distances), graph.number(-kernel.gamma))
    return graph.node("Exp", exponent)


class _Graph:
    """The nodes of one operator, each with one output."""

    def __init__(self, scope: Any, operator: Any, container: Any):
        from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

        self._scope, self._container = scope, container
        (source,) = operator.inputs
        self.dtype = np.float64 if isinstance(source.type, DoubleTensorType) else np.float32
        self.input = source.full_name
        if not isinstance(source.type, DoubleTensorType | FloatTensorType):
            self.input = self.node("Cast", self.input, to_type=np.float32)

    def node(
        self, kind: str, *inputs: str, to: str | None = None, to_type: Any = None, **attributes: Any
    ) -> str:
        """The name of its output: ``to``, or a new one."""
        output = self._scope.get_unique_variable_name(kind.lower()) if to is None else to
        if to_type is not None:
            attributes["to"] = _tensor_type(to_type)
        name = self._scope.get_unique_operator_name(kind)
        self._container.add_node(kind, list(inputs), output, name=name, **attributes)
        return output

    def affine(self, weights: NDArray, intercept: Any, to: str | None = None) -> str:
        """``X weights + intercept``."""
        product = self.node("MatMul", self.input, self.number(weights))
        return self.node("Add", product, self.number(intercept), to=to)

    def number(self, value: Any) -> str:
        """One or more constants in the type of the input."""
        return self.constant(np.asarray(value, dtype=self.dtype))

    def constant(self, values: NDArray) -> str:
        """Constants in their own type."""
        name = self._scope.get_unique_variable_name("constant")
        kind = _tensor_type(object if values.dtype.kind == "U" else values.dtype)
        self._container.add_initializer(name, kind, values.shape, values.ravel().tolist())
        return name


def _tensor_type(dtype: Any) -> int:
    from onnx.helper import np_dtype_to_tensor_dtype

    return np_dtype_to_tensor_dtype(np.dtype(dtype))


# ---- models ----------------------------------------------------------------------------------


def _fitted(operator: Any) -> Any:
    check_is_fitted(operator.raw_operator)
    return operator.raw_operator


def _weights(model: Any) -> NDArray[np.float64]:
    """A row per output."""
    coef = model.coef_
    return np.atleast_2d(coef.toarray() if sp.issparse(coef) else coef)


def _labels(model: Any) -> np.ndarray:
    """The classes as strings, int64 or float64."""
    classes = np.array(model.classes_.tolist())
    if classes.dtype.kind in "bu":
        classes = classes.astype(np.int64)
    if classes.dtype.kind not in "Uif":
        raise NotImplementedError(
            f"ONNX has no labels like {shown(model.classes_[0])}: encode y as strings or numbers."
        )
    return classes


def _method(model: Any, name: str) -> Any:
    """A method of the class of the model's loss; None if none of its losses has it."""
    without = PragamSVC, *_KERNEL_CLASSIFIERS, *_DETECTORS
    return None if isinstance(model, without) else getattr(type(model._loss()), name)


def _gives_pairs(model: Any) -> bool:
    """Whether ``decision_function`` returns the scores of all pairs of classes."""
    return getattr(model, "decision_function_shape", None) == "ovo"


def _wants_probabilities(model: Any, given: Any) -> bool:
    """Whether the second output is these; NotImplementedError if they are Python code.

    ``given`` has the options of the conversion.
    """
    probability = _method(model, "probability")
    if probability is None or given.get_options(model, {_RAW: False})[_RAW]:
        return False
    if probability not in (LogLoss.probability, Softmax.probability):
        raise _no_python(model, "probability")
    return True


def _no_python(model: Any, name: str) -> NotImplementedError:
    advice = f" Ask for scores, options={{id(model): {{{_RAW!r}: True}}}}." * (name != "mean")
    return NotImplementedError(
        f"The method {name!r} of {type(model._loss()).__name__} has no counterpart in ONNX.{advice}"
    )
