"""BMRMClassifier's joint multiclass losses and measures, against independent solvers."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs, make_classification
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMClassifier
from sklearn_bundle.losses import FBeta, MulticlassHinge, Softmax
from tests.reference_multiclass import optimum

LAMBDA = 1e-2
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


def test_two_classes_of_softmax_are_logistic_regression(binary):
    """w_2 = -w_1 = w/2, so that ||W||^2 is half of ||w||^2."""
    X, y = binary
    ours = joint("softmax", tol=1e-12).fit(X, y)
    theirs = BMRMClassifier("log_loss", reg_lambda=LAMBDA / 2, tol=1e-12).fit(X, y)
    assert ours.coef_.shape == (1, 3) and ours.intercept_.shape == (1,)
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-10)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    assert np.array_equal(ours.predict(X), ours.predict_proba(X)[:, 1] > 0.5)


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


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["fbeta", FBeta(2.0)], ids=["name", "instance"])
def test_f_beta_refuses_sample_weights(binary, loss):
    with pytest.raises(ValueError, match=r"takes no weights, but sample_weight .*: with"):
        BMRMClassifier(loss).fit(*binary, np.ones(len(binary[1])))


def test_probabilities_need_a_loss_that_has_them():
    assert not hasattr(BMRMClassifier("multiclass_hinge"), "predict_proba")
    assert hasattr(BMRMClassifier("softmax"), "predict_proba")
    assert hasattr(BMRMClassifier(Softmax()), "predict_proba")


# ---- living with scikit-learn ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["multiclass_hinge", "softmax"])
def test_few_planes(iris, name):
    limits = {"solver": "line-search", "bundle_size": 20, "max_iter": 20_000}
    few = joint(name, tol=1e-3, warm_start=True, **limits).fit(*iris)
    assert few.status_ == "converged"
    assert few._warm.kept[0].bundle.size <= 20 + 1  # and the plane 0
    assert few.objective_ == pytest.approx(joint(name).fit(*iris).objective_, rel=2e-3)


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
