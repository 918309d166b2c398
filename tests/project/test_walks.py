"""The walks of the architecture page against the calls of the fits that they follow."""

import re
from pathlib import Path

import pytest

from tests.walks import FITS, recorded

PAGE = (Path(__file__).parents[2] / "doc" / "architecture.rst").read_text(encoding="utf-8")
STEP = re.compile(r"^( *)``([\w/]+\.py: [\w.]+)``$", re.MULTILINE)
INDENT = 3


def steps(walk):
    """Functions in the order of the page, each with the one under which it is indented."""
    section = re.search(rf"\n\.\. _walk-of-{walk}:\n(.*?)(?=\n\.\. _|\nWhat the)", PAGE, re.DOTALL)
    found, above = [], []
    for indent, function in STEP.findall(section[1]):
        del above[len(indent) // INDENT :]
        found.append((function, above[-1] if above else None))
        above.append(function)
    return found


def missing(walk, calls):
    """The steps that are not called under the ones above them, after the ones before them."""
    calls, lost = iter(calls), []
    for function, above in steps(walk):
        for call in calls:
            if call.function == function and (above is None or above in call.within):
                break
        else:
            lost.append(function)
    return lost


@pytest.mark.wide
@pytest.mark.parametrize("walk", FITS)
def test_each_step_is_called_by_the_one_above_it_and_in_order(walk):
    if walk == "blocks":
        pytest.importorskip("dask.array")
    assert len(steps(walk)) > 15
    assert missing(walk, recorded(FITS[walk])) == []
    assert any("/_compiled/" in function for function, _ in steps(walk))


def test_a_step_that_is_gone_or_elsewhere_is_missing():
    calls = recorded(FITS["BMRMClassifier"])
    gone = "linear/_compiled/design.py: dense_gradient"
    assert missing("BMRMClassifier", [call for call in calls if call.function != gone])[0] == gone
    elsewhere = [call._replace(within=()) if call.function == gone else call for call in calls]
    assert missing("BMRMClassifier", elsewhere)[0] == gone
