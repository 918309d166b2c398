"""The experiments of Le Priol, Piche and Lacoste-Julien (2018): SDCA for CRFs.

Section 6 compares samplings of SDCA on OCR letters (figure 2), shares of gap sampling on Dutch
named entities (figure 3) and solvers (figures 4 and 6), and asks whether the estimate of the gap
can be trusted (figure 9). reg_lambda = 1/n, all attributes by all labels. Each task is cut to so
many random sequences; the paper's fourth, the Penn Treebank, is not in the folder.

An epoch is n updates, for lbfgs an iteration; an oracle call is one marginalization of one
sequence, counted over n. A curve is made of fits of 1, 2, 3, 5, ... epochs, each with its own
certificate. "exponentiated" with uniform sampling is OEG with another rule for its steps. SAG-NUS
(Schmidt et al.) is a loop of this file, on OCR alone.

python asv_benchmarks/papers/sdca.py --data FOLDER --figure sdca.png
"""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from _common import Panel, Study, counted, run
from benchmarks.chains import chains
from numba import njit

from sklearn_bundle import SDCACRF

TOL = 1e-3  # relative suboptimality that solvers are compared at
EPOCHS = (1, 2, 3, 5, 8, 12, 18, 27)
_SEQUENCES = 1_000


class Kind(NamedTuple):
    """What is fitted; the share is that of draws by gap or importance."""

    solver: str
    sampling: str = "uniform"
    share: float = 0.8

    @property
    def label(self) -> str:
        share = f" {self.share:g}" if self.share != 0.8 else ""
        return self.solver if self.solver == "lbfgs" else f"{self.solver}, {self.sampling}{share}"


UNIFORM, GAP = Kind("sdca"), Kind("sdca", "gap")
OEG, OEG_GAP, LBFGS = Kind("exponentiated"), Kind("exponentiated", "gap"), Kind("lbfgs")
IMPORTANCE = Kind("sdca", "importance")
SOLVERS = (UNIFORM, GAP, OEG, OEG_GAP, LBFGS)
SHARES = (0.2, 0.5, 0.8, 1.0)


class Curve(NamedTuple):
    """What is true after EPOCHS of a fit: objective, gaps, and oracle calls over n."""

    objective: np.ndarray
    gap: np.ndarray
    estimate: np.ndarray
    calls: np.ndarray

    def to(self, best: float, within: float) -> tuple[float | None, float | None]:
        """Epochs and oracle calls to a relative suboptimality."""
        at = np.flatnonzero(self.objective <= best * (1.0 + within))
        return (float(EPOCHS[at[0]]), float(self.calls[at[0]])) if len(at) else (None, None)


def read(tasks: ModuleType | None) -> dict[str, tuple[Any, Any]]:
    if tasks is None:
        return {"digits in words": chains("digit_words")}
    found = {}
    for name, title in (("ocr", "OCR"), ("conll2000", "CONLL"), ("conll2002_ned", "NER")):
        X, y = tasks.sequences(name)[:2]
        rows = np.random.default_rng(0).permutation(len(y))[:_SEQUENCES]
        found[title] = [X[i] for i in rows], [[str(label) for label in y[i]] for i in rows]
    return found


def follow(X: Any, y: Any, kind: Kind) -> Curve:
    settings = {"reg_lambda": 1.0 / len(y), "solver": kind.solver, "tol": 1e-9, "random_state": 0}
    if kind.solver != "lbfgs":
        settings |= {"sampling": kind.sampling, "nonuniformity": kind.share}
    models = [SDCACRF(max_iter=count, n_jobs=1, **settings).fit(X, y) for count in EPOCHS]
    # The estimate on the way, of the longest fit: a fit that ends makes a full pass.
    estimates, last = models[-1].history_["estimate"], len(models[-1].history_) - 1
    return Curve(
        np.array([model.objective_ for model in models]),
        np.array([model.dual_gap_ for model in models]),
        np.array([estimates[min(count, last) - 1] for count in EPOCHS]),
        np.array([float(model.history_["passes"][-1]) for model in models]),
    )


