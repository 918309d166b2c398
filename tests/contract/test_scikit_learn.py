"""scikit-learn's own checks of each estimator, with no expected failure."""

import pytest
from sklearn.base import ClassifierMixin
from sklearn.utils.estimator_checks import estimator_checks_generator

from sklearn_bundle import (
    SDCACRF,
    SDCACRFCV,
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    BMRMRegressorCV,
    PragamSVC,
    StructuredSVM,
    SwapNoveltyDetector,
    SwapSVC,
    SwapSVCCV,
    SwapSVR,
    SwapSVRCV,
)

# The check of weights against repeated rows compares decision values to 1e-7. A relative gap g
# leaves sqrt(2 g J / reg_lambda) of freedom in w, so that for a smooth loss and a small reg_lambda
# the two fits may differ by more: those instances have a reg_lambda at which 1e-10 settles them.
TIGHT = {"tol": 1e-10, "max_iter": 20_000}
STRONG = {"reg_lambda": 0.1, **TIGHT}


class CRFClassifier(ClassifierMixin, SDCACRF):
    """SDCACRF is none by its tags: this one is put to the checks of classifiers too."""


ESTIMATORS = [
    # Dual epochs end just below their tol, and not at a vertex.
    BMRMClassifier(**STRONG | {"tol": 1e-12}),
    BMRMClassifierCV(reg_lambdas=[0.1], cv=3, solver="line-search", **TIGHT),
    BMRMRegressor(**STRONG),
    BMRMRegressorCV(reg_lambdas=[0.1], cv=3, **TIGHT),
    BMRMRanker(**STRONG),
    BMRMNoveltyDetector(tol=1e-10),
    PragamSVC(tol=1e-10, reg_lambda=0.1),
    # At a gap g the scores of a kernel machine are settled to sqrt(g).
    SwapSVC(tol=1e-13),
    SwapSVCCV([0.01], tol=1e-15, cv=3),
    SwapSVR(tol=1e-10),
    SwapSVRCV([1.0], tol=1e-10, cv=3),
    # Without a share of new samples some have the score of the boundary, up to rounding.
    SwapNoveltyDetector(contamination=0.1, tol=1e-10),
    CRFClassifier(tol=1e-10, max_iter=1000),
    SDCACRFCV(reg_lambdas=[0.1], cv=3, tol=1e-10, max_iter=1000),
    # A gap of 1e-10 would settle scores to 1e-5 only; checks of weights compare them to 1e-7.
    StructuredSVM("multiclass", reg_lambda=0.1, tol=1e-13, max_iter=300),
]


def name_of(check):
    """Its function and arguments, without the estimator's."""
    arguments = ",".join(f"{key}={value}" for key, value in check.keywords.items())
    return f"{check.func.__name__}({arguments})" if arguments else check.func.__name__


# Those of single precision compile the large functions a second time, for what the layouts of
# test_equality.py show too.
SINGLE = "check_estimators_dtypes", "float32"
CHECKS = [
    pytest.param(estimator, check, id=f"{type(estimator).__name__}-{name_of(check)}")
    for model in ESTIMATORS
    for estimator, check in estimator_checks_generator(model)
    if not any(part in name_of(check) for part in SINGLE)
]


@pytest.mark.filterwarnings("ignore:w is 0")  # some checks have labels at random
@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
