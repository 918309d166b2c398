"""The peers' models at equal parameters, and every loss with every regularizer against clarabel."""

import numpy as np
import pytest
from scipy.linalg import solve
from sklearn.linear_model import (
    ElasticNet,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
)
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR, OneClassSVM

from sklearn_bundle import (
    SDCACRF,
    BMRMClassifier,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    PragamSVC,
    StructuredSVM,
    SwapNoveltyDetector,
    SwapSVC,
    SwapSVR,
)
from sklearn_bundle.regularizers import Quadratic, WeightedL1
from tests.contract.cases import data
from tests.contract.draws import Problem, verdict
from tests.contract.fits import quiet
from tests.reference_chain import made

N, D, REG_LAMBDA = 60, 4, 0.05
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)) * [1.0, 2.0, 0.5, 1.0] + 0.3
F = X @ [1.0, -0.5, 0.7, 0.0] + RNG.normal(size=N)
TWO, THREE = (F > 0.3).astype(int), np.digitize(F, [-0.7, 0.7])
WEIGHTS = RNG.integers(0, 4, N).astype(float)
POSITIVE = WEIGHTS + 0.5  # SVC takes rows of a given matrix for others if one has no weight
TOTAL = WEIGHTS.sum()
TIGHT = {"tol": 1e-12, "max_iter": 20_000}


def close(ours, theirs, atol=1e-4):
    np.testing.assert_allclose(np.ravel(ours), np.ravel(theirs), atol=atol, rtol=1e-4)


def same_model(ours, theirs, atol=1e-4):
    close(ours.coef_, theirs.coef_, atol)
    close(ours.intercept_, theirs.intercept_, atol)


def classifier(loss, y=TWO, **parameters):
    model = BMRMClassifier(loss, reg_lambda=REG_LAMBDA, **(TIGHT | parameters))
    return quiet(model, X, y, WEIGHTS)


def regressor(loss, y=F, weights=WEIGHTS, **parameters):
    model = BMRMRegressor(loss, reg_lambda=REG_LAMBDA, **(TIGHT | parameters))
    return quiet(model, X, y, weights)


C = 1.0 / (TOTAL * REG_LAMBDA)  # of a sum of losses with weights


# ---- linear models ----------------------------------------------------------------------------


def test_logistic_regression():
    for loss, y in (("log_loss", TWO), ("softmax", THREE)):
        theirs = LogisticRegression(C=C, tol=1e-12, max_iter=10_000).fit(X, y, WEIGHTS)
        ours = classifier(loss, y)
        shift = 0.0 if loss == "log_loss" else ours.intercept_.mean() - theirs.intercept_.mean()
        close(ours.coef_, theirs.coef_)
        close(ours.intercept_ - shift, theirs.intercept_)
        close(ours.predict_proba(X), theirs.predict_proba(X))


def test_logistic_regression_with_l1():
    parameters = {"C": C, "l1_ratio": 1.0, "solver": "liblinear", "tol": 1e-12}
    theirs = LogisticRegression(fit_intercept=False, max_iter=10_000, **parameters)
    theirs.fit(X, TWO, WEIGHTS)
    close(classifier("log_loss", regularizer="l1", fit_intercept=False).coef_, theirs.coef_)


def test_linear_svc_without_an_intercept():
    for loss, factor in (("hinge", 1.0), ("squared_hinge", 0.5)):
        theirs = LinearSVC(C=factor * C, loss=loss, fit_intercept=False, tol=1e-10, dual=True)
        theirs.set_params(max_iter=1_000_000).fit(X, TWO, WEIGHTS)
        close(classifier(loss, fit_intercept=False).coef_, theirs.coef_, 1e-3)


def test_crammer_and_singer():
    theirs = LinearSVC(multi_class="crammer_singer", C=C, fit_intercept=False, tol=1e-10)
    theirs.set_params(max_iter=1_000_000).fit(X, THREE, WEIGHTS)
    ours = classifier("multiclass_hinge", THREE, fit_intercept=False)
    close(ours.coef_ - ours.coef_.mean(axis=0), theirs.coef_ - theirs.coef_.mean(axis=0), 1e-3)


