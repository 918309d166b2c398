"""
Which Frank-Wolfe step converges how fast?
==========================================

:class:`~sklearn_bundle.SwapSVC` minimises the same objective by several methods, and certifies how
far each of them is from the minimum. The data are two half moons with noise, the kernel is the RBF.
If the environment variable ``SKLEARN_BUNDLE_DATA`` names a folder with the set ijcnn1, it is 2,000
samples of that.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_array
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle import SwapSVC
from sklearn_bundle.datasets import load_dataset
from sklearn_bundle.plotting import ConvergenceDisplay

real = load_dataset("ijcnn1")
if real is None:
    X, y = make_moons(2000, noise=0.3, random_state=0)
else:
    rows = np.random.default_rng(0).permutation(len(real[1]))[:2000]
    X, y = csr_array(real[0][rows]).toarray(), real[1][rows]

# %%
# The methods differ in the direction of a step. ``history_`` counts each kind. Runs end at a
# relative gap of 1e-5, or at ``max_iter``, on purpose.

limits = {"C": 10.0, "tol": 1e-5, "max_iter": 100_000}
kinds = ("fw", "swap_add", "swap_drop", "away", "away_drop")
models = {}

print(f"{'solver':<9}{'status':<11}{'gap':>8}" + "".join(f"{kind:>11}" for kind in kinds))
for solver in ("fw", "mfw", "swap", "swap-2o"):
    model = models[solver] = SwapSVC(solver=solver, **limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    gap = model.relative_gap_
    counts = "".join(f"{model.history_[kind][-1]:>11}" for kind in kinds)
    print(f"{solver:<9}{model.status_:<11}{gap:>8.0e}{counts}")

# %%
# A Frank-Wolfe step ("fw") moves all weights towards one point, and near the optimum much of that
# undoes what the steps before it did: on the left its gap falls ever more slowly, until
# ``max_iter`` ends the run. An away step ("mfw" has them) moves weight off one point, a SWAP step
# moves it from one point to another and leaves the rest as it is. "swap-2o", the default, chooses
# the partner by the gain of the step and takes the fewest.
#
# Right, the same against the rows of the kernel matrix that were computed, which on large data is
# what takes the time. Rows are kept, so that no method computes more of them than there are
# samples, and on the moons the methods differ little in that. Most rows are computed while the gap
# is still large; the steps after that move weight among points whose rows are there.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), sharey=True, layout="constrained")
ConvergenceDisplay.from_estimators(models, ax=left)
left.set(xscale="log", ylim=(1e-6, 2))
ConvergenceDisplay.from_estimators(models, x="passes", ax=right)
right.set(ylabel="")
plt.show()