def reproduce(study: Study) -> None:
    panels = []
    for title, (X, y) in read(study.tasks).items():
        kinds = [*SOLVERS]
        if title != "CONLL":
            kinds += [IMPORTANCE] if title != "NER" else [Kind("sdca", "gap", s) for s in SHARES]
        curves: dict[str, Curve] = {}
        for kind in dict.fromkeys(kinds):
            curves[kind.label] = follow(X, y, kind)
        if title not in ("CONLL", "NER"):
            for skipping in (False, True):
                curves["SAG-NUS*" if skipping else "SAG-NUS"] = sag_nus(X, y, skipping)
        exact = SDCACRF(reg_lambda=1.0 / len(y), tol=1e-7, max_iter=1000, random_state=0).fit(X, y)
        best = min(exact.objective_, *(c.objective.min() for c in curves.values()))
        rows = []
        for name, curve in curves.items():
            epochs, calls = curve.to(best, TOL)
            ratio = curve.estimate[2:-1] / np.maximum(curve.gap[2:-1], 1e-300)
            shown = "-" if np.isnan(ratio).any() else f"{ratio.min():.2f} to {ratio.max():.2f}"
            cells = [counted(epochs, EPOCHS[-1]), counted(calls, curve.calls[-1])]
            rows.append([name, *cells, f"{curve.objective[-1] / best - 1.0:.0e}", shown])
        columns = ["solver", f"epochs to {TOL:g}", "oracle calls/n", "last", "estimate / gap"]
        study.show(f"{title}, n = {len(y):,}; the optimum is {best:.6f}", columns, rows)
        _compare(study, title, curves, best)
        for over in ("epochs", "oracle calls / n"):
            lines = {
                k: (
                    EPOCHS if over == "epochs" else c.calls,
                    np.maximum(c.objective / best - 1.0, 1e-8),
                )
                for k, c in curves.items()
            }
            panels.append(Panel(title, over, "relative suboptimality", lines))
    study.draw(panels, columns=2)


def _compare(study: Study, title: str, curves: dict[str, Curve], best: float) -> None:
    def last(kind: Kind) -> float:
        return curves[kind.label].objective[-1] / best - 1.0

    def to(name: str) -> tuple[float, float]:
        epochs, calls = curves[name].to(best, TOL)
        return epochs or np.inf, calls or np.inf

    if IMPORTANCE.label in curves:
        told = f"After {EPOCHS[-1]} epochs: uniform {last(UNIFORM):.0e}, importance "
        told += f"{last(IMPORTANCE):.0e}, gap {last(GAP):.0e}."
        best_two = last(GAP) < min(last(UNIFORM), last(IMPORTANCE))
        where = f"figure 2, {title}"
        study.compare(where, "Gap sampling gives the best performance.", told, best_two)
        worse = last(IMPORTANCE) > last(UNIFORM)
        study.compare(where, "Importance performs worse than uniform.", told, worse)
    if title == "NER":
        shares = [last(Kind("sdca", "gap", s)) for s in SHARES]
        told = ", ".join(
            f"{s:g}: {v:.0e}" for s, v in zip((0, *SHARES), [last(UNIFORM), *shares], strict=True)
        )
        study.compare(
            f"figure 3, {title}",
            "Increasing the share of gap sampling up to 1 only improves the performance.",
            f"Suboptimality after {EPOCHS[-1]} epochs, by share: {told}.",
            all(b <= 1.1 * a for a, b in zip([last(UNIFORM), *shares], shares, strict=False)),
        )
    (uniform, _), (oeg, oeg_calls) = to(UNIFORM.label), to(OEG.label)
    (gap, gap_calls), (_, lbfgs_calls) = to(GAP.label), to(LBFGS.label)
    where = f"figure 4, {title}"
    study.compare(
        where,
        "Uniform SDCA and OEG need roughly the same number of updates.",
        f"{uniform:.0f} and {oeg:.0f} epochs to {TOL:g}.",
        None if np.isinf([uniform, oeg]).all() else max(uniform, oeg) <= 1.5 * min(uniform, oeg),
    )
    study.compare(
        where,
        "With gap sampling SDCA outperforms OEG by a margin, per update.",
        f"{gap:.0f} epochs against {oeg:.0f}.",
        gap < oeg / 1.2,
    )
    study.compare(
        where,
        "SDCA with gap sampling needs the fewest oracle calls.",
        f"{gap_calls:.0f} n; OEG {oeg_calls:.0f}, L-BFGS {lbfgs_calls:.0f} n.",
        gap_calls < min(oeg_calls, lbfgs_calls),
    )
    if "SAG-NUS" in curves:
        (sag, sag_calls), (_, skipping_calls) = to("SAG-NUS"), to("SAG-NUS*")
        study.compare(
            where,
            "SDCA and SDCA-GAP do not perform as well as SAG-NUS, per update.",
            f"Epochs to {TOL:g}: SAG-NUS {sag:.0f}, SDCA {uniform:.0f}, SDCA-GAP {gap:.0f}.",
            sag < min(uniform, gap),
        )
        study.compare(
            where,
            "With oracle calls SDCA-GAP is on par with SAG-NUS*, which skips line searches.",
            f"SAG-NUS* {skipping_calls:.0f} n, SAG-NUS {sag_calls:.0f}, SDCA-GAP {gap_calls:.0f}.",
            gap_calls <= 1.2 * skipping_calls,
        )
    ratios = {k.label: curves[k.label].estimate / curves[k.label].gap for k in (UNIFORM, GAP)}
    found = np.concatenate([ratio[2:-1] for ratio in ratios.values()])
    study.compare(
        f"figure 9, {title}",
        "The estimated gap remains within a factor 2 of the true one.",
        f"The ratio is {found.min():.2f} to {found.max():.2f} after 3 epochs or more.",
        bool(found.min() > 0.5 and found.max() < 2.0),
    )


