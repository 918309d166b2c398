"""Random problems of every estimator, of all sorts and of the plainest shapes: no lie, no crash.

Nine seeds and four plain ones of each, the same in every run.
``asv_benchmarks/studies/stress.py`` takes as many as you like.
"""

import pytest

from tests.contract.draws import ESTIMATORS, draw, draw_plain, verdict

FIRST = 59_000_000


def check(problem):
    found = verdict(problem)
    assert not found.crashed and not found.faults, f"{problem}: {found.crashed or found.faults}"
    assert found.statuses or found.refused


@pytest.mark.parametrize("seed", range(9))
@pytest.mark.parametrize("name", ESTIMATORS)
def test_random(name, seed):
    check(draw(FIRST + seed, name, most=40))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ESTIMATORS)
def test_plain(name, seed):
    check(draw_plain(FIRST + seed, name))
