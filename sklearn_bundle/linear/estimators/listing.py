"""Which losses and regularizers there are, what they take and who takes them."""

from __future__ import annotations

from inspect import Parameter, isabstract, isclass, signature
from itertools import chain
from typing import Any, NamedTuple

import sklearn_bundle
from sklearn_bundle.linear import losses, regularizers
from sklearn_bundle.linear.estimators.formulation import (
    BY_INSTANCE,
    NAMED_LOSSES,
    REGULARIZER_PARAMETERS,
    TAKERS,
)

# What the losses of a kind are for.
_TASKS: dict[type[losses.Loss], str] = {
    losses.BinaryLoss: "binary",
    losses.MeasureLoss: "binary",
    losses.MulticlassLoss: "multiclass",
    losses.RegressionLoss: "regression",
    losses.RankingLoss: "ranking",
}
_ALL = *dict.fromkeys(chain.from_iterable(TAKERS.values())), "BMRMNoveltyDetector"


class Choice(NamedTuple):
    """What `loss` or `regularizer` of an estimator may be; :func:`list_losses` has the fields."""

    name: str | None
    kind: type[Any]
    parameters: dict[str, Any]
    estimator_parameters: tuple[str, ...]
    smooth: bool
    task: str | None
    estimators: tuple[str, ...]


class Choices(list[Choice]):
    """A list that shows itself as tables, one for the choices that the same estimators take."""

    def __repr__(self) -> str:
        head = ("name", "class", "smooth", "in the estimator")
        tables: dict[str, list[tuple[str, ...]]] = {}
        for choice in self:
            title = ", ".join(choice.estimators)
            title = title if choice.task is None else f"{choice.task}: {title}"
            tables.setdefault(title, [head]).append(_cells(choice))
        columns = zip(*chain.from_iterable(tables.values()), strict=True)
        widths = [max(map(len, column)) for column in columns]
        lines: list[str] = []
        for title, rows in tables.items():
            lines += ["", title]
            for row in rows:
                padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
                lines.append(f"  {'  '.join(padded)}".rstrip())
        return "\n".join(lines[1:])


def list_losses(task: str | None = None) -> Choices:
    """List the losses of the bundle method: what they take, and which estimators accept them.

    Parameters
    ----------
    task : {"binary", "multiclass", "regression", "ranking"}, default=None
        What the losses are for; None lists all.

    Returns
    -------
    choices : list of named tuples
        It prints as a table. Each entry has the fields

        * ``name``: what the parameter `loss` of the estimator takes; None if you have to pass an
          instance;
        * ``kind``: the class, of :mod:`sklearn_bundle.losses`;
        * ``parameters``: a dict of what the class takes, with the defaults;
          ``inspect.Parameter.empty`` stands for a parameter that has none;
        * ``estimator_parameters``: names of those parameters of the estimator that are for this
          loss, which count if the loss is passed by name;
        * ``smooth``: whether the loss has a derivative everywhere;
        * ``task``: as above; a "binary" loss handles more classes one-versus-rest;
        * ``estimators``: names of the estimators that accept it.

    Raises
    ------
    ValueError
        For another task.

    See Also
    --------
    list_regularizers : The same for regularizers.

    Examples
    --------
    >>> from sklearn_bundle import list_losses
    >>> list_losses("multiclass")
    multiclass: BMRMClassifier, BMRMClassifierCV
      name                class                                         smooth  in the estimator
      'multiclass_hinge'  MulticlassHinge(cost=None, scaling='margin')  no      cost, scaling
      'softmax'           Softmax()                                     yes
      'ontology'          Ontology(edges, cost=None)                    no      edges, cost
    >>> [choice.name for choice in list_losses("regression") if choice.smooth and choice.name]
    ['squared_error', 'squared_epsilon_insensitive', 'huber', 'poisson']
    """
    tasks = list(dict.fromkeys(_TASKS.values()))
    if task is not None and task not in tasks:
        raise ValueError(f"task must be None or one of {tasks}, got {task!r}.")
    found = []
    for kind, known in _TASKS.items():
        takers = TAKERS[kind]
        for name, loss in _with_names(losses, kind, NAMED_LOSSES):
            own = getattr(sklearn_bundle, takers[0])._loss_parameters.get(name or "", {})
            found.append(_choice(name, loss, tuple(own), loss.smooth, known, takers))
    found.sort(key=lambda choice: tasks.index(choice.task))
    return Choices(choice for choice in found if task in (None, choice.task))


def list_regularizers() -> Choices:
    """List the regularizers: what they take, and which estimators accept them.

    Returns
    -------
    choices : list of named tuples
        It prints as a table. The fields are those of :func:`list_losses`, for the parameter
        `regularizer` and classes of :mod:`sklearn_bundle.regularizers`; ``task`` is None, and
        ``smooth`` says whether there is a derivative everywhere inside the domain. One that is not
        smooth makes weights exactly 0.

    See Also
    --------
    list_losses : The same for losses.

    Examples
    --------
    >>> from sklearn_bundle import list_regularizers
    >>> [choice.name for choice in list_regularizers() if choice.name and not choice.smooth]
    ['l1', 'elasticnet']
    >>> elastic_net = next(c for c in list_regularizers() if c.name == "elasticnet")
    >>> elastic_net.kind(**elastic_net.parameters), elastic_net.estimator_parameters
    (ElasticNet(l1_ratio=0.5), ('l1_ratio',))
    """
    named = {n: kind for n, kind in regularizers.REGULARIZERS.items() if n not in BY_INSTANCE}
    base, found = regularizers.Regularizer, []
    for name, kind in _with_names(regularizers, base, named):
        own = tuple(REGULARIZER_PARAMETERS.get(name or "", {}))
        has_kinks = kind.lasso_form is not base.lasso_form  # of the |w_j| in it
        found.append(_choice(name, kind, own, not has_kinks, None, _ALL))
    return Choices(found)


def _with_names(module: Any, base: type, named: dict[str, type]) -> list[tuple[str | None, type]]:
    """The classes of this base in a module, those that have a name first."""
    by_name = [(name, kind) for name, kind in named.items() if issubclass(kind, base)]
    public = (getattr(module, name) for name in module.__all__)
    kinds = [k for k in public if isclass(k) and issubclass(k, base) and not isabstract(k)]
    return [*by_name, *((None, kind) for kind in kinds if kind not in named.values())]


def _choice(name: str | None, kind: type, *further: Any) -> Choice:
    parameters = {p.name: p.default for p in signature(kind).parameters.values()}
    return Choice(name, kind, parameters, *further)


def _cells(choice: Choice) -> tuple[str, ...]:
    """A row of the table."""
    taken = (
        name if default is Parameter.empty else f"{name}={default!r}"
        for name, default in choice.parameters.items()
    )
    return (
        "an instance" if choice.name is None else repr(choice.name),
        f"{choice.kind.__name__}({', '.join(taken)})",
        "yes" if choice.smooth else "no",
        ", ".join(choice.estimator_parameters),
    )