# ---- SAG-NUS -------------------------------------------------------------------------------------


def sag_nus(X: Any, y: Any, skipping: bool) -> Curve:
    """Stochastic average gradient with non-uniform sampling on dense chains.

    It knows no gap; objectives are computed between its epochs, which counts nowhere.
    """
    classes, labels = np.unique(np.concatenate(y), return_inverse=True)
    rows, starts = np.concatenate(X).astype(float), np.cumsum([0, *map(len, y)])
    n, K, d = len(y), len(classes), rows.shape[1]
    state = [np.zeros((d + 3, K)), np.zeros((K, K)), np.zeros((d + 3, K)), np.zeros((K, K))]
    stored = np.zeros((len(labels), K)), np.zeros((n, K, K))
    memory = np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(3)
    rows = np.c_[rows, np.ones(len(rows)), np.zeros((len(rows), 2))]  # and biases of the two ends
    rows[starts[:-1], -2], rows[starts[1:] - 1, -1] = 1.0, 1.0
    objectives, calls, rng = [], [], np.random.default_rng(0)
    for epoch in range(1, EPOCHS[-1] + 1):
        draws = rng.random((n, 3))
        _epoch(rows, labels, starts, 1.0 / n, *state, *stored, *memory, skipping, draws)
        if epoch in EPOCHS:
            objectives.append(_objective(rows, labels, starts, 1.0 / n, *state[:2]))
            calls.append(memory[3][1] / n)
    unknown = np.full(len(EPOCHS), np.nan)
    return Curve(np.array(objectives), unknown, unknown, np.array(calls))


@njit(nogil=True, error_model="numpy")
def _marginals(unary, pairs, nodes, edges):
    """log Z; marginals of the labels, and of the pairs summed over the chain."""
    T, K = unary.shape
    ahead, behind = np.empty((T, K)), np.empty((T, K))
    ahead[0] = unary[0]
    for t in range(1, T):
        for k in range(K):
            top = np.max(ahead[t - 1] + pairs[:, k])
            ahead[t, k] = (
                unary[t, k] + top + np.log(np.sum(np.exp(ahead[t - 1] + pairs[:, k] - top)))
            )
    behind[T - 1] = 0.0
    for t in range(T - 2, -1, -1):
        for k in range(K):
            score = pairs[k] + unary[t + 1] + behind[t + 1]
            top = np.max(score)
            behind[t, k] = top + np.log(np.sum(np.exp(score - top)))
    top = np.max(ahead[T - 1])
    log_z = top + np.log(np.sum(np.exp(ahead[T - 1] - top)))
    edges[:] = 0.0
    for t in range(T):
        nodes[t] = np.exp(ahead[t] + behind[t] - log_z)
        if t > 0:
            for j in range(K):
                edges[j] += np.exp(ahead[t - 1, j] + pairs[j] + unary[t] + behind[t] - log_z)
    return log_z


