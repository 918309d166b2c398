"""SDCACRF: the optimum, the certificate, and what must not change them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import SDCACRF
from tests import reference_chain as reference
from tests.contract.chains import DUAL, SAMPLINGS, SOLVERS, WEIGHTS, assert_true_certificate, parts
from tests.contract.fits import quiet
from tests.reference_chain import made


@pytest.fixture(scope="module")
def chains():
    return made()


# ---- the optimum ------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[True, False], ids=["biases", "no biases"])
def fit_intercept(request):
    return request.param


@pytest.fixture(scope="module", params=[None, WEIGHTS], ids=["unweighted", "weighted"])
def weighted(request):
    return request.param


@pytest.fixture(scope="module")
def best(chains, fit_intercept, weighted):
    """The optimum of an optimizer that knows nothing of the dual."""
    model = reference.Model(*chains, 3, 0.05, weighted, fit_intercept)
    return model, model.optimum()


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-9])
def test_optimum(chains, fit_intercept, weighted, best, solver, tol):
    ours = SDCACRF(
        reg_lambda=0.05, solver=solver, tol=tol, max_iter=1000, fit_intercept=fit_intercept
    ).fit(*chains, weighted)
    model, w = best
    optimum = model.objective(w)
    assert ours.status_ == "converged" and ours.dual_gap_ <= tol * ours.objective_
    assert ours.lower_bound_ <= optimum * (1.0 + 1e-12)
    assert optimum * (1.0 - 1e-12) <= ours.objective_ <= optimum * (1.0 + tol)
    # P is strongly convex; the reference's own error is about 1e-8
    distance = np.linalg.norm(model.joined(*parts(ours)) - w)
    assert distance <= np.sqrt(2.0 * max(ours.dual_gap_, 0.0) / 0.05) + 1e-7
    if not fit_intercept:
        assert not np.any([ours.intercept_, ours.start_, ours.end_])


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


@pytest.mark.wide
@pytest.mark.parametrize("solver", SOLVERS)
def test_crfsuite(crfsuite, solver):
    """Objective to the six digits that it prints, and weights."""
    X, y, loss, tagger = crfsuite
    model = SDCACRF(reg_lambda=0.05, fit_intercept=False, solver=solver, tol=1e-9, max_iter=1000)
    model.fit(X, y)
    assert model.objective_ == pytest.approx(loss, rel=1e-6)
    info, names = tagger.info(), model.attribute_names_.tolist()
    assert len(info.state_features) == 12 and len(info.transitions) == 9
    for (name, label), weight in info.state_features.items():
        assert model.coef_[int(label[1]), names.index(name)] == pytest.approx(weight, abs=1e-4)
    for (one, other), weight in info.transitions.items():
        assert model.transitions_[int(one[1]), int(other[1])] == pytest.approx(weight, abs=1e-4)


def test_predictions_of_crfsuite(crfsuite):
    X, y, _, tagger = crfsuite
    model = SDCACRF(reg_lambda=0.05, fit_intercept=False, tol=1e-9, max_iter=1000).fit(X, y)
    assert model.predict(X) == [tagger.tag(tokens) for tokens in X]
    log_p, marginals = model.predict_log_proba(X, y), model.predict_marginals(X)
    for i, (tokens, labels) in enumerate(zip(X, y, strict=True)):
        tagger.set(tokens)
        assert np.exp(log_p[i]) == pytest.approx(tagger.probability(labels), abs=1e-4)
        for t in range(len(tokens)):
            expected = [tagger.marginal(label, t) for label in model.classes_]
            assert_allclose(marginals[i][t], expected, atol=1e-4)


@pytest.mark.wide
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_logistic_regression(solver, weighted, fit_intercept):
    """Chains of length one. Their three biases, all regularized, are three columns of ones."""
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    weights = np.random.default_rng(0).integers(1, 4, 150) if weighted else np.ones(150)
    ours = SDCACRF(
        reg_lambda=0.01, solver=solver, tol=1e-10, max_iter=2000, fit_intercept=fit_intercept
    ).fit(X, y, weights)
    theirs = LogisticRegression(
        C=1.0 / (weights.sum() * 0.01), fit_intercept=False, tol=1e-8, max_iter=10_000
    )
    columns = np.c_[X, np.ones((150, 3))] if fit_intercept else X
    theirs.fit(columns, y, weights)
    assert_allclose(ours.coef_, theirs.coef_[:, :4], atol=1e-3)
    if fit_intercept:
        for part in (ours.intercept_, ours.start_, ours.end_):
            assert_allclose(part, theirs.coef_[:, 4], atol=1e-3)
    assert not ours.transitions_.any()
    assert_allclose(ours.predict_marginals(X), theirs.predict_proba(columns), atol=1e-4)
    assert_array_equal(ours.predict(X), theirs.predict(columns))


# ---- the certificate --------------------------------------------------------------------------

KINDS = {
    "short": {"longest": 2},
    "of length one": {"longest": 1},
    "two labels": {"K": 2},
    "fifty labels": {"K": 50, "n": 60},
    "one sequence": {"n": 1, "longest": 1, "K": 2},
    "wide": {"d": 300, "n": 10},
}


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_certificate_in_plain_numpy(kind, solver, dtype):
    X, y = made(**KINDS[kind])
    if kind == "one sequence":
        X, y = made(6, 2)
        X, y = X[-1:], [[0, 1, 1, 0, 1, 0]]
    X = [x.astype(dtype) for x in X]
    model = SDCACRF(solver=solver, tol=1e-6, max_iter=2000, random_state=0).fit(X, y)
    assert model.status_ == "converged" and model.dual_gap_ <= 1e-6 * model.objective_
    assert_true_certificate(model, X, y)


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
