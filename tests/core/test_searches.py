"""What all searches share: the choice and its rank, the time limit."""

from dataclasses import replace

import numpy as np
import pytest

from sklearn_bundle import SDCACRFCV, SwapSVCCV, SwapSVRCV
from sklearn_bundle.core import contract
from sklearn_bundle.core.contract import Status, TimeLimit
from sklearn_bundle.core.search import Grid, SearchResults
from tests.contract.test_searches import LABELS, SENTENCES, TARGET, X, Y, search

DATA = {"SwapSVCCV": (X, Y), "SwapSVRCV": (X, TARGET), "SDCACRFCV": (SENTENCES, LABELS)}


def table(scores, values=(1.0, 0.1, 0.01), name="reg_lambda"):
    """The results of folds with these scores."""
    folds = [(list(s), [1.0] * len(values)) for s in scores]
    return SearchResults(Grid({name: np.array(values)}), folds)


def test_the_choice_and_its_rank():
    tied = table([[0.2, 0.3, 0.2], [0.4 - 1e-15, 0.3, 0.2]])
    assert tied.place == 0 and tied.table()["rank_test_score"].tolist() == [1, 1, 3]
    undefined = table([[np.nan, 0.3, 0.3], [0.4, 0.1, 0.2]])
    assert undefined.place == 2 and undefined.table()["rank_test_score"].tolist() == [3, 2, 1]
    assert table([[np.nan] * 3]).place == 0
    assert table([[-np.inf, 0.0, np.inf]]).place == 2
    # Folds that a time limit ended: the second value is best on both.
    ended = table([[0.2, 0.3, 0.9], [0.2, 0.3]])
    assert ended.place == 1 and ended.n_scored.tolist() == [2, 2, 1]
    assert np.isnan(ended.means[2]) and ended.table()["rank_test_score"].tolist() == [2, 1, 3]
    better = table([[0.2, 0.3, 0.9], [0.2, 0.1]])  # the last one has no score on the second fold
    assert better.place == 0
    partly = table([[0.2, 0.3], []])
    assert partly.place == 1 and partly.score(1) == 0.3
    assert table([[], []]).place == 0


def test_time_limits_share_what_is_left():
    limit = TimeLimit(10.0)
    assert limit.part(4, 0.2).left == pytest.approx(2.0, abs=0.1)
    assert TimeLimit(None).part(4, 0.2).left is None
    assert TimeLimit(1e-9).left == 0.0


@pytest.mark.parametrize("kind", [SwapSVCCV, SwapSVRCV, SDCACRFCV])
@pytest.mark.parametrize("n_fits", [0, 4])
def test_a_time_limit_leaves_the_best_that_is_known(monkeypatch, kind, n_fits):
    """The limit is over after so many fits: before any, or after one fit of the second fold."""
    begun = 0

    def take(solver, *, observe=None, **limits):
        nonlocal begun
        result = original(solver, observe=observe, **limits)
        if observe is not None:  # the fit to all data
            return result
        begun += 1
        most = 400.0 if begun <= (3 if n_fits else 1) else 800.0  # 200 are for the last fit
        assert 0.0 < limits["max_time"] <= most
        return replace(result, status=Status.MAX_TIME) if begun > n_fits else result

    original = contract.run
    monkeypatch.setattr(contract, "run", take)
    data = DATA[kind.__name__]
    ours, name = search(kind, cv=2, max_time=1e3)
    known = "the best that is known" if n_fits else "the first value"
    match = rf"max_time=1000 ended the search of {kind.__name__}: {n_fits // 4} of 3 .*{known}"
    with pytest.warns(UserWarning, match=match):
        ours.fit(*data)
    values, found = getattr(ours, f"{name}s_"), ours.cv_results_
    assert getattr(ours, f"{name}_") == values[0] and ours.status_ == "converged"
    assert np.isfinite(found["mean_test_score"]).tolist() == [n_fits > 0, False, False]
    assert np.isfinite(found["split0_test_score"]).all() == (n_fits > 0)
    if n_fits:
        assert found["rank_test_score"].tolist() == [1, 2, 2]