@njit(nogil=True, error_model="numpy")
def _score(unary, pairs, y):
    total = unary[0, y[0]]
    for t in range(1, len(y)):
        total += unary[t, y[t]] + pairs[y[t - 1], y[t]]
    return total


@njit(nogil=True, error_model="numpy")
def _objective(rows, labels, starts, reg_lambda, W, P):
    risk, K = 0.0, P.shape[0]
    edges = np.empty((K, K))
    for i in range(len(starts) - 1):
        a, b = starts[i], starts[i + 1]
        unary = rows[a:b] @ W
        log_z = _marginals(unary, P, np.empty((b - a, K)), edges)
        risk += log_z - _score(unary, P, labels[a:b])
    return 0.5 * reg_lambda * (np.sum(W * W) + np.sum(P * P)) + risk / (len(starts) - 1)


@njit(nogil=True, error_model="numpy")
def _epoch(
    rows, labels, starts, reg_lambda, W, P, sum_W, sum_P, kept, kept_pairs, lipschitz, quiet, wait,
    counts, skipping, draws
):  # fmt: skip
    """n steps. ``counts`` has the sequences seen, the oracle calls and the searches skipped."""
    n, K = len(starts) - 1, P.shape[0]
    edges, trial_edges = np.empty((K, K)), np.empty((K, K))
    for step in range(n):
        seen = int(counts[0])
        if draws[step, 0] * n < n - seen:
            i, counts[0] = seen, seen + 1
            lipschitz[i] = np.mean(lipschitz[:seen]) if seen > 0 else 1.0
        elif draws[step, 2] < 0.5:
            i = int(draws[step, 1] * seen)
        else:
            total = np.cumsum(lipschitz[:seen])
            i = min(seen - 1, np.searchsorted(total, draws[step, 1] * total[-1]))
        a, b = starts[i], starts[i + 1]
        x, y = rows[a:b], labels[a:b]
        unary, nodes = x @ W, np.empty((b - a, K))
        loss = _marginals(unary, P, nodes, edges) - _score(unary, P, y)
        counts[1] += 1.0
        for t in range(b - a):
            nodes[t, y[t]] -= 1.0
            if t > 0:
                edges[y[t - 1], y[t]] -= 1.0
        sum_W += x.T @ (nodes - kept[a:b])
        sum_P += edges - kept_pairs[i]
        kept[a:b], kept_pairs[i] = nodes, edges
        gradient = x.T @ nodes
        squared = np.sum(gradient * gradient) + np.sum(edges * edges)
        if skipping and wait[i] > 0:
            wait[i] -= 1
        elif squared > 1e-8:
            limit = max(0.5 * lipschitz[i], 1e-6)
            along = x @ gradient
            while True:
                moved, pairs = unary - along / limit, P - edges / limit
                value = _marginals(moved, pairs, np.empty((b - a, K)), trial_edges)
                value -= _score(moved, pairs, y)
                counts[1] += 1.0
                if value <= loss - 0.5 * squared / limit:
                    break
                limit *= 2.0
            quiet[i] = quiet[i] + 1 if limit == lipschitz[i] else 0
            wait[i] = 1 << min(max(quiet[i] - 1, 0), 20) if quiet[i] > 0 else 0
            lipschitz[i] = limit
        seen = int(counts[0])
        slow = 1.0 / (np.max(lipschitz[:seen]) + reg_lambda)
        fast = 1.0 / (np.mean(lipschitz[:seen]) + reg_lambda)
        share = seen / n
        alpha = (1.0 - share) * slow + share * 0.5 * (slow + fast)
        W -= alpha * (sum_W / seen + reg_lambda * W)
        P -= alpha * (sum_P / seen + reg_lambda * P)


if __name__ == "__main__":
    run(__doc__, reproduce)
