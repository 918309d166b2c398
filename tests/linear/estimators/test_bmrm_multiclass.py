"""BMRMClassifier's joint multiclass losses and measures, against independent solvers."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.losses import FBeta, MulticlassHinge, Softmax
from tests import reference_measures
from tests.contract.interrupts import interrupting
from tests.reference_multiclass import objective, optimum

LAMBDA = 1e-2
TIGHT = {"tol": 1e-9, "max_iter": 5000}
COST = np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 0.5, 0.0]])
# 1 and 2 are plants, and 2 is a weed and a plant: a graph, not a tree
EDGES = [("all", 0), ("all", "plant"), ("plant", 1), ("plant", 2), ("weed", 2), ("all", "weed")]
# all (cancels), plant, weed, 0, 1, 2: a row per class
ANCESTORS = np.array([[1, 0, 0, 1, 0, 0], [1, 1, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1]], dtype=float)
DISTANCES = np.array([[0.0, 3.0, 4.0], [3.0, 0.0, 3.0], [4.0, 3.0, 0.0]])
JOINT = {
    "multiclass_hinge": ({}, {}),
    "cost": ({"cost": COST}, {"cost": COST}),
    "slack": ({"cost": COST, "scaling": "slack"}, {"cost": COST, "scaling": "slack"}),
    "softmax": ({}, {"kind": "softmax"}),
    "ontology": ({"edges": EDGES}, {"ancestors": ANCESTORS, "cost": DISTANCES}),
}


@pytest.fixture(scope="module")
def iris():
    """Every third row: classes that overlap, ties among the rows."""
    X, y = load_iris(return_X_y=True)
    return np.round(StandardScaler().fit_transform(X), 1)[::3], y[::3]


@pytest.fixture(scope="module")
def binary(iris):
    return iris[0][:, :3], iris[1] == 1


def joint(name, **parameters):
    loss = name if name in ("softmax", "ontology") else "multiclass_hinge"
    return BMRMClassifier(loss, **({"reg_lambda": LAMBDA} | JOINT[name][0] | parameters))


# ---- optima ------------------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize("name", JOINT)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_joint_optimum_against_clarabel(iris, name, fit_intercept, weighted):
    X, y = iris
    weight = np.random.default_rng(0).integers(1, 4, len(y)) if weighted else None
    s = np.full(len(y), 1 / len(y)) if weight is None else weight / weight.sum()
    ours = joint(name, fit_intercept=fit_intercept, **TIGHT).fit(X, y, weight)
    best, W, _ = optimum(X, y, s, LAMBDA, fit_intercept, **JOINT[name][1])
    assert ours.status_ == "converged" and ours.dual_gap_ <= 1e-9 * ours.objective_
    # clarabel's own accuracy is about 1e-9 relative
    assert ours.lower_bound_ <= best * (1 + 1e-9)
    assert best * (1 - 1e-8) <= ours.objective_ <= best * (1 + 1e-8)
    if name == "ontology":  # coef_ is of the classes, and w of the nodes
        np.testing.assert_allclose(ours.coef_, ANCESTORS @ W, atol=1e-3)
    else:
        value = objective(X, y, s, LAMBDA, ours.coef_, ours.intercept_, **JOINT[name][1])
        assert value == pytest.approx(ours.objective_, rel=1e-11)


@pytest.mark.wide
def test_many_classes_take_many_planes_to_cancel():
    X, y = make_classification(
        200, 6, n_informative=6, n_redundant=0, n_classes=20, n_clusters_per_class=1, random_state=0
    )
    loss = MulticlassHinge()
    model = BMRMClassifier(loss, reg_lambda=LAMBDA, solver="line-search").fit(X, y)
    best = optimum(X, y, np.full(len(y), 1 / len(y)), LAMBDA, True)[0]
    assert model.status_ == "converged"
    assert model.lower_bound_ <= best + 1e-8 <= model.objective_ + 2e-8  # clarabel's accuracy


@pytest.mark.parametrize("name", ["multiclass_hinge", "softmax"])
def test_cutting_planes_reach_the_same_optimum(iris, name):
    a, b = (joint(name, tol=1e-6, solver=s).fit(*iris) for s in ("line-search", "cutting-plane"))
    assert b.status_ == "converged" and b.objective_ == pytest.approx(a.objective_, rel=2e-6)


def test_multinomial_logistic_regression(iris):
    X, y = iris
    ours = joint("softmax", tol=1e-12).fit(X, y)
    theirs = LogisticRegression(C=1 / (len(y) * LAMBDA), tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


def test_two_classes_of_softmax_are_logistic_regression(binary):
    """w_2 = -w_1 = w/2, so that ||W||^2 is half of ||w||^2."""
    X, y = binary
    ours = joint("softmax", tol=1e-12).fit(X, y)
    theirs = BMRMClassifier("log_loss", reg_lambda=LAMBDA / 2, tol=1e-12).fit(X, y)
    assert ours.coef_.shape == (1, 3) and ours.intercept_.shape == (1,)
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-10)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    assert np.array_equal(ours.predict(X), ours.predict_proba(X)[:, 1] > 0.5)


def test_crammer_singer(iris):
    X, y = iris
    ours = joint("multiclass_hinge", fit_intercept=False, **TIGHT).fit(X, y)
    theirs = LinearSVC(
        multi_class="crammer_singer",
        C=1 / (len(y) * LAMBDA),
        fit_intercept=False,
        tol=1e-10,
        max_iter=1_000_000,
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


@pytest.mark.parametrize("weighted", [False, True])
def test_roc_area_against_clarabel(binary, weighted):
    X, y = binary
    weight = np.random.default_rng(0).integers(1, 4, len(y)) if weighted else np.ones(len(y))
    ours = BMRMClassifier("roc_auc", reg_lambda=LAMBDA, **TIGHT)
    ours.fit(X, y, weight if weighted else None)
    blocks = reference_measures.roc_auc(np.where(y, 1.0, -1.0), weight)
    best = reference_measures.optimum(blocks, X, LAMBDA)
    scores = ours.decision_function(X)
    value = 0.5 * LAMBDA * np.sum(ours.coef_**2) + reference_measures.risk(blocks, scores)
    assert value == pytest.approx(ours.objective_, rel=1e-11)
    assert ours.lower_bound_ <= best * (1 + 1e-9)
    assert best * (1 - 1e-8) <= value <= best * (1 + 1e-8)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_f_beta_against_clarabel(binary, beta, fit_intercept):
    """All labelings of ten rows."""
    X, y = binary[0][::5], binary[1][::5]
    ours = BMRMClassifier("fbeta", beta=beta, reg_lambda=LAMBDA, fit_intercept=fit_intercept)
    ours.set_params(**TIGHT).fit(X, y)
    blocks = reference_measures.f_beta(np.where(y, 1.0, -1.0), beta)
    best = reference_measures.optimum(blocks, X, LAMBDA, fit_intercept)
    scores = ours.decision_function(X)
    value = 0.5 * LAMBDA * np.sum(ours.coef_**2) + reference_measures.risk(blocks, scores)
    assert value == pytest.approx(ours.objective_, rel=1e-11)
    assert ours.lower_bound_ <= best * (1 + 1e-9)
    assert best * (1 - 1e-8) <= value <= best * (1 + 1e-8)


def test_f_beta_bounds_the_measure(binary):
    X, y = binary
    ours = BMRMClassifier("fbeta", reg_lambda=LAMBDA, tol=1e-6).fit(X, y)
    risk = ours.objective_ - 0.5 * LAMBDA * np.sum(ours.coef_**2)
    assert 1 - f1_score(y, ours.predict(X)) <= risk


@pytest.mark.parametrize("weighted", [False, True])
def test_the_threshold_of_roc_area_has_the_best_balanced_accuracy(binary, weighted):
    X, y = binary
    weight = np.random.default_rng(0).integers(0, 3, len(y)) if weighted else None
    ours = BMRMClassifier("roc_auc", reg_lambda=LAMBDA).fit(X, y, weight)
    scores = X @ ours.coef_[0]
    best = max(
        balanced_accuracy_score(y, scores > cut, sample_weight=weight)
        for cut in np.r_[-np.inf, np.unique(scores)]
    )
    reached = balanced_accuracy_score(y, ours.predict(X), sample_weight=weight)
    assert reached == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("loss", ["roc_auc", "fbeta"])
def test_measures_are_one_versus_rest(iris, loss):
    X, y = iris
    ours = BMRMClassifier(loss, reg_lambda=LAMBDA).fit(X, y)
    assert ours.coef_.shape == (3, 4) and ours.status_ == ["converged"] * 3
    one = BMRMClassifier(loss, reg_lambda=LAMBDA).fit(X, y == 1)
    assert np.array_equal(one.coef_[0], ours.coef_[1])
    assert one.intercept_[0] == ours.intercept_[1]


# ---- weights -----------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("name", [*JOINT, "roc_auc"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_weights_are_repeated_and_missing_rows(iris, name, class_weight):
    X, y = iris
    kind = {"class_weight": class_weight, **TIGHT}
    if name == "roc_auc":
        ours, y = BMRMClassifier(name, reg_lambda=LAMBDA, **kind), y == 1
    else:
        ours = joint(name, **kind)
    counts = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = clone(ours).fit(X, y, counts).objective_
    repeated = clone(ours).fit(X.repeat(counts, axis=0), y.repeat(counts)).objective_
    assert weighted == pytest.approx(repeated, rel=2e-9)
    some = counts > 0
    zeros, missing = clone(ours).fit(X, y, some * 1.0), clone(ours).fit(X[some], y[some])
    assert zeros.objective_ == pytest.approx(missing.objective_, rel=2e-9)


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"loss": "huber"}, "'loss' parameter of BMRMClassifier"),
        ({"loss": "ontology"}, "edges"),
        ({"loss": "ontology", "edges": [("a", 0), ("a", 1)]}, "a node for each class, but none"),
        (
            {"loss": "ontology", "edges": [(0, 1), (0, 2)]},
            "class must be a leaf in edges, but class 0 has the child 1",
        ),
        ({"loss": "ontology", "edges": [(0, 1, 2)]}, r"edges\[0\] is \(0, 1, 2\)"),
        ({"loss": "ontology", "edges": [*EDGES, ("plant", "all")]}, "edges must not have a cycle"),
        ({"loss": "multiclass_hinge", "cost": np.ones((2, 2))}, r"shape \(3, 3\).*has .*\(2, 2\)"),
        ({"loss": "multiclass_hinge", "cost": -COST}, r"at least 0, but cost\[0, 1\] is -1.0"),
        ({"loss": "multiclass_hinge", "cost": COST + 1}, r"0 on its diagonal, but cost\[0, 0\]"),
        ({"loss": "multiclass_hinge", "scaling": "both"}, "'scaling' parameter .*'both'"),
        ({"loss": MulticlassHinge(scaling="both")}, "scaling must be .* but is 'both'"),
        ({"loss": "fbeta", "beta": 0.0}, "'beta' parameter of BMRMClassifier .*0.0"),
        ({"loss": FBeta(-1.0)}, "beta must be positive and finite, below 1e.150, but is -1.0"),
        (
            {"loss": "fbeta", "class_weight": "balanced"},
            "'fbeta' takes no weights, but class_weight was given: .*knapsack",
        ),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused(iris, parameters, message):
    ours = BMRMClassifier(**parameters)
    with pytest.raises(ValueError, match=message):
        ours.fit(*iris)
    assert not [name for name in vars(ours) if name.endswith("_")]
    with pytest.raises(NotFittedError):
        ours.predict(iris[0])


@pytest.mark.parametrize("loss", ["fbeta", FBeta(2.0)], ids=["name", "instance"])
def test_f_beta_refuses_sample_weights(binary, loss):
    with pytest.raises(ValueError, match=r"takes no weights, but sample_weight .*: with"):
        BMRMClassifier(loss).fit(*binary, np.ones(len(binary[1])))


def test_probabilities_need_a_loss_that_has_them():
    assert not hasattr(BMRMClassifier("multiclass_hinge"), "predict_proba")
    assert hasattr(BMRMClassifier("softmax"), "predict_proba")
    assert hasattr(BMRMClassifier(Softmax()), "predict_proba")


# ---- living with scikit-learn ------------------------------------------------------------------


def test_names_of_classes(iris):
    X, y = iris
    names = np.array(["setosa", "versicolor", "virginica"], dtype=object)
    edges = [("iris", "setosa"), ("iris", "other"), ("other", "versicolor"), ("other", "virginica")]
    ours = BMRMClassifier("ontology", edges=edges, reg_lambda=LAMBDA).fit(X, names[y])
    assert ours.classes_.tolist() == names.tolist()
    assert ours.coef_.shape == (3, 4) and ours.decision_function(X).shape == (len(y), 3)
    assert ours.score(X, names[y]) > 0.9
    assert isinstance(ours.objective_, float) and ours.status_ == "converged"


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("name", [*JOINT, "roc_auc", "fbeta"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_equals_dense_and_threads_change_nothing(iris, name, dtype, monkeypatch):
    monkeypatch.setattr("sklearn_bundle.core.parallel._BLOCK_ENTRIES", 50)
    X, y = iris
    if name in JOINT:
        ours = joint(name, tol=1e-6)
    else:
        ours, y = BMRMClassifier(name, reg_lambda=LAMBDA, tol=1e-6), y == 1
    Z = (X * (np.abs(X) > 0.5)).astype(dtype)
    dense, sparse = clone(ours).fit(Z, y), clone(ours).fit(sp.csr_array(Z), y)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=2e-6)
    for data in (Z, sp.csr_array(Z)):
        one, two = (clone(ours).set_params(n_jobs=n).fit(data, y) for n in (1, 2))
        assert np.array_equal(one.coef_, two.coef_) and one.lower_bound_ == two.lower_bound_


@pytest.mark.wide
@pytest.mark.matrix
@pytest.mark.parametrize("regularizer", ["l2", "l1", "lp"])
@pytest.mark.parametrize("name", JOINT)
def test_planes_serve_another_reg_lambda(iris, name, regularizer):
    limits = {"tol": 1e-6, "max_iter": 5000, "solver": "line-search"}
    warm = joint(name, warm_start=True, regularizer=regularizer, **limits)
    warm.fit(*iris)
    warm.set_params(reg_lambda=LAMBDA / 2).fit(*iris)
    cold = clone(warm).fit(*iris)
    if (name, regularizer) != ("softmax", "l1"):  # a cold fit has balanced planes from the start
        assert warm.n_iter_ < cold.n_iter_
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-6)
    assert warm.lower_bound_ <= cold.objective_ * (1 + 1e-12)


@pytest.mark.wide
@pytest.mark.parametrize(
    "first, second",
    [
        ({"loss": "multiclass_hinge"}, {"cost": COST}),
        ({"loss": "multiclass_hinge", "cost": COST}, {"scaling": "slack"}),
        ({"loss": "ontology", "edges": EDGES}, {"edges": [("r", 0), ("r", 1), ("r", 2)]}),
        ({"loss": "fbeta"}, {"beta": 2.0}),
        ({"loss": "softmax"}, {"regularizer": "lp"}),
    ],
    ids=["cost", "scaling", "edges", "beta", "regularizer"],
)
def test_warm_start_only_on_the_same_problem(iris, first, second):
    warm = BMRMClassifier(reg_lambda=LAMBDA, warm_start=True, **first).fit(*iris)
    cold = clone(warm.set_params(**second)).fit(*iris)
    warm.fit(*iris)
    assert np.array_equal(warm.n_iter_, cold.n_iter_)
    assert np.array_equal(warm.objective_, cold.objective_)


@pytest.mark.parametrize("name", ["multiclass_hinge", "softmax"])
def test_few_planes(iris, name):
    limits = {"solver": "line-search", "bundle_size": 20, "max_iter": 20_000}
    few = joint(name, tol=1e-3, warm_start=True, **limits).fit(*iris)
    assert few.status_ == "converged"
    assert few._warm.kept[0].bundle.size <= 20 + 1  # and the plane 0
    assert few.objective_ == pytest.approx(joint(name).fit(*iris).objective_, rel=2e-3)


@pytest.mark.wide
def test_pickle_and_search(iris):
    grid = {
        "loss": ["softmax", MulticlassHinge(COST), "roc_auc", "fbeta"],
        "regularizer": ["l2", "l1"],
    }
    model = BMRMClassifier(reg_lambda=LAMBDA, tol=1e-2)
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(*iris)
    assert search.best_score_ > 0.8
    copy = pickle.loads(pickle.dumps(search.best_estimator_))
    assert np.array_equal(copy.predict(iris[0]), search.predict(iris[0]))


def test_limits(iris):
    with pytest.warns(ConvergenceWarning, match=r"'max_iter' after 2 iter.*gap of .*, above tol="):
        ours = joint("softmax", max_iter=2, tol=1e-12).fit(*iris)
    assert ours.status_ == "max_iter" and ours.n_iter_ == len(ours.history_) == 2
    with pytest.warns(ConvergenceWarning, match="'max_time'"):
        assert joint("softmax", max_time=1e-9, tol=1e-12).fit(*iris).n_iter_ == 1


def test_ctrl_c_keeps_the_best_point(iris):
    ours = BMRMClassifier(interrupting(Softmax, 3), tol=1e-13)
    with pytest.raises(KeyboardInterrupt):
        ours.fit(*iris)
    assert ours.status_ == "interrupted" and ours.objective_ < np.log(3)
    assert ours.predict_proba(iris[0]).shape == (len(iris[1]), 3)


@pytest.mark.parametrize("loss", ["softmax", "ontology", "roc_auc", "fbeta"])
@pytest.mark.parametrize("classes", [2, 3])
def test_callbacks(iris, loss, classes):
    callback = pytest.importorskip("sklearn.callback")
    monitor = callback.ScoringMonitor(scoring="accuracy")
    X, y = iris
    y = np.minimum(y, classes - 1)
    edges = EDGES if loss == "ontology" else None
    ours = BMRMClassifier(loss, edges=edges, reg_lambda=LAMBDA).set_callbacks(monitor).fit(X, y)
    rows = monitor.get_logs().data
    final = next(row["accuracy"] for row in rows if row["task_name"] == "fit")
    assert final == ours.score(X, y)


def test_class_weights_move_the_threshold_of_roc_area(binary):
    """The area does not know them: without a threshold they would change nothing."""
    X, y = binary
    ours = BMRMClassifier("roc_auc", reg_lambda=LAMBDA, class_weight={False: 1e3, True: 1e-3})
    assert not ours.fit(X, y).predict(X[~y]).any()
    assert ours.set_params(class_weight={False: 1e-3, True: 1e3}).fit(X, y).predict(X[y]).all()


@pytest.mark.wide
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3])
@pytest.mark.filterwarnings("ignore:w is nearly 0")
def test_intercepts_do_not_care_about_the_scale_of_the_features(scale):
    """A free intercept that is held too tight, or too loose, leaves the bound at 0."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(120, 4))
    y = (Z @ rng.normal(size=(4, 3)) + rng.normal(size=(120, 3))).argmax(axis=1)
    for loss in ("softmax", "multiclass_hinge"):
        model = BMRMClassifier(loss, reg_lambda=1e-3).fit(scale * Z, y)
        assert model.status_ == "converged"


