"""Check the documentation of every public name:  python .ci/docstrings.py

That doc/api.rst lists the names in the ``__all__`` of the public modules and no others; that
numpydoc finds no fault with a docstring; that classes and functions have examples (which pytest
runs), errors if they have parameters, and a source or relatives; that the defaults told are those
of the code; that the attributes told are those of a fit.
What scikit-learn wrote is left out. Prints a line a fault, and fails if there is one.
"""

import ast
import inspect
import re
import sys
import warnings
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator, validate
from sklearn.base import BaseEstimator

ROOT = Path(__file__).resolve().parent.parent
API = ROOT / "doc" / "api.rst"
PACKAGE = "sklearn_bundle"
MODULES = (
    *("", ".models", ".losses", ".regularizers", ".projection"),
    *(".metrics", ".datasets", ".plotting"),
)

# Checks of numpydoc that are off, and why.
OFF = {
    "GL01": "a summary stands on the line of the opening quotes",
    "ES01": "a summary may say all",
    "SA01": "not everything has a relative",
    "RT02": "a returned value has a name",
    "SS05": "takes plural nouns for verbs: 'Labels with the largest score'",
}
OFF_FOR_METHODS = {"EX01": "the example of the class shows them"}
# An override whose docstring has no sections keeps the contract of the method that it overrides.
OF_A_CONTRACT = ("PR", "RT", "YD")
# Attributes that a fit has or has not, depending on parameters and on X.
CONDITIONAL = {
    *("test_score_bounds_", "best_is_certain_"),  # with certain=True
    "gammas_",  # with gammas
    *("attribute_names_", "coef_", "feature_names_in_", "first_", "last_", "lengths_", "pairs_"),
    *("C_", "Cs_", "delta_", "epsilon_"),
}
# What has parameters, but raises nothing, and why.
RAISES_NOTHING = {
    f"sklearn_bundle.losses.{name}": "a tuple, which takes what it is given"
    for name in ("Cut", "Prepared", "Target")
}


def public_names() -> dict[str, Any]:
    """Dotted name -> object."""
    names = {}
    for suffix in MODULES:
        module = import_module(PACKAGE + suffix)
        for name in module.__all__:
            if not (name.startswith("_") or isinstance(getattr(module, name), ModuleType)):
                names[f"{module.__name__}.{name}"] = getattr(module, name)
    return names


def names_listed(text: str) -> list[str]:
    """Entries of the autosummary and data directives of a page, with their modules."""
    names, module, in_summary = [], "", False
    for line in text.splitlines():
        if line and not line.startswith(" "):
            in_summary = line.startswith(".. autosummary::")
        entry = r" +([A-Za-z]\w*)" if in_summary else r"\.\. data:: (\w+)"
        if found := re.fullmatch(r"\.\. (?:currentmodule|module):: (\S+)", line):
            module = found[1]
        elif found := re.fullmatch(entry, line):
            names.append(f"{module}.{found[1]}")
    return names


def is_for_solvers(kind: type, name: str) -> bool:
    """Whether a member of a loss is none of its contract: bases that are not public have it."""
    from sklearn_bundle.linear.losses.one_score import ScoreLoss

    public = {found for found in public_names().values() if inspect.isclass(found)}
    bases = [base for base in kind.__mro__[1:] if name in vars(base)]
    inner = any(issubclass(base, ScoreLoss) for base in bases if base not in public)
    return inner and not any(base in public for base in bases)


def methods(kind: type) -> list[tuple[str, bool]]:
    """Public methods and properties of ours, where they are defined; whether they override one."""
    ours = [c for c in kind.__mro__ if c.__module__.startswith(PACKAGE)]
    found = {}
    for cls in ours:
        for name, member in vars(cls).items():
            is_method = inspect.isroutine(member) or isinstance(
                member, property | classmethod | staticmethod
            )
            is_method |= hasattr(member, "__get__") and not inspect.isdatadescriptor(member)
            if name.startswith("_") or not is_method or re.fullmatch(r"set_\w+_request", name):
                continue
            if is_for_solvers(kind, name):
                continue
            found.setdefault(name, cls)
    return [
        (f"{owner.__module__}.{owner.__qualname__}.{name}", any(name in vars(c) for c in others))
        for name, owner in found.items()
        for others in [ours[ours.index(owner) + 1 :]]
    ]


