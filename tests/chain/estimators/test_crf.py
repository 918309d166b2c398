"""SDCACRF: the optimum, the certificate, and what must not change them."""

import numpy as np
import pytest

from sklearn_bundle import SDCACRF
from tests.contract.chains import DUAL, SAMPLINGS, SOLVERS, WEIGHTS, assert_true_certificate
from tests.contract.fits import quiet
from tests.reference_chain import made


@pytest.fixture(scope="module")
def chains():
    return made()


# ---- the optimum ------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[None, WEIGHTS], ids=["unweighted", "weighted"])
def weighted(request):
    return request.param


@pytest.mark.wide
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("nonuniformity", [0.0, 0.8, 1.0])
@pytest.mark.parametrize("solver", DUAL)
def test_every_sampling_converges(chains, solver, sampling, nonuniformity):
    ours = SDCACRF(
        reg_lambda=0.05, solver=solver, sampling=sampling, nonuniformity=nonuniformity,
        tol=1e-6, max_iter=1000, random_state=0,
    ).fit(*chains)  # fmt: skip
    assert ours.status_ == "converged"
    assert_true_certificate(ours, *chains)
    assert (np.diff(ours.history_["lower_bound"]) >= -1e-13).all()


@pytest.mark.parametrize("precision", [1e-9, 1e-1, 1.0])
def test_any_precision_of_the_line_search_converges(chains, precision):
    model = SDCACRF(solver="sdca", line_search_tol=precision, tol=1e-6, max_iter=1000)
    assert model.fit(*chains).status_ == "converged"


@pytest.fixture(scope="module")
def crfsuite(chains, tmp_path_factory):
    """Data as dicts, the objective that CRFsuite's L-BFGS reaches, and its model.

    ``c2 = n reg_lambda / 2``: it multiplies ||w||^2 on the summed loss.
    """
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X = [[{f"f{k}": v for k, v in enumerate(row)} for row in x] for x in chains[0]]
    y = [[f"L{label}" for label in labels] for labels in chains[1]]
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {
            "feature.possible_states": 1,
            "feature.possible_transitions": 1,
            "feature.minfreq": -1e9,  # with 0 attributes whose values have a negative sum are lost
            "c1": 0.0,
            "c2": len(X) * 0.05 / 2.0,
            "epsilon": 1e-10,
            "delta": 1e-15,
            "max_iterations": 10_000,
        }
    )
    for tokens, labels in zip(X, y, strict=True):
        trainer.append(tokens, labels)
    path = str(tmp_path_factory.mktemp("crfsuite") / "model")
    trainer.train(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    return X, y, trainer.logparser.last_iteration["loss"] / len(X), tagger


# ---- the certificate --------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_long_sequence(solver):
    """A single block gives the dual methods little to choose from; what they say must be true."""
    X, y = made(1, 3, longest=1)
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(2000, 4))]
    y = [np.where(rng.random(2000) < 0.7, X[0][:, :3].argmax(axis=1), rng.integers(0, 3, 2000))]
    model = quiet(SDCACRF(solver=solver, max_iter=50), X, y)
    assert_true_certificate(model, X, y)
    assert model.lower_bound_ > 0.0
    assert solver != "lbfgs" or model.status_ == "converged"