@pytest.mark.parametrize("name", ["BMRMClassifier", "PragamSVC"])
def test_svc_with_a_linear_kernel(name):
    theirs = SVC(kernel="linear", C=C, tol=1e-10).fit(X, TWO, WEIGHTS)
    if name == "PragamSVC":
        ours = quiet(PragamSVC(reg_lambda=REG_LAMBDA, tol=1e-8), X, TWO, WEIGHTS)
        close(np.sort(np.abs(ours.dual_coef_)) * TOTAL * C, np.sort(np.abs(theirs.dual_coef_)), 0.1)
    else:
        ours = classifier("hinge")
    same_model(ours, theirs, 2e-3)


def test_ridge_in_closed_form():
    mean, s = WEIGHTS @ X / TOTAL, WEIGHTS / TOTAL
    H = (X - mean).T @ (s[:, None] * (X - mean)) + REG_LAMBDA * np.eye(D)
    w = solve(H, (X - mean).T @ (s * (F - s @ F)), assume_a="pos")
    ours = regressor("squared_error")
    close(ours.coef_, w, 1e-8)
    close(ours.intercept_, s @ F - mean @ w, 1e-8)
    for y in (F, np.c_[F, F**2]):
        theirs = Ridge(TOTAL * REG_LAMBDA, tol=1e-12).fit(X, y, WEIGHTS)
        same_model(regressor("squared_error", y), theirs)


@pytest.mark.parametrize("kind", ["independent", "repeated", "nearly so"])
def test_ridge_of_few_rows_with_many_columns(kind):
    rows, y = RNG.normal(size=(12, 40)), F[:12]
    if kind != "independent":
        rows[8:] = rows[:4] + 1e-6 * (kind == "nearly so") * rows[8:]
    theirs = Ridge(12 * REG_LAMBDA, solver="svd").fit(rows, y)
    for solver in ("auto", "lbfgs"):
        model = BMRMRegressor("squared_error", reg_lambda=REG_LAMBDA, solver=solver, tol=1e-12)
        same_model(quiet(model, rows, y), theirs, 1e-5)
        assert model.converged_


def test_lasso_and_elastic_net():
    """Their optimum is no less than the bound, and no more than the objective."""
    for omega, ratio in (("l1", 1.0), ("elasticnet", 0.3)):
        theirs = ElasticNet(REG_LAMBDA, l1_ratio=ratio, tol=1e-14, max_iter=100_000)
        theirs.fit(X, F, WEIGHTS)
        kind = {} if omega == "l1" else {"l1_ratio": ratio}
        ours, w = regressor("squared_error", regularizer=omega, **kind), theirs.coef_
        same_model(ours, theirs)
        value = np.average((theirs.predict(X) - F) ** 2, weights=WEIGHTS) / 2
        value += REG_LAMBDA * (ratio * np.abs(w).sum() + (1.0 - ratio) * (w @ w) / 2)
        assert ours.lower_bound_ <= value * (1 + 1e-12)
        assert value * (1 - 1e-9) <= ours.objective_


def test_quantile_regression_with_l1():
    theirs = QuantileRegressor(quantile=0.3, alpha=REG_LAMBDA, solver="highs").fit(X, F, WEIGHTS)
    ours = regressor("quantile", quantile=0.3, regularizer="l1", tol=1e-9)
    same_model(ours, theirs, 1e-3)


def test_poisson_regression():
    counts = np.floor(np.exp(0.5 * F))
    theirs = PoissonRegressor(alpha=REG_LAMBDA, tol=1e-12, max_iter=10_000).fit(X, counts, WEIGHTS)
    ours = regressor("poisson", counts)
    same_model(ours, theirs, 1e-3)
    close(ours.predict(X), theirs.predict(X), 1e-3)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_linear_svr_without_an_intercept(loss):
    factor = 1.0 if loss == "epsilon_insensitive" else 0.5
    theirs = LinearSVR(C=factor * C, loss=loss, epsilon=0.2, fit_intercept=False, tol=1e-10)
    theirs.set_params(max_iter=1_000_000, dual=True).fit(X, F, WEIGHTS)
    close(regressor(loss, epsilon=0.2, fit_intercept=False).coef_, theirs.coef_, 2e-3)


@pytest.mark.parametrize("detector", ["linear", "kernel"])
def test_one_class_svm_with_a_linear_kernel(detector):
    """Its objective over nu n is ours with ``reg_lambda = 1``, times the size of w."""
    rows, nu = X + 3.0, 0.3
    theirs = OneClassSVM(kernel="linear", nu=nu, tol=1e-10).fit(rows)
    if detector == "kernel":
        ours = SwapNoveltyDetector(kernel="linear", nu=nu, tol=1e-9).fit(rows)
        close(ours.coef_, theirs.coef_, 1e-2)
    else:
        ours = quiet(BMRMNoveltyDetector(nu=nu, reg_lambda=1.0, tol=1e-10), rows)
        close(ours.coef_ * nu * N, theirs.coef_, 1e-2)
    scale = theirs.offset_[0] / ours.offset_
    close(scale * ours.score_samples(rows), theirs.score_samples(rows), 1e-2)


