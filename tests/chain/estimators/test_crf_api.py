"""SDCACRF on lists of sequences with scikit-learn's tools, as its common checks do on 2-D X."""

import numpy as np
import pytest
from sklearn.model_selection import (
    GroupKFold,
    cross_val_score,
)

from sklearn_bundle import SDCACRF
from tests.contract.chains import (
    FORMS,
    named_chains,
)


@pytest.fixture(scope="module")
def chains():
    return named_chains()


@pytest.fixture(scope="module", params=FORMS)
def formed(request, chains):
    return FORMS[request.param](chains[0]), chains[1]


# ---- searches ---------------------------------------------------------------------------------


def test_folds_by_groups(formed):
    groups = np.arange(30) % 4
    scores = cross_val_score(SDCACRF(), *formed, cv=GroupKFold(4), groups=groups)
    assert len(scores) == 4


# ---- objects ----------------------------------------------------------------------------------


# ---- callbacks and Ctrl-C ---------------------------------------------------------------------
