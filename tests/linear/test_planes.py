"""Measures, rankings and nu-novelty: planes against enumerations and linear programs."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from sklearn_bundle.linear.losses import NDCG, ROCAUC, FBeta, NuNovelty, Ordinal
from tests import reference_measures as measures

RANDOM = np.random.default_rng(2)
N = 8
GRADES, QUERY = RANDOM.permutation(np.arange(N) % 3), np.arange(N) % 2
LABELS = np.where(GRADES > 0, 1.0, -1.0)
WEIGHTS = RANDOM.dirichlet(np.ones(N))


def tail(f, s):
    """Rockafellar and Uryasev: minus the mean of the lowest share of the weight."""
    program = linprog(f, A_eq=[np.ones(N)], b_eq=[1.0], bounds=np.c_[np.zeros(N), s / 0.3])
    return -program.fun


def ordinal(cost, query=None):
    loss, price = Ordinal(cost), measures.COSTS[cost]
    group = np.zeros(N) if query is None else query
    blocks = of(lambda s: measures.ordinal(GRADES, s, price, group))
    return loss, loss.prepare(GRADES, query, N), blocks


def of(blocks):
    """The risk of scores f with weights s."""
    return lambda f, s: measures.risk(blocks(s), f)


CASES = {
    "roc": (ROCAUC(), LABELS, of(lambda s: measures.roc_auc(LABELS, s))),
    "fbeta": (FBeta(2.0), LABELS, of(lambda s: measures.f_beta(LABELS, 2.0))),
    "absolute": ordinal("absolute"),
    "squared": ordinal("squared", QUERY),
    "lists": (
        NDCG(),
        NDCG().prepare(GRADES, QUERY, N),
        of(lambda s: measures.ndcg(GRADES, QUERY, s, None)),
    ),
    "tail": (NuNovelty(0.3), None, tail),
}


@pytest.mark.parametrize(("loss", "y", "risk"), CASES.values(), ids=list(CASES))
def test_the_plane_touches_the_risk_and_lies_below(loss, y, risk):
    s, g = np.full(N, 1.0 / N) if isinstance(loss, NDCG) else WEIGHTS, np.empty(N)
    for _ in range(5):
        f = RANDOM.normal(size=N).round(1)  # with ties
        value, offset = loss.cut(f, y, s, g)
        assert value == pytest.approx(risk(f, s), rel=1e-9, abs=1e-9)
        assert value == pytest.approx(g @ f + offset, abs=1e-14)
        for h in RANDOM.normal(size=(5, N)):
            assert g @ h + offset <= risk(h, s) + 1e-9


def test_scores_are_the_measures():
    f = np.array([0.2, 0.9, 0.1, 0.4, 0.9, 0.3, 0.0, 0.5])
    loss = Ordinal()
    share = loss.score(f, loss.prepare(GRADES, None, N), WEIGHTS)
    pairs = [(i, j) for i, j in product(range(N), repeat=2) if GRADES[i] < GRADES[j]]
    s = np.array([WEIGHTS[i] * WEIGHTS[j] for i, j in pairs])
    order = np.array([0.5 + 0.5 * np.sign(f[j] - f[i]) for i, j in pairs])
    assert share == pytest.approx(s @ order / s.sum())
    measure = NDCG(2, gain="linear")
    target = measure.prepare([0.0, 1.0, 2.0], np.zeros(3), 3)
    assert measure.score(f[:3], target, np.ones(3)) == pytest.approx(0.38, abs=1e-3)


def test_best_offsets_of_nu_novelty():
    f, s = np.array([1.0, 2.0, 5.0, 6.0]), np.full(4, 0.25)
    assert NuNovelty(0.5).offsets(f, s) == (2.0, 5.0) and NuNovelty(0.5).offset(f, s) == 3.5
    assert NuNovelty(0.6).offsets(f, s) == (5.0, 5.0) and NuNovelty(1.0).offsets(f, s) == (6.0, 6.0)
    assert NuNovelty(1e-20).offsets(f, s) == (1.0, 1.0)


def test_one_grade_is_no_order():
    with pytest.raises(ValueError, match="two or more grades"):
        Ordinal().prepare(np.ones(N), QUERY, N)
