"""Wide rows in blocks whose scores come to the client: as all rows in memory."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from sklearn_bundle.linear.problems.gathered_rows import GatheredProblem
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.problems.row_block import RowBlock
from sklearn_bundle.linear.problems.row_blocks import formulation
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.protocols import LineSearch, offers
from sklearn_bundle.losses import AbsoluteError, Hinge

N, D = 30, 50
CUTS = (0, 4, 5, 22, N)


class Here:
    """Blocks in this process."""

    def __init__(self, blocks):
        self.blocks, self.n_blocks = blocks, len(blocks)

    def map(self, task, *args, each=None):
        if each is None:
            return [task(block, *args) for block in self.blocks]
        return [task(block, one, *args) for block, one in zip(self.blocks, each, strict=True)]

    def total(self, task, *args, answer_bytes, each=None):
        return [sum(parts) for parts in zip(*self.map(task, *args, each=each), strict=True)]


@pytest.fixture(params=["hinge", "absolute_error"])
def both(request):
    """The problem in blocks, and that of the same rows in memory."""
    rng = np.random.default_rng(0)
    X = sp.random_array((N, D), density=0.3, format="csr", rng=rng)
    y, weights = rng.standard_normal(N), rng.dirichlet(np.ones(N))
    loss, labels, positive = AbsoluteError(), y, None
    if request.param == "hinge":
        loss, labels, positive = Hinge(), (y > 0.0).astype(int), 1
        y = np.where(y > 0.0, 1.0, -1.0)
    blocks = [RowBlock(X[a:b], labels[a:b], weights[a:b]) for a, b in pairwise(CUTS)]
    of = formulation(loss, positive=positive, n_outputs=None)
    memory = rows_in_memory(X)
    gathered = GatheredProblem(Here(blocks), of, D, X.nnz, memory.column_scale(), True)
    return gathered, LinearProblem(memory, y, weights, loss, True)


def test_planes_and_lines_are_those_of_all_rows(both):
    gathered, memory = both
    rng = np.random.default_rng(1)
    w, v = rng.standard_normal((2, D))
    planes, steps = [], []
    for problem in both:
        start, end = problem.point(w), problem.point(v)
        planes.append(problem.cut(start))
        problem.set_intercept(end)
        steps.append(problem.line_search(start, end, -0.1, 0.3))
    np.testing.assert_allclose(planes[0].gradient, planes[1].gradient, atol=1e-14)
    assert planes[0].offset == pytest.approx(planes[1].offset, rel=1e-12)
    assert planes[0].risk == pytest.approx(planes[1].risk, rel=1e-12)
    assert steps[0] == pytest.approx(steps[1], rel=1e-12)
    assert gathered.rounds == gathered.passes == 3
    for one, other in zip(*(problem.sizes(problem.point(w)) for problem in both), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert gathered.rows.mean_square(gathered.weights) == pytest.approx(
        memory.rows.mean_square(memory.weights)
    )


def test_only_solvers_that_need_no_rows_take_it(both):
    gathered, _ = both
    assert offers(gathered, LineSearch)
    assert not offers(gathered, LinearProblem)
    gathered.point(np.ones(D))
    gathered.begin()
    assert gathered.rounds == gathered.passes == 0
