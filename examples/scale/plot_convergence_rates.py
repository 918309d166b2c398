"""
Which method needs the fewest passes over the data?
===================================================

Learn how the methods for the hinge loss differ in what matters on large data: the number of
products with ``X`` or its transpose. The error is the best objective so far less the optimum. The
optimum is the better lower bound of two tight fits.

In spirit these are figures 1 and 2 of Saha, Zhang and Vishwanathan (2010), on data that is made to
look like Adult (a9a): sparse rows of zeros and ones.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import svds
from sklearn.exceptions import ConvergenceWarning

from sklearn_bundle import BMRMClassifier, PragamSVC

# %%
# Simulated data: 14 categorical variables, one-hot encoded, and a label that depends on them with
# much noise.

rng = np.random.default_rng(0)
n_samples, levels = 3000, [11, 9, 7, 4, 5, 2, 2, 2, 3, 10, 9, 12, 7, 17]
first_columns = np.cumsum([0, *levels[:-1]])
columns = np.column_stack(
    [
        first + rng.choice(k, size=n_samples, p=rng.dirichlet(np.ones(k)))
        for first, k in zip(first_columns, levels, strict=True)
    ]
)
row_starts = np.arange(0, columns.size + 1, len(levels))
X = csr_matrix((np.ones(columns.size), columns.ravel(), row_starts))
scores = X @ rng.standard_normal(X.shape[1])
scores = (scores - np.quantile(scores, 0.75)) / scores.std()
y = rng.random(n_samples) < 1 / (1 + np.exp(-3 * scores))

# %%
# Pragam without an intercept has an optimum of its own, and the others share one. Runs end at an
# error too small to draw, or at ``max_iter``, on purpose.

reg_lambda = 1e-3
limits = {"reg_lambda": reg_lambda, "tol": 1e-7, "max_iter": 2000}
largest = svds(X, k=1, return_singular_vectors=False)[0]
constant = {"lipschitz": largest**2 / (n_samples * reg_lambda)}
methods = {
    "BMRM, cutting-plane": BMRMClassifier(solver="cutting-plane", **limits),
    "BMRM, line-search": BMRMClassifier(solver="line-search", **limits),
    "Pragam, Algorithm 1": PragamSVC(fit_intercept=False, **constant, **limits),
    "Pragam-b, Algorithm 1": PragamSVC(**constant, **limits),
    "PragamSVC, adaptive": PragamSVC(**limits),
}


def optimum(fit_intercept):
    """The better lower bound of two tight fits."""
    tight = {"reg_lambda": reg_lambda, "fit_intercept": fit_intercept, "tol": 1e-8}
    fits = (BMRMClassifier(**tight).fit(X, y), PragamSVC(**tight).fit(X, y))
    print(
        f"optimum {'with' if fit_intercept else 'without'} intercept:  "
        f"{max(model.lower_bound_ for model in fits):.9f} to "
        f"{min(model.objective_ for model in fits):.9f}"
    )
    return max(model.lower_bound_ for model in fits)


optima = {fit_intercept: optimum(fit_intercept) for fit_intercept in (True, False)}

# %%
# One line per method. The last columns are the certified relative gap at the end, and the products
# that a certified relative gap of 1e-3 took.

print(f"{'method':<30}{'converged':<12}{'iterations':>10}{'products':>10}{'gap':>9}{'to 1e-3':>9}")
histories, needed = {}, {}
for name, model in methods.items():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        history = histories[name] = model.fit(X, y).history_
    gaps = (history["objective"] - history["lower_bound"]) / history["objective"]
    small = np.flatnonzero(gaps <= 1e-3)
    if len(small):
        needed[name] = history["passes"][small[0]]
    print(
        f"{name:<30}{model.converged_!s:<12}{model.n_iter_:>10}{history['passes'][-1]:>10}"
        f"{gaps[-1]:>9.0e}{needed.get(name, 'never'):>9}"
    )

# %%
# Against products. The curves of Algorithm 1 begin after the products of its power iteration.
#
# The line search is by far the fastest. The adaptive rule of ``PragamSVC`` needs about as many
# products as cutting planes without the line search, down to an error of 1e-6.

looks = [
    {"color": color, "linestyle": line, "marker": marker, "markevery": 0.1, "markersize": 5}
    for color, line, marker in (
        ("#0072B2", "--", "o"),
        ("#D55E00", "--", "s"),
        ("#000000", "--", "^"),
        ("#E69F00", "-", "D"),
        ("#009E73", "-", "v"),
        ("#CC79A7", "-", "*"),
    )
]


def draw(ax, column):
    """The error of each method over a column of its history."""
    for (name, model), look in zip(methods.items(), looks, strict=True):
        history = histories[name]
        error = history["objective"] - optima[model.fit_intercept]
        ax.loglog(history[column], error, label=name, **look)
    ax.set(ylabel="objective - optimum", ylim=(1e-8, 2))


figure, ax = plt.subplots(figsize=(6.4, 5.4), layout="constrained")
draw(ax, "passes")
ax.set(xlabel="products with X or its transpose")
fastest = min(needed, key=needed.get)
ax.set_title(f"{fastest} needs the fewest products:\n{needed[fastest]} to a certified gap of 1e-3")
figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()

# %%
# Against iterations. The dotted lines have the slopes of the worst cases: with the hinge loss, the
# gap of cutting planes falls at least as fast as 1/k, that of the excessive gap technique at least
# as fast as 1/k^2.
#
# Without an intercept the L of Algorithm 1 is larger, because then it cannot be that of centered
# data. The bundle is faster than its worst case.

figure, ax = plt.subplots(figsize=(6.4, 5.4), layout="constrained")
draw(ax, "iteration")
k = np.array([30, 2000])
ax.loglog(k, 20 / k, "k:", linewidth=1)
ax.loglog(k, 1000 / k**2, "k:", linewidth=1)
ax.text(700, 0.04, "1/k")
ax.text(700, 3e-3, "1/k²")
ax.set(xlabel="iterations k", title="By iterations, with the slopes of the worst cases")
figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()
