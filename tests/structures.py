"""Structured problems for tests: random ones, and examples with all their outputs as arrays."""

import numpy as np

from sklearn_bundle.chain.model import padded
from sklearn_bundle.models import Multiclass
from sklearn_bundle.structured.models.classes import Rows
from sklearn_bundle.structured.models.examples import Examples, Found
from sklearn_bundle.structured.problems.structured import StructuredProblem
from tests import reference_chain
from tests.reference_structured import Outputs, Structured, chains, classes, grids

KINDS = ["listed", "chain", "classes", "grid"]
VARIANTS = [(scaling, squared) for scaling in ("margin", "slack") for squared in (False, True)]
#: Stored entries that a problem takes for enough work for several blocks of threads.
MANY_ENTRIES = 1 << 22


class EnumeratedExamples(Examples):
    """Inference by a look at all outputs of a reference's problem.

    Parameters
    ----------
    reference : Structured
    sees : int
        Not exact if larger than one: outputs are looked at whose number is a multiple, and the
        true one.
    excess : float
        What the bounds of such examples are above the highest score of all outputs; infinity for
        examples without bounds.
    """

    def __init__(self, reference, sees=1, excess=np.inf):
        self._psi, self._losses = reference.psi, reference.losses
        numbers = [(np.arange(len(e.losses)), e.truth) for e in reference.examples]
        self._seen = [np.flatnonzero((k % sees == 0) | (k == truth)) for k, truth in numbers]
        self._excess = excess
        self.n_examples, self.n_parameters = len(self._psi), reference.d
        self.n_entries = sum(psi.size for psi in self._psi)
        self.nonnegative = np.asarray(reference.cone, np.int64)
        self.exact = sees == 1

    def find(self, w, first, last):
        """See Examples."""
        assert (w[self.nonnegative] >= 0.0).all()
        rows, losses, scores, bounds = [], [], [], []
        for i in range(first, last):
            values = self._losses[i] - self._psi[i] @ w
            best = self._seen[i][values[self._seen[i]].argmax()]
            rows.append(self._psi[i][best])
            losses.append(self._losses[i][best])
            scores.append(values[best])
            bounds.append(values[best] if self.exact else values.max() + self._excess)
        counts = [np.count_nonzero(row) for row in rows]
        return Found(
            np.cumsum([0, *counts]),
            np.concatenate([np.flatnonzero(row) for row in rows]).astype(np.uint32),
            np.concatenate([row[row != 0.0] for row in rows]),
            *(np.array(part) for part in (losses, scores, bounds)),
        )


def bound(reference, n_threads=1, n_entries=None, compiled=False, **oracle):
    """The package's problem of a reference's; ``compiled`` is for classes without a cone."""
    make = compiled_classes if compiled else EnumeratedExamples
    examples = make(reference, **oracle)
    examples.n_entries = n_entries or examples.n_entries
    settings = reference.weights, reference.reg_lambda, reference.squared, n_threads
    return StructuredProblem(examples, *settings)


def compiled_classes(reference):
    """The package's own examples of what ``drawn("classes")`` has drawn."""
    K = len(reference.losses[0])
    X = np.array([example.phi[0][: reference.d // K] for example in reference.examples])
    y = np.array([example.truth for example in reference.examples])
    cost = np.zeros((K, K))
    cost[y] = reference.losses
    return Multiclass(cost=cost).examples(Rows(X, K), y, reference.scaling)


def in_rows(w, K):
    """Weights of a chain in the rows of compiled code."""
    S, d = padded(K), len(w) // K - K - 3
    rows, ends = np.zeros((d + S + 3, S)), [K * d, K * (d + K)]
    for part, at in zip(np.split(w, ends), (0, d, d + S), strict=True):
        part = part.reshape(K, d).T if at == 0 else part.reshape(-1, K)
        rows[at : at + len(part), :K] = part
    return rows.ravel()


# ---- drawn problems ---------------------------------------------------------------------------


def listed(rng, n=8, d=4, most=6):
    """Up to ``most`` outputs; some without loss, some twice, and one example has no other."""
    examples = []
    for i in range(n):
        m = int(rng.integers(2, most + 1)) if i else 1
        phi, losses = rng.normal(size=(m, d)), rng.integers(0, 4, m) / 2.0
        phi[rng.random(phi.shape) < 0.3] = 0.0
        truth = int(rng.integers(m))
        phi[truth, 0] += 1.0
        losses[truth] = 0.0
        twice = int(rng.integers(m))
        examples.append(Outputs(np.r_[phi, phi[[twice]]], np.r_[losses, losses[twice]], truth))
    return examples


def _chain(rng, n):
    return chains(*reference_chain.made(n, 2, 2, 4, seed=int(rng.integers(10**6))), 2)


def _classes(rng, n):
    X = np.round(rng.normal(size=(n, 3)), 2)
    y = (X @ rng.normal(size=(3, 4)) + 0.5 * rng.gumbel(size=(n, 4))).argmax(axis=1)
    return classes(X, y, rng.uniform(0.5, 2.0, (4, 4)) * (1.0 - np.eye(4)))


def _grid(rng, n):
    y = rng.integers(0, 2, (n, 6))
    y[:, 1::2] = y[:, ::2]
    nodes = np.stack([y - 0.5 + rng.normal(size=y.shape), np.ones(y.shape)], axis=2)
    return grids(nodes, rng.uniform(0.0, 1.0, (n, 7, 2)), y)


def drawn(kind, seed=0, n=8, reg_lambda=0.1, weighted=False, cone=False, **variant):
    """A reference's problem of a kind; the cone is the grid's own, or two coordinates."""
    rng = np.random.default_rng(seed)
    make = {"listed": listed, "chain": _chain, "classes": _classes, "grid": _grid}[kind]
    examples = make(rng, n)
    weights = rng.uniform(0.2, 2.0, n) if weighted else None
    d = examples[0].phi.shape[1]
    return Structured(examples, reg_lambda, weights, cone=[d - 2, d - 1] if cone else [], **variant)
