"""Newton's method: products against plain numpy, certificates, optima, hard data."""

import tracemalloc
from itertools import count

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from sklearn.datasets import make_blobs, make_classification
from sklearn.linear_model import LogisticRegression

from sklearn_bundle import BMRMClassifier, BMRMRegressor
from sklearn_bundle.core.contract import Status, run
from sklearn_bundle.linear.problems.linear import LinearProblem
from sklearn_bundle.linear.problems.score_risk import Line
from sklearn_bundle.linear.rows.memory_rows import rows_in_memory
from sklearn_bundle.linear.solvers.bundle import BundleSolver
from sklearn_bundle.linear.solvers.newton import NewtonSolver
from sklearn_bundle.linear.solvers.solver import Task
from sklearn_bundle.losses import BINARY_LOSSES
from tests.contract.judge import judge
from tests.reference import LOSSES, objective, optimum

pytestmark = [
    pytest.mark.filterwarnings("error::RuntimeWarning"),
    pytest.mark.usefixtures("by_steps"),
]

NAMES = ["hinge", "squared_hinge", "log_loss"]
KNOWN = [*NAMES, "exponential"]
KINDS = ["dense", "csr", "float32"]


def convert(X, kind):
    """The rows as one kind of data, and their values as plain numpy has them."""
    if kind == "csr":
        return sp.csr_matrix(X), X
    X = np.ascontiguousarray(X, dtype=np.float32 if kind == "float32" else np.float64)
    return X, X.astype(np.float64)


def problem_of(X, y, weights, loss, free, n_threads=1):
    rows = rows_in_memory(X, n_threads)
    return LinearProblem(rows, y, weights, BINARY_LOSSES[loss](), free)


def shuffled_rows(X):
    """CSR with the entries of every row in another order."""
    rng = np.random.default_rng(0)
    S = sp.csr_matrix(X)
    for start, stop in zip(S.indptr, S.indptr[1:], strict=False):
        order = start + rng.permutation(stop - start)
        S.indices[start:stop], S.data[start:stop] = S.indices[order], S.data[order]
    S.has_sorted_indices = False
    return S


# ---- products -----------------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize("n_rows", [0, 1, 700, 5000])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("kind", [*KINDS, "unsorted", "int64"])
def test_hessian_against_numpy(kind, free, n_rows):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(5000, 60)) * (rng.uniform(size=(5000, 60)) < 0.5)
    if kind in ("unsorted", "int64"):
        A, V = shuffled_rows(X), X
        if kind == "int64":
            A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    else:
        A, V = convert(X, kind)
    problem = problem_of(A, np.ones(5000), np.full(5000, 1 / 5000), "hinge", free)
    rows = np.sort(rng.permutation(5000)[:n_rows])
    coefs = rng.uniform(size=n_rows)
    B = np.c_[V[rows], np.ones(n_rows)] if free else V[rows]
    hessian = np.tril(problem.rows.hessian(rows, coefs, free))
    np.testing.assert_allclose(hessian, np.tril(B.T @ (coefs[:, None] * B)), rtol=1e-9, atol=1e-9)
    scale = (V**2).sum(axis=0) / np.abs(V).sum(axis=0)
    np.testing.assert_allclose(problem.rows.column_scale(), scale, rtol=1e-10)


# ---- certificates and optima -------------------------------------------------------------------


def lowest_risk(loss, X, y, weights, w, free):
    """The risk at w, minimized over b: for the hinge at one of its kinks."""
    if not free:
        return objective(loss, X, y, weights, 0.0, w, 0.0)
    if loss == "hinge":
        return min(objective(loss, X, y, weights, 0.0, w, b) for b in y - X @ w)
    return minimize_scalar(lambda b: objective(loss, X, y, weights, 0.0, w, b)).fun


