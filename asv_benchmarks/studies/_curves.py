"""Time against gap: fits of five problems beside scikit-learn's and CRFsuite's, and small fits.

Every method runs over a ladder of its settings. The excess of an objective is (J - bound) / J, with
the best lower bound that ours certified; J is computed here from what the model predicts. A point
of ours is the gap that the fit itself certified, which is never below its excess. LinearSVC and
SGDClassifier run on the same loss, C or alpha; LinearSVC penalizes its intercept, so that it ends
above this optimum. CPU seconds of one thread, the fastest of ``--repeat`` runs in turn.

Without ``--data`` the sets are those that scikit-learn ships, and there is no random field.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
from _chains import load as load_chains
from _crfsuite import PEERS, CRFsuite
from _measure import Table, cpu_seconds, header, load_tasks, quiet_single_thread, readable, versions
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.linear_model import LogisticRegression, QuantileRegressor, SGDClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from sklearn_bundle import SDCACRF, BMRMClassifier, BMRMRegressor, SwapSVC

HELP = "time against gap, and fits of a few hundred rows"

ROWS = 10_000  # of a set, at most: SVC(kernel="linear") takes minutes on more
SENTENCES = 2_000
GOALS = 1e-1, 1e-2, 1e-3, 1e-5
_TOLS = 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6
_ITERATIONS = tuple(4**k for k in range(7))
_STEPS = 1, 2, 3, 4, 6, 10  # of Newton's method
FLOOR = 1e-7  # of the figure: smaller gaps are drawn there
_CUT = 10.0  # seconds; a ladder ends after a fit that took as long

Points = list[tuple[float, float]]  # CPU seconds and objective; of ours the certified gap


@dataclass
class Problem:
    """What is minimized, ours over ``tol``, and peers: makes one at a setting, and the settings."""

    name: str
    data: str
    ours: Callable[[float], Any]
    fit: Callable[[Any], Any]
    objective: Callable[[Any], float]
    peers: dict[str, tuple[Callable[[Any], Any], tuple]]
    bound: float = -np.inf
    curves: dict[str, Points] = field(default_factory=dict)

    def measure(self, repeat: int) -> None:
        own: Points = []
        for tol in _TOLS:
            seconds, model = self._timed(partial(self.ours, tol), repeat)
            self.bound = max(self.bound, model.lower_bound_)
            own.append((seconds, model.relative_gap_))
        self.curves["ours"] = own
        for name, (make, settings) in self.peers.items():
            points: Points = []
            for setting in settings:
                seconds, model = self._timed(partial(make, setting), repeat)
                value = self.objective(model)
                points.append((seconds, (value - self.bound) / value))
                if seconds > _CUT:
                    break
            self.curves[name] = points

    def _timed(self, make: Callable[[], Any], repeat: int) -> tuple[float, Any]:
        seconds, model = cpu_seconds(lambda: self.fit(make()))
        for _ in range(repeat if seconds < _CUT / 5 else 0):
            seconds = min(seconds, cpu_seconds(lambda: self.fit(make()))[0])
        return seconds, model


def linear(tasks: Any, loss: str) -> Problem:
    """Two classes, a free intercept."""
    if tasks is None:
        X, digit = load_digits(return_X_y=True)
        X, y, name = StandardScaler().fit_transform(X), digit % 2 * 2.0 - 1.0, "digits"
    else:
        (X, y), name = tasks.linear("ijcnn1"), "ijcnn1"
        X, y = X[:ROWS], y[:ROWS]
    reg_lambda = 1e-4
    C = 1 / (len(y) * reg_lambda)
    values = {"hinge": lambda m: np.maximum(0, 1 - m), "log_loss": lambda m: np.logaddexp(0, -m)}

    def objective(model: Any) -> float:
        losses = values[loss](y * model.decision_function(X))
        return 0.5 * reg_lambda * float((model.coef_**2).sum()) + float(losses.mean())

    def sgd(epochs: int) -> Any:
        return SGDClassifier(loss, alpha=reg_lambda, max_iter=epochs, tol=None, random_state=0)

    if loss == "hinge":
        peers = {
            'SVC(kernel="linear")': (
                lambda tol: SVC(C=C, kernel="linear", tol=tol, cache_size=1000),
                (1.0, 0.3, 1e-1, 1e-2, 1e-3),
            ),
            "LinearSVC": (
                lambda k: LinearSVC(loss="hinge", C=C, max_iter=k, tol=1e-12, random_state=0),
                _ITERATIONS,
            ),
        }
    else:
        peers = {
            f"LogisticRegression, {solver}": (
                lambda k, solver=solver: LogisticRegression(
                    C=C, solver=solver, max_iter=k, tol=1e-12
                ),
                settings,
            )
            for solver, settings in (
                ("lbfgs", _ITERATIONS),
                ("newton-cholesky", (1, 2, 3, 4, 6, 10)),
            )
        }
    peers["SGDClassifier"] = (sgd, _ITERATIONS)
    return Problem(
        f"{loss}, free intercept",
        f"{name}, {len(y):,} x {X.shape[1]}",
        lambda tol: BMRMClassifier(loss, reg_lambda=reg_lambda, tol=tol, n_jobs=1),
        lambda model: model.fit(X, y),
        objective,
        peers,
    )


def quantile(tasks: Any) -> Problem:
    """The 0.9 quantile with the L1 norm, the problem of QuantileRegressor."""
    (X, y), name = (
        (load_diabetes(return_X_y=True), "diabetes")
        if tasks is None
        else (tasks.regression("cadata"), "cadata")
    )
    X, y = StandardScaler().fit_transform(X[:ROWS]), y[:ROWS]
    y = (y - y.mean()) / y.std()
    q, alpha = 0.9, 1e-3

    def objective(model: Any) -> float:
        residuals = y - model.predict(X)
        pinball = np.maximum(q * residuals, (q - 1) * residuals)
        return float(alpha * np.abs(model.coef_).sum() + pinball.mean())

    return Problem(
        "quantile 0.9",
        f"{name}, {len(y):,} x {X.shape[1]}",
        lambda tol: BMRMRegressor(
            "quantile", quantile=q, regularizer="l1", reg_lambda=alpha, tol=tol, n_jobs=1
        ),
        lambda model: model.fit(X, y),
        objective,
        {"QuantileRegressor": (lambda _: QuantileRegressor(quantile=q, alpha=alpha), (None,))},
    )


def kernel(tasks: Any) -> Problem:
    """The objective of SVC with the RBF kernel."""
    if tasks is None:
        X, digit = load_digits(return_X_y=True)
        y, name = digit % 2 * 2.0 - 1.0, "digits"
    else:
        (X, y, *_), name = tasks.kernel("usps_odd"), "usps, odd digits"
    C, gamma = 10.0, 1 / (X.shape[1] * X.var())

    def objective(model: Any) -> float:
        scores = model.decision_function(X)
        dual = model.dual_coef_.ravel()
        norm = dual @ (scores[model.support_] - float(np.ravel(model.intercept_)[0]))
        return 0.5 * float(norm) + C * float(np.maximum(0, 1 - y * scores).sum())

    return Problem(
        "hinge, RBF kernel",
        f"{name}, {len(y):,} x {X.shape[1]}",
        lambda tol: SwapSVC(C, loss="hinge", gamma=gamma, tol=tol, cache_size=1000),
        lambda model: model.fit(X, y),
        objective,
        {
            "SVC": (
                lambda tol: SVC(C=C, gamma=gamma, tol=tol, cache_size=1000),
                (2.0, 1.0, 0.3, 1e-1, 1e-2, 1e-3, 1e-4),
            )
        },
    )


def random_field(tasks: Any, repeat: int) -> Problem:
    """A linear chain with all weights: CRFsuite's log has its objective after each iteration."""
    X, y, *test = tasks.sequences("conll2000")
    part = SimpleNamespace(sequences=lambda name: (X[:SENTENCES], y[:SENTENCES], *test))
    task = load_chains("conll2000", part)
    matrices, labels = task.train.matrices, task.train.labels
    problem = Problem(
        "conditional random field",
        f"CoNLL-2000, {len(labels):,} sentences",
        lambda tol: SDCACRF(reg_lambda=task.reg_lambda, fit_intercept=False, tol=tol),
        lambda model: model.fit(matrices, labels),
        lambda model: model.objective_,
        {},
    )
    problem.measure(repeat)
    with TemporaryDirectory() as folder:
        run = CRFsuite(task).train(PEERS["lbfgs-all"], 60, Path(folder, "model"))
    problem.curves["CRFsuite, L-BFGS"] = [
        (seconds, (value - problem.bound) / value)
        for seconds, value in zip(run.seconds, run.losses, strict=False)
    ]
    return problem


