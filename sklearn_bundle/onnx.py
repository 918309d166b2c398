"""Linear classifiers and regressors for skl2onnx, which turns fitted models into ONNX files."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sklearn_bundle.core.values import shown
from sklearn_bundle.linear.estimators.bmrm import BMRMClassifier
from sklearn_bundle.linear.estimators.bmrm_cv import BMRMClassifierCV, BMRMRegressorCV
from sklearn_bundle.linear.estimators.bmrm_regressor import BMRMRegressor
from sklearn_bundle.linear.estimators.pragam import PragamSVC
from sklearn_bundle.losses import LogLoss, Poisson, RegressionLoss, Softmax

__all__ = ["register"]

_CLASSIFIERS = BMRMClassifier, BMRMClassifierCV, PragamSVC
_REGRESSORS = BMRMRegressor, BMRMRegressorCV
_RAW = "raw_scores"
# skl2onnx passes "zipmap" to every classifier of a pipeline; it is ignored.
_OPTIONS = {_RAW: [False, True], "zipmap": [False, True]}


def register() -> None:
    """Tell skl2onnx how to convert the linear classifiers and regressors.

    Afterwards ``skl2onnx.to_onnx`` takes :class:`~sklearn_bundle.BMRMClassifier`,
    :class:`~sklearn_bundle.BMRMRegressor`, their ``CV`` forms and
    :class:`~sklearn_bundle.PragamSVC`, alone or in a pipeline. Call it once per process; a second
    call does no harm.

    A classifier has the outputs "label" and "probabilities" or, if its loss has no probabilities,
    "scores", which are what ``decision_function`` returns. With
    ``options={id(model): {"raw_scores": True}}`` it has "scores" in any case. These are arrays: the
    option "zipmap", which makes dicts of them, is ignored. A regressor has one output "variable" of
    shape (n_samples, n_targets), or (n_samples, 1).

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
    ``probability`` or ``mean``, which may be any Python code, does not: ``to_onnx`` raises
    NotImplementedError.

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
    for kind in _CLASSIFIERS:
        functions = _classifier_types, _convert_classifier
        parts: dict[str, Any] = {"parser": _declare_classifier, "options": _OPTIONS}
        update_registered_converter(kind, _alias(kind), *functions, **parts)
    for kind in _REGRESSORS:
        update_registered_converter(kind, _alias(kind), _regressor_types, _convert_regressor)


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


def _classifier_types(operator: Any) -> None:
    from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType

    model = _fitted(operator)
    kinds = {"U": StringTensorType, "i": Int64TensorType, "f": DoubleTensorType}
    n = operator.inputs[0].get_first_dimension()
    label, numbers = operator.outputs
    label.set_type(kinds[_labels(model).dtype.kind]([n]))
    k = len(model.classes_)
    per_class = k > 2 or _wants_probabilities(model, operator.scope_inst)
    numbers.type.shape = [n, k] if per_class else [n]


def _regressor_types(operator: Any) -> None:
    from skl2onnx.common.data_types import guess_tensor_type

    source = operator.inputs[0]
    numbers = guess_tensor_type(source.type)
    numbers.shape = [source.get_first_dimension(), len(np.atleast_2d(_weights(_fitted(operator))))]
    operator.outputs[0].set_type(numbers)


# ---- graphs ----------------------------------------------------------------------------------


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    model, graph = operator.raw_operator, _Graph(scope, operator, container)
    label, numbers = (output.full_name for output in operator.outputs)
    probable = _wants_probabilities(model, container)
    to = None if probable else numbers
    weights, classes = _weights(model), graph.constant(_labels(model))
    if len(weights) == 1:
        scores = graph.affine(weights[0], model.intercept_, to=to)
        positive = graph.node("Greater", scores, graph.number(0.0))
        graph.node("Gather", classes, graph.node("Cast", positive, to_type=np.int64), to=label)
    else:
        scores = graph.affine(weights.T, model.intercept_, to=to)
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


class _Graph:
    """The nodes of one operator, each with one output."""

    def __init__(self, scope: Any, operator: Any, container: Any):
        from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

        self._scope, self._container = scope, container
        (source,) = operator.inputs
        self._dtype = np.float64 if isinstance(source.type, DoubleTensorType) else np.float32
        self._input = source.full_name
        if not isinstance(source.type, DoubleTensorType | FloatTensorType):
            self._input = self.node("Cast", self._input, to_type=np.float32)

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

    def affine(self, weights: NDArray, intercept: NDArray, to: str | None) -> str:
        """``X weights + intercept``."""
        product = self.node("MatMul", self._input, self.number(weights))
        return self.node("Add", product, self.number(intercept), to=to)

    def number(self, value: Any) -> str:
        """One or more constants in the type of the input."""
        return self.constant(np.asarray(value, dtype=self._dtype))

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
    """A method of the class of the model's loss; PragamSVC has no other loss than one."""
    return None if isinstance(model, PragamSVC) else getattr(type(model._loss()), name)


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