def assert_certified(solver, result, loss, X, y, weights, reg_lambda):
    """Objective and bound computed again; X in plain numpy. Risks of 1e-11 carry their rounding.

    What rounding takes off the bound is relative to the terms of the risk, of size 1, not to
    their sum: 2e-5 where features are of size 1e6.
    """
    value = objective(loss, X, y, weights, reg_lambda, result.point, result.intercept)
    assert result.primal - result.excess == pytest.approx(value, rel=1e-9, abs=1e-15)
    gradient, offset = solver.plane
    bound = offset - gradient @ gradient / (2.0 * reg_lambda)
    rounding = 1e-12 * (1.0 + abs(offset))
    taken = 3e-5 if np.abs(X).max() > 1e3 else 1e-11 + 1e-9 * abs(offset)
    assert 0.0 <= result.excess <= max(taken, 1e-10)  # where the bound has nothing to give up
    assert max(bound, 0.0) - rounding - taken <= result.lower_bound <= max(bound, 0.0)
    assert 0.0 <= result.lower_bound <= result.primal


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("loss", NAMES)
def test_every_plane_is_valid(cancer, loss, free):
    X, y = (a[:150] for a in cancer)
    rng = np.random.default_rng(4)
    weights = rng.uniform(0.1, 3.0, size=150)
    weights /= weights.sum()
    solver = NewtonSolver(Task(problem_of(X, y, weights, loss, free), 1e-3, tol=1e-7))
    result = run(solver, tol=1e-7, max_iter=500)
    assert result.status is Status.CONVERGED
    planes = solver.bundle._planes[: solver.bundle.size]
    offsets = solver.bundle._offsets[: solver.bundle.size]
    for scale in (0.0, 1e-3, 0.1, 1.0, 10.0):
        for _ in range(5):
            w = result.point + scale * rng.normal(size=X.shape[1])
            risk = lowest_risk(loss, X, y, weights, w, free)
            assert (planes @ w + offsets).max() <= risk + 1e-12 * (1.0 + scale)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighting", [None, "weights", "balanced"])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("loss", NAMES)
def test_optimum(cancer, loss, free, weighting, kind):
    """The hinges against clarabel, the logistic loss against scikit-learn."""
    y = cancer[1][:150]
    A, X = convert(cancer[0][:150], kind)
    sample_weight = np.random.default_rng(0).integers(0, 4, 150).astype(float)
    s = sample_weight if weighting else np.ones(150)
    if weighting == "balanced":
        s = s * np.where(y > 0, 1.0 / s[y > 0].sum(), 1.0 / s[y < 0].sum())
    s = s / s.sum()
    model = BMRMClassifier(
        loss,
        reg_lambda=1e-2,
        solver="newton",
        tol=1e-8,
        fit_intercept=free,
        class_weight="balanced" if weighting == "balanced" else None,
    ).fit(A, y, sample_weight if weighting else None)
    assert model.status_ == "converged"
    if loss == "log_loss":
        peer = LogisticRegression(C=100.0, tol=1e-10, max_iter=1000, fit_intercept=free)
        peer.fit(X, y, s)
        best = objective(loss, X, y, s, 1e-2, peer.coef_[0], peer.intercept_.item())
    else:
        best = optimum(loss, X, y, s, 1e-2, free)
    w = model.coef_[0].astype(np.float64)  # numpy would multiply single precision in it
    ours = objective(loss, X.astype(np.float64), y, s, 1e-2, w, float(model.intercept_[0]))
    assert ours == pytest.approx(model.objective_, rel=1e-12)
    # the peers' own accuracy is about 1e-9 relative
    assert model.lower_bound_ <= best * (1 + 1e-9) <= ours * (1 + 2e-9)
    assert ours <= best * (1 + 2e-8)


# ---- hard data ---------------------------------------------------------------------------------