def small_fits(repeat: int) -> list[list[str]]:
    """Milliseconds on a few hundred rows, where checks of the input cost as much as the fit."""
    rows = []
    for name, (X, y) in {
        "iris, 2 classes": tuple(a[:100] for a in load_iris(return_X_y=True)),
        "breast cancer": load_breast_cancer(return_X_y=True),
        "digits, odd": load_digits(return_X_y=True),
    }.items():
        X, y = StandardScaler().fit_transform(X), y % 2
        C = 1 / (len(y) * 1e-2)
        fits = {
            "hinge": BMRMClassifier("hinge", reg_lambda=1e-2),
            "LinearSVC": LinearSVC(loss="hinge", C=C, random_state=0),
            "log_loss": BMRMClassifier("log_loss", reg_lambda=1e-2),
            "LogisticRegression": LogisticRegression(C=C),
            "SVC": SwapSVC(loss="hinge", tol=1e-3),
            "SVC of scikit-learn": SVC(),
        }
        for model in fits.values():
            model.fit(X, y)
        taken = {key: [] for key in fits}
        for _ in range(4 * repeat + 3):
            for key, model in fits.items():
                taken[key].append(cpu_seconds(partial(model.fit, X, y))[0])
        cells = [f"{1e3 * float(np.median(seconds)):.1f}" for seconds in taken.values()]
        rows.append([f"{name}, {X.shape[0]} x {X.shape[1]}", *cells])
    return rows


