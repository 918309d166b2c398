"""Few columns of sparse data would become dense rows: here they stay sparse."""

import pytest

from sklearn_bundle.kernel.values import _points


@pytest.fixture(autouse=True)
def sparse_points_stay_sparse(monkeypatch):
    monkeypatch.setattr(_points, "pays_dense", lambda X: False)
