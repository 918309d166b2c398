"""The contests of BMRMClassifier on the CPU clock in one thread: hinge, squared hinge, logistic."""

from functools import partial
from typing import Any

from _contest import TOLERANCES, Part, Peer, cells, make_bmrm, make_svc
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

TITLES = {
    "A": """\
A: hinge, no intercept, default parameters, to a certified relative gap of 1e-3. The peer is
LinearSVC(loss="hinge"), the better one of tol=1e-12 over max_iter and of tol. (A tol that it never
reaches is not its best: it then never looks again at the variables that it has shrunk away, and
ends above the optimum, by 2e-3 on covtype2 at 1e-4.)""",
    "A6": """\
A6: the same to 1e-6 on the dense sets: our certified gap, and the peer's suboptimality.""",
    "squared_hinge": """\
squared_hinge: no intercept. The peer is LinearSVC(loss="squared_hinge"), the best one of dual=True
over max_iter or tol, as in A, and of dual=False over tol.""",
    "log_loss": """\
log_loss: free intercept on both sides. The peer is LogisticRegression(tol=1e-12), the best one of
lbfgs, newton-cg, newton-cholesky, sag and saga over max_iter (not liblinear, which penalizes the
intercept; newton-cholesky up to 2,000 features); it gets the best intercept for its weights.""",
    "B": """\
B: hinge, free intercept, all rows. The peer is SVC(kernel="linear", cache_size=1000) over tol; it
gets the best intercept for its weights.""",
}

PEER_ITERS = tuple(2**k for k in range(14))  # what takes more is for tol
# From where LIBLINEAR's first check ends it.
PEER_TOLERANCES = tuple(factor * 10.0**-k for k in range(-1, 8) for factor in (1.0, 0.3))
ENDLESS = 10_000_000  # iterations, of what tol is to end
MOST_HESSIAN_FEATURES = 2_000

_CELLS = (
    *(*cells("ijcnn1", (1e-5,), 1.5), *cells("ijcnn1", (1e-6,), 3.0)),
    *(*cells("a9a", (1e-4,), 1.1), *cells("a9a", (1e-5, 1e-6), 2.5)),
    *(*cells("covtype2", (1e-3,), 2.5), *cells("covtype2", (1e-4,), 20.0)),
    *(*cells("mnist_even", (1e-3,), 1.0), *cells("mnist_even", (1e-4,), 2.4)),
    *cells("mnist_even", (1e-5,), 10.0),
    *cells("news20_bigrams", (1e-4, 1e-5), 1.05),
    *cells("w8a", (1e-4, 1e-5), 1.0),
)
DENSE = ("ijcnn1", "covtype2")


def without_asked(tasks: tuple[str, ...] | None = None) -> tuple:
    """The same cells, all or those of some tasks, with no ratio asked for."""
    chosen = [c for c in _CELLS if tasks is None or c.task in tasks]
    return tuple(found for c in chosen for found in cells(c.task, (c.reg_lambda,)))


def _make_linear_svc(
    reg_lambda: float,
    C: float,
    setting: Any,
    parameter: str,
    loss: str = "hinge",
    dual: bool = True,
) -> LinearSVC:
    """By dual coordinate descent or a trust-region Newton method; the parameter alone ends it."""
    limits = {"tol": 1e-12, "max_iter": ENDLESS, parameter: setting}
    form = {"loss": loss, "dual": dual, "fit_intercept": False, "random_state": 0}
    return LinearSVC(C=C, **form, **limits)


def svc_peers(loss: str) -> dict[str, Peer]:
    ladders = {"max_iter": PEER_ITERS, "tol": PEER_TOLERANCES}
    return {
        name: Peer(
            partial(_make_linear_svc, parameter=name, loss=loss), ladder, ("J*",), monotone=True
        )
        for name, ladder in ladders.items()
    }


PRIMAL = partial(_make_linear_svc, parameter="tol", loss="squared_hinge", dual=False)


def _make_logistic(reg_lambda: float, C: float, max_iter: int, solver: str) -> LogisticRegression:
    settings: dict[str, Any] = {"C": C, "max_iter": max_iter, "random_state": 0}
    return LogisticRegression(solver=solver, tol=1e-12, **settings)


def _logistic_peer(solver: str, **limits: Any) -> Peer:
    make = partial(_make_logistic, solver=solver)
    return Peer(make, PEER_ITERS, ("J*",), monotone=True, **limits)


LOGISTIC = {
    "newton-cholesky": _logistic_peer("newton-cholesky", max_features=MOST_HESSIAN_FEATURES),
    "lbfgs": _logistic_peer("lbfgs"),
    "newton-cg": _logistic_peer("newton-cg"),
    "sag": _logistic_peer("sag"),
    "saga": _logistic_peer("saga"),
}

PARTS = {
    "A": Part(
        title=TITLES["A"],
        ours=partial(make_bmrm, fit_intercept=False),
        peers=svc_peers("hinge"),
        best_of=True,
        fit_intercept=False,
        required=_CELLS,
        asked_mean=2.0,
    ),
    "A6": Part(
        title=TITLES["A6"],
        ours=partial(make_bmrm, tol=1e-6, fit_intercept=False, max_iter=3000),
        peers=svc_peers("hinge"),
        best_of=True,
        fit_intercept=False,
        suboptimality=1e-6,
        required=without_asked(DENSE),
        asked_mean=3.0,
    ),
    "squared_hinge": Part(
        title=TITLES["squared_hinge"],
        ours=partial(make_bmrm, fit_intercept=False, loss="squared_hinge"),
        peers={
            **svc_peers("squared_hinge"),
            "primal": Peer(PRIMAL, PEER_TOLERANCES, ("J*",), monotone=True),
        },
        best_of=True,
        loss="squared_hinge",
        fit_intercept=False,
        required=without_asked(),
        asked_mean=1.5,
    ),
    "log_loss": Part(
        title=TITLES["log_loss"],
        ours=partial(make_bmrm, loss="log_loss"),
        peers=LOGISTIC,
        best_of=True,
        loss="log_loss",
        required=without_asked(),
        asked_mean=1.5,
    ),
    "B": Part(
        title=TITLES["B"],
        ours=make_bmrm,
        peers={"SVC": Peer(make_svc, TOLERANCES, ("J*",), monotone=True)},
        required=(
            *cells("a9a", (1e-3, 1e-4), 30.0),
            *cells("ijcnn1", (1e-3, 1e-4), 30.0),
            *cells("covtype2", (1e-3, 1e-4), 30.0),
        ),
    ),
}
