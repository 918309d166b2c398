"""Random problems of all kinds and scales: no certificate of a fit may be false.

``asv_benchmarks/studies/stress.py`` runs as many as you like.
"""

import pytest

from tests.random_problems import ESTIMATORS, draw, verdict

FIRST, ROWS = 6_000_000, 30  # of the seeds; rows at most
FEW, OTHERS = range(3), range(3, 18)  # seeds for each estimator


@pytest.mark.parametrize("seeds", [FEW, pytest.param(OTHERS, marks=pytest.mark.wide)], ids=str)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_false_certificate(name, seeds):
    found = [verdict(draw(FIRST + k, name, ROWS)) for k in seeds]
    assert [(v.problem.seed, v.faults) for v in found if v.faults] == []
    assert [(v.problem.seed, v.warned) for v in found if v.warned] == []
    assert sum(bool(v.refused or v.weak) for v in found) <= len(seeds) // 3  # these tell little


def test_two_classes_at_unequal_depths_of_a_hierarchy():
    """The third class has no weight left; the weights of the other two are not opposite."""
    assert verdict(draw(12_000_406)).faults == []