def reached(points: Points, goal: float) -> str:
    """The seconds of the cheapest setting that is within the goal."""
    seconds = [s for s, excess in points if excess <= goal]
    return f"{min(seconds):.2g}" if seconds else "--"


def draw(problems: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams |= {"font.size": 9}
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    figure, axes = plt.subplots(
        1, len(problems), figsize=(3.1 * len(problems), 3.0), layout="constrained", squeeze=False
    )
    colors = "#0072B2", "#D55E00", "#E69F00", "#999999"
    for ax, problem in zip(axes[0], problems, strict=True):
        for (name, points), color in zip(problem["curves"].items(), colors, strict=False):
            style = {"linewidth": 2, "marker": "o"} if name == "ours" else {"marker": "s"}
            label = "this package, certified" if name == "ours" else name
            shown = [(seconds, max(gap, FLOOR)) for seconds, gap in points]
            ax.loglog(*zip(*shown, strict=True), color=color, markersize=4, label=label, **style)
        ax.set_ylim(FLOOR / 2, 3e3)  # the legend is above the curves
        ax.set_yticks([1e-7, 1e-5, 1e-3, 1e-1])
        ax.set_title(f"{problem['name']}\n{problem['data']}", fontsize=9)
        ax.set_xlim(ax.get_xlim()[0] / 2, ax.get_xlim()[1] * 2)
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_xlabel("CPU seconds")
        ax.grid(alpha=0.3)
        ax.legend(fontsize=6.5, loc="upper right")
    axes[0][0].set_ylabel("relative gap to the optimum")
    figure.savefig(path, dpi=130)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the curves")
    parser.add_argument("--only", nargs="+", type=int, metavar="K", help="problems to draw, from 0")
    parser.add_argument("--draw", type=Path, metavar="JSON", help="draw earlier results alone")


def run(arguments: argparse.Namespace) -> None:
    """Print both tables, or draw what a file has."""
    if arguments.draw is not None:
        problems = json.loads(arguments.draw.read_text())["curves"]
    else:
        problems = measure(arguments)
    if arguments.figure is not None:
        draw([problems[k] for k in arguments.only or range(len(problems))], arguments.figure)


def measure(arguments: argparse.Namespace) -> list[dict]:
    tasks = load_tasks(arguments.data)
    print(header(__doc__))
    problems: list[Problem] = []
    with quiet_single_thread():
        for make in (
            partial(linear, loss="hinge"),
            quantile,
            kernel,
            partial(linear, loss="log_loss"),
        ):
            problem = make(tasks)
            problem.fit(problem.ours(1e-2))  # compiles
            problem.measure(arguments.repeat)
            problems.append(problem)
        if tasks is not None:
            problems.append(random_field(tasks, 0))
        small = small_fits(arguments.repeat)
    columns = ["problem", "fit", *(f"s to {goal:.0e}" for goal in GOALS), "lowest gap"]
    rows = [
        [problem.name if name == "ours" else "..", name]
        + [reached(points, goal) for goal in GOALS]
        + [f"{min(gap for _, gap in points):.0e}"]
        for problem in problems
        for name, points in problem.curves.items()
    ]
    table = Table(list(zip(columns, (26, 34, 9, 9, 9, 9, 10), strict=True)))
    for row in rows:
        table.row(*row)
    small_columns = ["ms of a fit", "hinge", "LinearSVC", "log_loss", "LogisticRegression"]
    small_columns += ["kernel hinge", "SVC"]
    print()
    table = Table([(name, 28 if k == 0 else 18) for k, name in enumerate(small_columns)])
    for row in small:
        table.row(*row)
    curves = [
        {"name": p.name, "data": p.data, "bound": p.bound, "curves": p.curves} for p in problems
    ]
    if arguments.json is not None:
        facts = versions()
        content = {
            "command": "python asv_benchmarks/studies/peers.py curves"
            + (" --data FOLDER" if tasks else ""),
            "date": facts["date"][:10],
            "version": facts["sklearn_bundle"],
            "machine": facts["machine"],
            "peer": "see the table",
            "data": "; ".join(p.data for p in problems),
            "tables": {
                "curves": {"columns": columns, "rows": rows},
                "small": {"columns": small_columns, "rows": small, "data": "scikit-learn's"},
            },
            "curves": curves,
        }
        arguments.json.write_text(readable(content))
    return curves
