"""
Which ``reg_lambda`` should I choose?
=====================================

The one with the best score on data that the fit has not seen: a pipeline, a grid, cross-validation,
as for any estimator of scikit-learn. Because every fit is certified to the same relative gap, a
difference between two scores is not one of convergence.

The data is the breast cancer set that ships with scikit-learn. If the environment variable
``SKLEARN_BUNDLE_DATA`` names the folder of benchmark data, it is Adult (a9a: 32,561 samples, 123
binary features in a CSR matrix).
"""

import os
import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_bundle import BMRMClassifier

folder = os.environ.get("SKLEARN_BUNDLE_DATA")
if folder:
    sys.path.insert(0, folder)
    from load import load

    name, (X, y) = "a9a", load("a9a")[:2]
else:
    name, (X, y) = "breast cancer", load_breast_cancer(return_X_y=True)

# %%
# Sparse data is scaled without being centred, so that it stays sparse. The intercept is free, so
# nothing is lost by that.

model = make_pipeline(StandardScaler(with_mean=False), BMRMClassifier(loss="hinge"))
grid = {"bmrmclassifier__reg_lambda": np.logspace(-5, -1, 5)}
search = GridSearchCV(model, grid, cv=3, n_jobs=2).fit(X, y)

print(f"{name}: {X.shape[0]} samples, {X.shape[1]} features")
print("reg_lambda   accuracy   standard deviation   seconds a fit")
results = search.cv_results_
for reg_lambda, mean, deviation, seconds in zip(
    grid["bmrmclassifier__reg_lambda"],
    results["mean_test_score"],
    results["std_test_score"],
    results["mean_fit_time"],
    strict=True,
):
    print(f"{reg_lambda:<10.0e}   {mean:.4f}     {deviation:.4f}               {seconds:.2f}")

# %%
# The certificate of the refitted best model:

best = search.best_estimator_[-1]
print(f"best reg_lambda {best.reg_lambda:.0e}: {best.status_} at objective {best.objective_:.5f},")
print(f"gap {best.dual_gap_:.1e}, that is {best.dual_gap_ / best.objective_:.1e} of the objective")

plt.errorbar(
    grid["bmrmclassifier__reg_lambda"],
    results["mean_test_score"],
    yerr=results["std_test_score"],
    marker="o",
)
plt.xscale("log")
plt.xlabel("reg_lambda")
plt.ylabel("accuracy, 3 folds")
plt.title(name)
plt.show()