def test_without_information_softmax_has_the_shares_of_the_classes():
    model = BMRMClassifier("softmax", tol=1e-8).fit(np.zeros((6, 2)), [0, 0, 0, 1, 1, 2])
    shares = np.array([3, 2, 1]) / 6
    assert model.objective_ == pytest.approx(-np.sum(shares * np.log(shares)), rel=1e-8)
    np.testing.assert_allclose(model.predict_proba(np.zeros((1, 2)))[0], shares, rtol=1e-3)


@pytest.mark.filterwarnings("ignore:w is nearly 0")
def test_uneven_class_weights_are_certified():
    """The classes of little weight are lost beside the other one in the sums of a plane."""
    X, y = make_blobs(centers=3, random_state=0, cluster_std=20)
    weights = {0: 1.0, 1: 1e-5, 2: 1e-5}
    model = BMRMClassifier("softmax", reg_lambda=0.1, class_weight=weights).fit(X, y)
    assert model.status_ == "converged" and model.lower_bound_ > 0.0


def test_log_probabilities_stay_finite(iris, binary):
    """Where a probability is 0 in float64; one-versus-rest is scaled as the probabilities are."""
    for loss, (X, y) in (("softmax", iris), ("log_loss", iris), ("softmax", binary)):
        model = BMRMClassifier(loss, reg_lambda=LAMBDA).fit(X, y)
        log_p = model.predict_log_proba(X)
        np.testing.assert_allclose(log_p, np.log(model.predict_proba(X)), atol=1e-12)
    model = BMRMClassifier("log_loss", reg_lambda=LAMBDA).fit(*binary)
    log_p = model.predict_log_proba(1e6 * binary[0])
    f = np.abs(model.decision_function(1e6 * binary[0]))
    np.testing.assert_allclose(log_p.min(axis=1), -f, rtol=1e-12)
    with pytest.raises(AttributeError, match="predict_log_proba"):
        BMRMClassifier().fit(*binary).predict_log_proba(binary[0])