def labels(score):
    y = np.where(score > 0.0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return y


def periodic(rng, n):
    """The same 16 rows again and again: a sample may know some of them alone."""
    X = np.tile(rng.normal(size=(16, 6)), (n // 16, 1))
    X[::16] += 50.0
    return X, np.tile(np.where(rng.normal(size=16) > 0.0, 1.0, -1.0), n // 16)


def hard(name, rng):
    if name.startswith("rows"):
        n = int(name.removeprefix("rows "))
        return rng.normal(size=(n, 3)), labels(rng.normal(size=n))
    if name == "zero":
        return np.zeros((30, 2)), labels(np.arange(30) - 20.5)
    if name == "wide":
        return rng.normal(size=(20, 60)), labels(rng.normal(size=20))
    if name == "periodic":
        return periodic(rng, 9600)
    n = {"rare": 5000, "sorted": 9000, "many": 9000}.get(name, 90)
    X = rng.normal(size=(n, 5))
    y = labels(X[:, 0] + rng.normal(size=n))
    if name == "duplicates":
        X, y = np.repeat(np.vstack([X, X]), 2, axis=1), np.r_[y, -y]
    elif name == "constant":
        X[:, 1], X[:, 2] = 3.0, 0.0
    elif name == "far":
        X += 1e4
    elif name.startswith("scale"):
        X *= {"scale 1e6": 1e6, "scale 1e-6": 1e-6}.get(name, np.array([1e6, 1e-6, 1, 1e3, 1]))
    elif name == "separable":
        y = labels(X[:, 0])
        X[:, 0] += 0.1 * y
    elif name == "rare":
        y[:] = -1.0
        y[17] = 1.0
    elif name == "sorted":
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    return X, y


HARD = ["rows 2", "rows 3", "rows 10", "zero", "wide", "duplicates", "constant", "far"]
HARD += ["scale 1e6", "scale 1e-6", "scales", "separable", "rare", "many", "sorted", "periodic"]


@pytest.mark.matrix
@pytest.mark.parametrize("loss", NAMES)
@pytest.mark.parametrize("name", HARD)
def test_hard_data_end_with_a_true_certificate(name, loss):
    """Numbers of numpy that overflow, or are divided by 0, are errors here."""
    rng = np.random.default_rng(5)
    X, y = hard(name, rng)
    n = len(y)
    weightings = [np.full(n, 1 / n), 10.0 ** rng.uniform(-5, 5, size=n)]
    for reg_lambda in (1e-10, 1e-4, 1e3):
        for kind, free, s in [
            ("dense", True, weightings[0]),
            ("csr", False, weightings[0]),
            ("dense", False, weightings[1]),
            ("csr", True, weightings[1]),
        ]:
            A, s = convert(X, kind)[0], s / s.sum()
            solver = NewtonSolver(Task(problem_of(A, y, s, loss, free), reg_lambda, tol=1e-6))
            result = run(solver, tol=1e-6, max_iter=300)
            assert_certified(solver, result, loss, X, y, s, reg_lambda)
            easy = reg_lambda > 1e-10 and s is weightings[0] and not name.startswith("scale")
            assert result.status is Status.CONVERGED or not easy


@pytest.mark.parametrize("loss", NAMES)
def test_no_stored_entry(loss):
    y = labels(np.arange(30) - 20.5)
    for free, best in [(True, None), (False, LOSSES[loss](0.0))]:
        model = BMRMClassifier(loss, solver="newton", tol=1e-6, fit_intercept=free)
        model.fit(sp.csr_matrix((30, 2)), y)
        assert model.status_ == "converged" and not model.coef_.any()
        if best is None:
            best = lowest_risk(loss, np.zeros((30, 2)), y, np.full(30, 1 / 30), np.zeros(2), True)
        assert model.objective_ == pytest.approx(best, rel=1e-6)


# ---- threads, warm starts, bundles of few planes, hand-over ------------------------------------


@pytest.mark.parametrize("loss", NAMES)
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_n_jobs_does_not_change_a_bit(kind, loss, monkeypatch):
    monkeypatch.setattr("sklearn_bundle.core.parallel._BLOCK_ENTRIES", 5000)
    monkeypatch.setattr("sklearn_bundle.core.parallel._BLOCK_ROWS", 1500)
    rng = np.random.default_rng(6)
    X = rng.normal(size=(9000, 40))
    y = X[:, 0] + 2.0 * rng.normal(size=9000) > 0.0
    A = convert(X * (np.abs(X) > 0.5), kind)[0]
    one, two = (
        BMRMClassifier(loss, solver="newton", tol=1e-4, n_jobs=n_jobs).fit(A, y)
        for n_jobs in (1, 2)
    )
    assert np.array_equal(one.coef_, two.coef_) and one.intercept_ == two.intercept_
    assert one.lower_bound_ == two.lower_bound_ and one.n_iter_ == two.n_iter_


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("loss", KNOWN)
def test_sums_in_blocks(loss, free, monkeypatch):
    """Of rows in threads; each block has a few of them, and the last ones are no whole vector."""
    rng = np.random.default_rng(8)
    n = 1003
    scores, direction, weights = rng.normal(size=(3, n))
    y, weights = np.sign(rng.normal(size=n)), np.abs(weights) / np.abs(weights).sum()
    args = rng.normal(size=(n, 3)), y, weights, loss, free
    whole, out = problem_of(*args).loss, np.empty((2, n))
    monkeypatch.setattr("sklearn_bundle.core.parallel._BLOCK_ROWS", 70)
    with problem_of(*args, n_threads=2) as problem:
        point, data = problem.score_risk(), (y, weights, 0.5)
        point.go(np.zeros(3), 0.1)
        point.scores = scores.copy()
        slope = point.slope(direction, 0.5, 0.3, 0.7)
        assert slope == pytest.approx(
            whole.smoothed_slope(scores, direction, *data, 0.1, 0.3, 0.7), rel=1e-12
        )
        point.evaluate(0.5, 1e-12)
        best = whole.smoothed_intercept(scores, *data, 0.1, point.units.unit, 1e-12, out[0])
        assert point.b == pytest.approx(best if free else 0.1, abs=1e-9)
        cut = whole.smoothed_cut(scores, *data, point.b, free, out[0])
        assert (point.risk, point.offset) == pytest.approx(cut, rel=1e-12)
        np.testing.assert_allclose(point.gradient, args[0].T @ out[0], atol=1e-12)
        w, b = -point.gradient, -point.balance
        slope = -float(w @ w) - b * b
        length = point.step(Line(w, b, slope, 0.0, 1.0, 1e-3, np.ones(1)), 0.5)
        assert length > 0.0
        np.testing.assert_allclose(point.scores, scores + length * (args[0] @ w), rtol=1e-12)


@pytest.mark.parametrize("loss", NAMES)
def test_memory(loss, monkeypatch):
    """At most nine vectors of doubles beside the data, and a byte per label."""
    monkeypatch.setattr("sklearn_bundle.core.parallel._BLOCK_ROWS", 5000)  # as on 16 times the rows
    rng = np.random.default_rng(9)
    X = rng.normal(size=(100_000, 3))
    y = X[:, 0] + rng.normal(size=100_000) > 0.0
    model = BMRMClassifier(loss, solver="newton", reg_lambda=1e-2).fit(X, y)  # compiles
    tracemalloc.start()
    try:
        assert model.fit(X, y).converged_
        peak = tracemalloc.get_traced_memory()[1] / (8 * len(y))
    finally:
        tracemalloc.stop()
    assert peak < 9.5  # with 0.13 for labels, and what a risk takes of a block of rows


def test_samples_save_passes():
    """The first point comes from small problems, whose passes are counted as parts."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(20_000, 5))
    y = X[:, 0] + rng.normal(size=20_000) > 0.0
    model = BMRMClassifier(solver="newton").fit(X, y)
    first = model.history_[0]
    assert model.status_ == "converged"
    assert first["passes"] < model.history_["passes"][-1] < 60
    assert first["objective"] < 1.2 * model.objective_  # it is 1 at w = 0


@pytest.mark.parametrize("loss", NAMES)
def test_warm_start_over_reg_lambda(data, loss):
    warm = BMRMClassifier(loss, solver="newton", tol=1e-5, warm_start=True).fit(*data)
    assert warm.fit(*data).n_iter_ <= 2
    for reg_lambda in (5e-5, 1e-3, 1e-6):
        warm.set_params(reg_lambda=reg_lambda).fit(*data)
        cold = BMRMClassifier(loss, solver="newton", tol=1e-5, reg_lambda=reg_lambda).fit(*data)
        assert warm.status_ == "converged" and warm.n_iter_ <= cold.n_iter_ + 5
        assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-5)


@pytest.mark.parametrize(
    "solvers",
    [
        ("line-search", "newton"),
        ("cutting-plane", "newton"),
        ("dual-coordinate", "newton"),
        ("newton", "line-search"),
    ],
)
@pytest.mark.parametrize("loss", NAMES)
def test_another_solver_goes_on(data, loss, solvers):
    first, second = solvers
    model = BMRMClassifier(loss, solver=first, reg_lambda=1e-2, warm_start=True, max_iter=5000)
    model.set_params(tol=1e-3).fit(*data)
    bound, primal = model.lower_bound_, model.objective_
    model.set_params(solver=second, tol=1e-6).fit(*data)
    h = model.history_
    assert h["solver"][0] == second and model.status_ == "converged"
    if first != "dual-coordinate":  # which keeps its alpha alone
        assert h["lower_bound"][0] >= bound * (1 - 1e-9)
        assert h["objective"][0] <= primal * (1 + 1e-9)


@pytest.mark.parametrize("bundle_size", [2, 3, 10])
@pytest.mark.parametrize("loss", NAMES)
def test_few_planes(data, loss, bundle_size):
    model = BMRMClassifier(
        loss, solver="newton", bundle_size=bundle_size, reg_lambda=1e-2, warm_start=True
    ).fit(*data)
    assert model.status_ == "converged" and model._warm.kept[0].bundle.size <= bundle_size
    best = BMRMClassifier(loss, reg_lambda=1e-2, tol=1e-9, max_iter=5000).fit(*data).objective_
    assert model.lower_bound_ <= best <= model.objective_ * (1 + 1e-9)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("loss", NAMES)
def test_line_search_goes_on_where_newton_ends(cancer, loss, free, monkeypatch):
    X, y = cancer
    weights = np.full(len(y), 1 / len(y))
    take, taken = NewtonSolver._take_step, count()
    monkeypatch.setattr(
        NewtonSolver, "_take_step", lambda self, descent: next(taken) < 2 and take(self, descent)
    )
    solver = NewtonSolver(Task(problem_of(X, y, weights, loss, free), 1e-3, tol=1e-6))
    result = run(solver, tol=1e-6, max_iter=2000)
    assert result.status is Status.CONVERGED
    h = result.history
    assert h["solver"].tolist() == 3 * ["newton"] + (len(h) - 3) * ["line-search"]
    assert (np.diff(h["objective"]) <= 1e-15).all() and (np.diff(h["lower_bound"]) >= -1e-15).all()
    assert_certified(solver, result, loss, X, y, weights, 1e-3)
    peer = run(BundleSolver(problem_of(X, y, weights, loss, free), 1e-3), tol=1e-6, max_iter=2000)
    assert result.primal == pytest.approx(peer.primal, rel=2e-6)


@pytest.mark.parametrize("loss", NAMES)
def test_rounding_ends_the_run(data, loss):
    X, y = data[0], np.where(data[1] == 1, 1.0, -1.0)
    weights = np.full(len(y), 1 / len(y))
    solver = NewtonSolver(Task(problem_of(X, y, weights, loss, True), 1e-2, tol=1e-300))
    result = run(solver, tol=1e-300, max_iter=5000)
    assert result.status is (Status.STALLED if result.gap > 0.0 else Status.CONVERGED)
    assert result.relative_gap <= 1e-11


def nearly_separable(seed):
    """More features than rows at the margin, for nearly no regularization."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(40, 250)), int(rng.integers(20, 150))
    X = 10.0 ** rng.uniform(-1.0, 1.5) * rng.standard_normal((n, d))
    X += rng.choice([0.0, 10.0]) * rng.standard_normal(d)
    f = X @ rng.standard_normal(d)
    return X, f > np.median(f), f / f.std(), 10.0 ** rng.uniform(-7.0, -4.0)


def taken_by_newton(model, most):
    """Whether the fit converged by so many Newton steps per problem, and nothing else."""
    histories = model.history_ if isinstance(model.history_, list) else [model.history_]
    assert all(set(h["solver"]) == {"newton"} for h in histories)
    return model.converged_ and np.max(model.n_iter_) <= most


@pytest.mark.parametrize("solver", ["newton", pytest.param("auto", marks=pytest.mark.wide)])
def test_few_rows_at_the_margin_of_unscaled_blobs(solver):
    X, y = make_blobs(250, 100, centers=10, random_state=0)
    model = BMRMClassifier("squared_hinge", solver=solver, tol=1e-8).fit(X, y)
    assert taken_by_newton(model, 40)
    two = BMRMClassifier("squared_hinge", solver=solver, tol=1e-8).fit(X, y == 0)
    judge(two, X, y == 0)


@pytest.mark.wide
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5, 6])  # references of 4 and 7 take 60 s
def test_few_rows_at_the_margin_of_random_data(seed):
    X, y, f, reg_lambda = nearly_separable(seed)
    same = {"solver": "newton", "tol": 1e-6, "reg_lambda": reg_lambda}
    model = BMRMClassifier("squared_hinge", **same).fit(X, y)
    assert taken_by_newton(model, 80)
    judge(model, X, y)
    model = BMRMRegressor("squared_epsilon_insensitive", epsilon=0.3, **same).fit(X, f)
    assert taken_by_newton(model, 80)
    judge(model, X, f)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log_loss"])
def test_features_far_from_zero(loss):
    """The intercept's curvature is tiny beside that of w; it must not be damped."""
    X, y = make_classification(600, 10, random_state=0)
    near, far = (
        BMRMClassifier(loss, reg_lambda=1e-3, solver="newton").fit(X + shift, y)
        for shift in (0.0, 1e3)
    )
    assert far.status_ == "converged" and set(far.history_["solver"]) == {"newton"}
    assert far.n_iter_ <= near.n_iter_ + 10
    assert far.objective_ == pytest.approx(near.objective_, rel=2e-3)