# ---- kernels ----------------------------------------------------------------------------------

KERNELS = {
    "rbf": {"gamma": 0.3},
    "poly": {"gamma": 0.3, "degree": 2, "coef0": 1.0},
    "linear": {},
    "precomputed": {},
    "callable": {},
}


def of_kernel(kernel, kind, *arguments, **parameters):
    """An estimator, and the X that it takes."""
    rows = rbf_kernel(X, gamma=0.3) if kernel == "precomputed" else X
    given = rbf_kernel if kernel == "callable" else kernel
    return kind(*arguments, kernel=given, **KERNELS[kernel], **parameters), rows


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
def test_svc(kernel, y):
    kind = {"C": 3.0, "decision_function_shape": "ovo"}
    theirs, rows = of_kernel(kernel, SVC, tol=1e-8, **kind)
    ours, _ = of_kernel(kernel, SwapSVC, loss="hinge", tol=1e-8, **kind)
    theirs.fit(rows, y, POSITIVE)
    quiet(ours, rows, y, POSITIVE)
    close(ours.decision_function(rows), theirs.decision_function(rows), 5e-3)
    assert (ours.predict(rows) == theirs.predict(rows)).mean() > 0.95
    shape = {"decision_function_shape": "ovr"}
    a, b = (model.set_params(**shape).decision_function(rows) for model in (ours, theirs))
    close(a, b, 2e-2)
    assert a.shape == b.shape and a.dtype == b.dtype


@pytest.mark.parametrize("kernel", KERNELS)
def test_svr(kernel):
    theirs, rows = of_kernel(kernel, SVR, C=2.0, epsilon=0.2, tol=1e-8)
    ours, _ = of_kernel(kernel, SwapSVR, 2.0, loss="epsilon_insensitive", epsilon=0.2, tol=1e-8)
    quiet(ours, rows, F, POSITIVE)
    close(ours.predict(rows), theirs.fit(rows, F, POSITIVE).predict(rows), 5e-3)


def test_one_class_svm():
    theirs, ours = OneClassSVM(nu=0.3, gamma=0.3, tol=1e-10), SwapNoveltyDetector(nu=0.3, gamma=0.3)
    theirs.fit(X, sample_weight=WEIGHTS)
    quiet(ours.set_params(tol=1e-8), X, None, WEIGHTS)
    close(ours.decision_function(X), theirs.decision_function(X), 5e-3)


def test_the_l2_svm_is_a_one_class_problem_of_libsvm():
    """min a'Ma over the simplex, M_ij = y_i y_j (k_ij + 1) + delta_ij / C: the optimum is 1/2Q."""
    for K, parameters in (
        (rbf_kernel(X, gamma=0.3), {"gamma": 0.3}),
        (
            polynomial_kernel(X, gamma=0.3, degree=2, coef0=1.0),
            {"kernel": "poly", **KERNELS["poly"]},
        ),
    ):
        y = np.where(TWO == 1, 1.0, -1.0)
        M = np.outer(y, y) * (K + 1.0) + np.eye(N) / 3.0
        theirs = OneClassSVM(kernel="precomputed", nu=1.0 / N, tol=1e-12).fit(M)
        a = np.zeros(N)
        a[theirs.support_] = theirs.dual_coef_[0] / theirs.dual_coef_.sum()
        best = 0.5 / (a @ M @ a)
        ours = SwapSVC(3.0, tol=1e-8, **parameters).fit(X, TWO)
        assert ours.lower_bound_ <= best * (1 + 1e-9) and best * (1 - 1e-7) <= ours.objective_


