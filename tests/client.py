"""A user's script with every family, which CI runs and checks with pyright in strict mode."""

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle import (
    SDCACRF,
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMNoveltyDetector,
    BMRMRanker,
    BMRMRegressor,
    PragamSVC,
    StructuredSVM,
    SwapNoveltyDetector,
    SwapSVC,
    SwapSVCCV,
    SwapSVR,
    SwapSVRCV,
    bmrm_path,
    crf_path,
)
from sklearn_bundle.losses import BinaryLoss
from sklearn_bundle.metrics import sequence_accuracy_score
from sklearn_bundle.regularizers import ElasticNet

Array = NDArray[np.float64]


class CubedHinge(BinaryLoss):
    """``max(0, 1 - y f)^3``."""

    def value(self, scores: Array, y: Array) -> Array:
        return np.maximum(0.0, 1.0 - y * scores) ** 3

    def gradient(self, scores: Array, y: Array) -> Array:
        return -3.0 * y * np.maximum(0.0, 1.0 - y * scores) ** 2


random = np.random.default_rng(0)
X: Array = random.normal(size=(60, 3))
t: Array = X @ np.array([1.0, -2.0, 0.5])
y: NDArray[np.bool_] = t > 0.0

for classifier in (
    BMRMClassifier(CubedHinge(), reg_lambda=0.1).fit(X, y),
    BMRMClassifier("log_loss", reg_lambda=0.1, regularizer=ElasticNet(l1_ratio=0.5)).fit(X, y),
    PragamSVC(reg_lambda=0.1).fit(X, y, sample_weight=np.ones(60)),
):
    weights: Array = classifier.coef_ * classifier.predict(X).mean()
    print(weights.sum(), classifier.classes_[0], classifier.intercept_[0], classifier.dual_gap_)
    if classifier.converged_ and classifier.status_ == "converged":
        print(
            f"{classifier.relative_gap_:.1e}", classifier.n_features_in_, len(classifier.history_)
        )

regressor = BMRMRegressor("quantile", quantile=0.9, reg_lambda=0.1).fit(X, t)
print(regressor.score(X, t), regressor.objective_, regressor.lower_bound_, regressor.intercept_)

ranker = BMRMRanker(reg_lambda=0.1).fit(X, np.digitize(t, [-1.0, 1.0]))
print(ranker.objective_ - ranker.lower_bound_ <= ranker.dual_gap_, ranker.thresholds_.size)

machines = SwapSVC(kernel="rbf").fit(X, y), SwapSVR(C=2.0).fit(X, t)
print([(m.support_.size, m.dual_coef_.shape, m.gamma_, m.status_) for m in machines])
detectors = BMRMNoveltyDetector(reg_lambda=0.1).fit(X + 4.0), SwapNoveltyDetector().fit(X)
print([(d.offset_ + d.objective_, d.status_ == "converged") for d in detectors])

words, labels = [[["so"], ["it"], ["is"]], [["it"], ["is"]]], [["A", "B", "B"], ["B", "B"]]
crf = SDCACRF(reg_lambda=0.1).fit(words, labels)
print(
    sequence_accuracy_score(labels, crf.predict(words)),
    crf.transitions_.sum(),
    crf.solver_,
    crf.n_iter_,
)
model = StructuredSVM("multiclass", reg_lambda=0.1).fit(X, y)
print(model.w_.size, model.exact_, model.history_["objective"][-1], model.relative_gap_)

search = BMRMClassifierCV(reg_lambdas=[1.0, 0.1], cv=3).fit(X, y)
print(search.reg_lambda_, search.scores_.mean(axis=0), search.mean_test_scores_.max())
searches = SwapSVCCV(Cs=[0.1, 1.0], cv=3).fit(X, y), SwapSVRCV(Cs=[0.1, 1.0], cv=3).fit(X, t)
print([(s.C_, s.Cs_.size, s.scores_.shape) for s in searches])
reg_lambdas, coefs, intercepts, *certificates = bmrm_path(X, y, reg_lambdas=[1.0, 0.1])
print(reg_lambdas.shape, coefs.shape, intercepts.shape, len(certificates))
path, crfs = bmrm_path(X, y, reg_lambdas=2), crf_path(words, labels, reg_lambdas=2)
print(path.coefs.shape, path.objectives - path.lower_bounds <= path.dual_gaps, path.statuses)
values, models = crfs
print(values.shape, models[0].predict(words), crfs.n_iters.sum(), crfs.models[0].status_)
