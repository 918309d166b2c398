"""Large relevances: those of counts, where NDCG expects grades."""

import numpy as np
import pytest

from sklearn_bundle import BMRMRanker
from sklearn_bundle.losses import NDCG

X, GROUP = np.array([[0.0], [2.0], [1.0], [3.0]]), [0, 0, 0, 0]


@pytest.mark.parametrize("loss", ["ndcg", NDCG(k=2)], ids=["by name", "instance"])
def test_counts_are_refused_with_the_gain_for_them(loss):
    ranker = BMRMRanker(loss, reg_lambda=0.1)
    with pytest.raises(ValueError, match=r"at most 1000, .*y\[3\] is 1024.*NDCG\(gain='linear'\)"):
        ranker.fit(X, [0, 5, 3, 1024], group=GROUP)


def test_what_the_message_names_works():
    relevances = [0, 5, 3, 1024]
    linear = BMRMRanker(NDCG(gain="linear"), reg_lambda=0.1).fit(X, relevances, group=GROUP)
    assert linear.score(X, relevances, group=GROUP) == 1.0
    largest = BMRMRanker(NDCG(), reg_lambda=0.1).fit(X, [0, 1000, 3, 1000], group=GROUP)
    assert 0.0 < largest.dual_gap_ <= 1e-3 * largest.objective_
