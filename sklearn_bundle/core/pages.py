"""Where the project's pages are: what pyproject.toml says, as the installed package knows it."""

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any, ClassVar

_CERTIFICATE = ("converged_", "relative_gap_", "objective_", "lower_bound_", "dual_gap_", "status_")
_PLACEHOLDER = "//example.org/"  # a host without pages, of projects that have none yet


@cache  # reading the metadata takes some milliseconds
def project_url(label: str) -> str | None:
    """The address under this label of ``[project.urls]``; None for a placeholder, or if unknown."""
    try:
        entries = metadata("sklearn-bundle").get_all("Project-URL") or []
    except PackageNotFoundError:  # run from a checkout that nobody installed
        return None
    for entry in entries:
        name, _, url = entry.partition(", ")
        if name == label and _PLACEHOLDER not in url:
            return url
    return None


class Documented:
    """Links HTML representations to the API pages, as scikit-learn's estimators have it.

    It comes before ``BaseEstimator``, whose link it replaces. Without an address there is none.
    """

    _doc_link_module = "sklearn_bundle"
    _public_module: ClassVar[str] = "sklearn_bundle"  # of the pages; files have other names

    @property
    def _doc_link_template(self) -> str:
        root = project_url("Documentation")
        if root is None:
            return ""
        return f"{root.rstrip('/')}/generated/{self._public_module}.{{estimator_name}}.html"

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """The fitted attributes in HTML: the certificate first, and no history.

        Its data type is a line of a thousand pixels, which pushes all values off the screen.
        """
        estimator: Any = super()
        shown = estimator._get_fitted_attr_html(doc_link)
        first = [name for name in _CERTIFICATE if name in shown]
        others = [name for name in shown if name not in (*first, "history_")]
        shown.data = {name: shown[name] for name in (*first, *others)}
        return shown