# ---- sequences --------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", "exponentiated", "sdca", "lbfgs"])
def test_crfsuite(solver, tmp_path):
    """Objective to the six digits that CRFsuite prints, weights, labels, probabilities."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    chains = made()
    tokens = [[{f"f{k}": v for k, v in enumerate(row)} for row in x] for x in chains[0]]
    labels = [[f"L{label}" for label in part] for part in chains[1]]
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    every = {"feature.possible_states": 1, "feature.possible_transitions": 1}
    every["feature.minfreq"] = -1e9  # with 0 attributes whose values have a negative sum are lost
    ends = {"epsilon": 1e-10, "delta": 1e-15, "max_iterations": 10_000}
    trainer.set_params(every | ends | {"c1": 0.0, "c2": len(tokens) * 0.05 / 2.0})
    for one, other in zip(tokens, labels, strict=True):
        trainer.append(one, other)
    path = str(tmp_path / "model")
    trainer.train(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    model = SDCACRF(reg_lambda=0.05, fit_intercept=False, solver=solver, tol=1e-9, max_iter=1000)
    model.fit(tokens, labels)
    loss = trainer.logparser.last_iteration["loss"] / len(tokens)
    assert model.objective_ == pytest.approx(loss, rel=1e-6)
    assert model.predict(tokens) == [tagger.tag(one) for one in tokens]
    for (a, b), weight in tagger.info().transitions.items():
        assert model.transition_features_[a, b] == pytest.approx(weight, abs=1e-4)
    marginals = model.predict_marginals(tokens)
    for one, ours in zip(tokens[:5], marginals, strict=False):
        tagger.set(one)
        for t in range(len(one)):
            close(ours[t], [tagger.marginal(label, t) for label in model.classes_])


def test_a_crf_of_single_tokens_is_logistic_regression():
    theirs = LogisticRegression(C=1.0 / (N * REG_LAMBDA), tol=1e-12, max_iter=10_000)
    parameters = {"reg_lambda": REG_LAMBDA, "tol": 1e-10, "max_iter": 1000}
    rows = np.c_[X, np.ones(N)]  # our biases are penalized
    ours = SDCACRF(**parameters, fit_intercept=False).fit(rows, THREE)
    theirs.set_params(fit_intercept=False).fit(rows, THREE)
    close(ours.predict_marginals(rows), theirs.predict_proba(rows))
    other = BMRMClassifier("softmax", fit_intercept=False, **parameters).fit(rows, THREE)
    assert other.lower_bound_ <= ours.objective_ * (1 + 1e-9)
    assert ours.lower_bound_ <= other.objective_ * (1 + 1e-9)


def test_structures_of_classes_are_the_multiclass_hinge():
    kind = {"reg_lambda": REG_LAMBDA, "tol": 1e-8}
    ours = StructuredSVM("multiclass", **kind, random_state=0).fit(X, THREE)
    theirs = BMRMClassifier("multiclass_hinge", fit_intercept=False, **kind).fit(X, THREE)
    assert ours.lower_bound_ <= theirs.objective_ and theirs.lower_bound_ <= ours.objective_


# ---- every loss with every regularizer --------------------------------------------------------

OMEGAS = {
    "l2": "l2",
    "l1": "l1",
    "elasticnet": "elasticnet",
    "quadratic": Quadratic(np.diag([1.0, 2.0, 0.5, 1.0]) + 0.2),
    "weighted_l1": WeightedL1([1.0, 0.5, 2.0, 1.0]),
}
BINARY = ["hinge", "squared_hinge", "log_loss", "roc_auc"]
JOINT = ["softmax", "multiclass_hinge"]
REGRESSION = ["squared_error", "absolute_error", "quantile", "epsilon_insensitive", "huber"]
REGRESSION += ["squared_epsilon_insensitive", "poisson"]
KINDS = [
    *((BMRMClassifier, loss, "two, weighted") for loss in BINARY),
    *((BMRMClassifier, loss, "three, weighted") for loss in JOINT),
    (BMRMClassifier, "fbeta", "few"),
    *((BMRMRegressor, loss, "numbers, weighted") for loss in REGRESSION[:-1]),
    (BMRMRegressor, "poisson", "counts"),
    (BMRMRanker, "ordinal", "three, weighted"),
    (BMRMRanker, "ndcg", "queries"),
]


@pytest.mark.parametrize("omega", OMEGAS)
@pytest.mark.parametrize(("kind", "loss", "name"), KINDS, ids=lambda v: getattr(v, "__name__", v))
def test_every_loss_with_every_regularizer(kind, loss, name, omega):
    rows, y, weights, further = data(name)
    model = kind(reg_lambda=0.05, regularizer=OMEGAS[omega], loss=loss, tol=1e-6, max_iter=3000)
    found = verdict(Problem(0, model, rows, y, weights, further))
    assert set(found.statuses) == {"converged"} and not found.faults
    assert not found.weak