def faults_of(name: str, *, is_method: bool = False, overrides: bool = False) -> list[str]:
    """What numpydoc has to say, and defaults that are wrong."""
    obj = Validator._load_obj(name)
    doc = inspect.cleandoc(obj.__doc__ or "")
    if overrides and not doc:
        return []
    off = OFF | OFF_FOR_METHODS if is_method else OFF
    skipped = OF_A_CONTRACT if overrides and "\n----" not in doc else ()
    faults = [
        f"{code} {message}"
        for code, message in validate(name)["errors"]
        if code not in off and not code.startswith(skipped)
    ]
    return faults + wrong_defaults(obj)


def wrong_defaults(obj: Any) -> list[str]:
    """Defaults in a docstring that are not those of the signature."""
    if isinstance(obj, property):
        return []
    faults = []
    told = Validator(get_doc_object(obj)).doc_parameters
    for name, parameter in inspect.signature(obj).parameters.items():
        kind = told.get(name, ("", ""))[0]
        default = parameter.default
        if name not in told or kind == "Ignored" or parameter.kind is parameter.VAR_KEYWORD:
            continue
        found = re.search(r"default=(.+)$", kind)
        if found is None:
            if default is not parameter.empty:
                faults.append(f"the default of {name} is not told")
        elif default is parameter.empty or not _is_written(found[1], default):
            faults.append(f"the default of {name} is not {found[1]} but {default!r}")
    return faults


def _is_written(text: str, value: Any) -> bool:
    if text in (getattr(value, "__name__", None), repr(value)):
        return True
    try:
        return ast.literal_eval(text) == value
    except (SyntaxError, ValueError):
        return False


def missing_sections(name: str, obj: Any) -> list[str]:
    """The errors of a class or function with parameters, and its source or relatives."""
    doc = get_doc_object(obj)
    faults = []
    if doc["Parameters"] and not doc["Raises"] and name not in RAISES_NOTHING:
        faults.append("parameters, but no section Raises")
    if not (doc["References"] or doc["See Also"]):
        faults.append("neither References nor See Also")
    return faults


def wrong_attributes(kind: type[BaseEstimator]) -> list[str]:
    """Attributes of a fitted estimator that are not documented, and the reverse."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind().fit(X, y)
    fitted = {name for name in vars(model) if re.fullmatch(r"[A-Za-z]\w*_", name)}
    told = {
        name
        for attribute in get_doc_object(kind)["Attributes"]
        for name in attribute.name.split(", ")
    }
    faults = [f"the attribute {name} is not documented" for name in sorted(fitted - told)]
    missing = sorted(name for name in told - fitted - CONDITIONAL if not hasattr(model, name))
    return faults + [f"a fit does not have the attribute {name}" for name in missing]


def main() -> int:
    sys.path.insert(0, str(ROOT))  # this checkout, whatever is installed
    names = public_names()
    listed = names_listed(API.read_text(encoding="utf-8"))
    faults = [f"{name}: not in doc/api.rst" for name in sorted(set(names) - set(listed))]
    faults += [f"{name}: in doc/api.rst, not public" for name in sorted(set(listed) - set(names))]
    faults += [f"{name}: twice in doc/api.rst" for name in listed if listed.count(name) > 1]
    seen = set()
    for name, obj in names.items():
        if not (inspect.isclass(obj) or inspect.isfunction(obj)):
            continue
        seen.add(name)
        faults += [f"{name}: {fault}" for fault in faults_of(name) + missing_sections(name, obj)]
        if not inspect.isclass(obj):
            continue
        if issubclass(obj, BaseEstimator) and "fit" in dir(obj):
            faults += [f"{name}: {fault}" for fault in wrong_attributes(obj)]
        for method, overrides in methods(obj):
            if method not in seen:
                seen.add(method)
                found = faults_of(method, is_method=True, overrides=overrides)
                faults += [f"{method}: {fault}" for fault in found]
    print("\n".join(faults) or f"{len(seen)} docstrings of {len(names)} public names: no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
