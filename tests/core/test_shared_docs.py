"""Docstrings show the texts that they share, and errors in their markers show at once."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sklearn_bundle
from sklearn_bundle.core.shared_docs import Documented, fill_doc, shared_texts

PACKAGE = Path(sklearn_bundle.__file__).parent
SOURCES = [file.read_text("utf-8") for file in PACKAGE.glob("*/estimators/*.py")]
NAMES = re.findall(r"^@fill_doc\nclass (\w+)", "\n".join(SOURCES), re.MULTILINE)
PUBLIC = {name: getattr(sklearn_bundle, name) for name in sorted(sklearn_bundle.__all__)}
CLASSES = [name for name, found in PUBLIC.items() if inspect.isclass(found)]
MOST = 900  # words, a reader's limit in a terminal: theory and long reasons stand on the pages
TEXTS = {text for name in NAMES for text in shared_texts(getattr(sklearn_bundle, name))}

# Without docstrings, of a search too, whose markers name its base class.
WITHOUT = "from sklearn_bundle import SwapSVRCV; print(SwapSVRCV.__doc__)"


class Base:
    """A base class.

    Parameters
    ----------
    first : int, default=1
        The first one,
        on two lines.
    second : int, default=2
        The second one.
    """


def test_markers_become_texts_and_entries_of_the_base():
    @fill_doc
    class Derived(fill_doc(Base), Documented):
        """A class.

        Parameters
        ----------
        %(Base.first)s
            It is continued.
        %(Base.second: As there (on one line).)s
            It is continued too.
        %(random_state: the order (of all))s
        %(verbose)s
        """

    verbose = shared_texts(Documented)["verbose"]
    assert (Derived.__doc__ or "").endswith(
        "----------\n"
        "first : int, default=1\n    The first one,\n    on two lines.\n    It is continued.\n"
        "second : int, default=2\n    As there (on one line).\n    It is continued too.\n"
        "random_state : int, RandomState instance or None, default=None\n"
        f"    Seed for the order (of all).\n{verbose}\n"
    )


@pytest.mark.parametrize(
    "marker",
    [
        *("%(verbos)s", "%(Base.third)s", "%(Other.first)s", "%(random_state)s"),
        *("%(Base.third: As there.)s", "%(Other.first: As there.)s"),
        *("%(verbose: loudly)s", "%(verbose)", "see %(verbose)s"),
    ],
)
def test_a_marker_without_a_text_is_an_error(marker):
    kind = type(
        "Derived", (fill_doc(Base), Documented), {"__doc__": f"A class.\n\n    {marker}\n    "}
    )
    with pytest.raises(ValueError, match=re.escape(marker)):
        fill_doc(kind)


@pytest.mark.parametrize("name", NAMES)
def test_estimators_show_the_whole_text(name):
    kind = getattr(sklearn_bundle, name)
    text = inspect.getdoc(kind) or ""
    assert "%(" not in text
    for parameter in inspect.signature(kind).parameters:
        assert re.search(rf"^{parameter} : .+\n    \S", text, re.MULTILINE)


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_is_described_in_few_words(name):
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert 100 < len(text.split()) <= MOST


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_text_is_shared(name):
    assert sum(len(re.findall(rf"%\({name}[:)]", source)) for source in SOURCES) > 1


@pytest.mark.wide
def test_classes_without_docstrings_stay_without():
    command = [sys.executable, "-OO", "-c", WITHOUT]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "None\n"
