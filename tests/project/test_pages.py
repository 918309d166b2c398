"""Links of HTML representations, and the one place that has the project's addresses."""

import inspect
import re
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sklearn_bundle
from sklearn_bundle import BMRMClassifier, models
from sklearn_bundle.core import shared_docs
from sklearn_bundle.core.shared_docs import project_url

ROOT = Path(__file__).parents[2]
PUBLIC = [
    (module.__name__, kind)
    for module in (sklearn_bundle, models)
    for kind in (getattr(module, name) for name in module.__all__)
    if inspect.isclass(kind) and issubclass(kind, BaseEstimator) and not inspect.isabstract(kind)
]


@pytest.fixture
def urls(monkeypatch):
    """What an installed package says of its addresses; to be changed before the first question."""
    found = []
    monkeypatch.setattr(shared_docs, "metadata", lambda name: Metadata(found))
    project_url.cache_clear()
    yield found
    project_url.cache_clear()


class Metadata(list):
    def get_all(self, name):
        return list(self) if name == "Project-URL" else None


@pytest.mark.parametrize(("module", "kind"), PUBLIC, ids=lambda v: getattr(v, "__name__", v))
def test_a_representation_links_to_the_page_of_its_class(urls, module, kind):
    urls.append("Documentation, https://bundle.test/stable/")
    page = f"{module}.{kind.__name__}"
    estimator = object.__new__(kind)  # some need arguments
    assert estimator._get_doc_link() == f"https://bundle.test/stable/generated/{page}.html"
    listed = re.findall(r"^   (\w+)$", (ROOT / "doc/api.rst").read_text("utf-8"), re.MULTILINE)
    assert kind.__name__ in listed


def test_the_link_is_in_the_html_of_a_pipeline(urls):
    urls.append("Documentation, https://bundle.test")
    shown = make_pipeline(StandardScaler(), BMRMClassifier())._repr_html_()
    assert 'href="https://bundle.test/generated/sklearn_bundle.BMRMClassifier.html"' in shown


@pytest.mark.parametrize(
    "known", [[], ["Documentation, https://example.org/x"], ["Homepage, https://bundle.test"]]
)
def test_without_an_address_there_is_no_link(urls, known):
    urls.extend(known)
    assert BMRMClassifier()._get_doc_link() == ""
    assert "bundle.test" not in BMRMClassifier()._repr_html_()


def test_a_class_of_the_user_has_no_page(urls):
    urls.append("Documentation, https://bundle.test")

    class Mine(BMRMClassifier):
        pass

    assert Mine()._get_doc_link() == ""


def test_placeholders_are_in_one_file():
    patterns = "*.rst", "*.toml", "*.cff", "sklearn_bundle/**/*.py", "doc/**/*.rst", "doc/*.py"
    files = [file for pattern in patterns for file in ROOT.glob(pattern)]
    found = [f for f in files if "example.org/sklearn-bundle" in f.read_text("utf-8")]
    assert found == [ROOT / "pyproject.toml"]


def test_fitted_attributes_in_html_begin_with_the_certificate():
    model = BMRMClassifier().fit([[0.0], [1.0]], [0, 1])
    if not hasattr(BaseEstimator, "_get_fitted_attr_html"):
        pytest.skip("this version of scikit-learn shows parameters only")
    shown = list(model._get_fitted_attr_html())
    assert shown[:2] == ["converged_", "relative_gap_"] and "history_" not in shown
    assert {"coef_", "intercept_", "classes_"} <= set(shown)
    assert "relative_gap_" in model._repr_html_()
