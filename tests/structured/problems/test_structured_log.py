"""The likelihood of structures: risk, gradient, planes and bounds against enumeration."""

from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_bundle.chain.model import Weights, flat, taken_apart
from sklearn_bundle.models import Chain, Multiclass, Ontology
from sklearn_bundle.structured.models.chain_structure import TokenRows, joined, split
from sklearn_bundle.structured.models.classes import Rows
from sklearn_bundle.structured.problems.structured_log import LikelihoodProblem
from tests import reference_chain
from tests.contract.user_models import Orders
from tests.reference_likelihood import Likelihood
from tests.reference_programme import LONG
from tests.reference_structured import Outputs, ancestors, chains, classes
from tests.structures import MANY_ENTRIES

K = 3
EDGES = [("all", "early"), ("early", 0), ("early", 1), ("all", 2)]
TREE = ancestors(EDGES, range(K))
KINDS = ["chain", "chain_float32", "chain_unbiased", "classes", "sparse_classes", "tree", "listed"]
every_kind = pytest.mark.parametrize("kind", KINDS)


class Bound:
    """The package's problem and the reference's; w is the reference's, in the users' order."""

    def __init__(self, kind, n_threads=1, n=9, reg_lambda=0.1, scale=None, many=False):
        rng = np.random.default_rng(7)
        self._intercept, self._chained = kind != "chain_unbiased", kind.startswith("chain")
        make = self._chains if self._chained else self._listed if kind == "listed" else self._rows
        dtype = np.float32 if kind == "chain_float32" else np.float64
        examples, outputs = make(kind, rng, n, dtype, np.ones(4) if scale is None else scale)
        weights = rng.uniform(0.5, 2.0, n)
        examples.n_entries = MANY_ENTRIES if many else examples.n_entries
        self.ours = LikelihoodProblem(examples, weights / weights.sum(), reg_lambda, n_threads)
        self.reference = Likelihood(outputs, reg_lambda, weights)

    def _chains(self, kind, rng, n, dtype, scale):
        X, y = reference_chain.made(n, K, 4, 4)
        X = [(x * scale).astype(dtype) for x in X]
        lengths = np.array([len(x) for x in X])
        rows = TokenRows(sp.csr_array(np.concatenate(X)), lengths, K)
        model = Chain(fit_intercept=self._intercept)
        examples = model.examples(rows, np.concatenate(y), "margin")
        return examples, chains([x.astype(LONG) for x in X], y, K, intercept=self._intercept)

    def _rows(self, kind, rng, n, dtype, scale):
        X = np.round(rng.normal(size=(n, 4)), 2) * scale
        X[:, 1] *= rng.random(n) < 0.5
        y = np.r_[np.arange(K), rng.integers(0, K, n - K)]
        model, A = (Ontology(EDGES), TREE) if kind == "tree" else (Multiclass(), np.eye(K))
        stored = sp.csr_array(X) if kind == "sparse_classes" else X
        examples = model.examples(Rows(stored, K, range(K)), y, "margin")
        return examples, classes(X.astype(LONG), y, A)

    def _listed(self, kind, rng, n, dtype, scale):
        X = [rng.normal(size=(rng.integers(1, 4), 4)) * scale for _ in range(n)]
        y, model = [rng.permutation(len(x)) for x in X], Orders()
        outputs = []
        for x, truth in zip(X, y, strict=True):
            phi = np.array([model.joint_feature(x, order) for order in permutations(range(len(x)))])
            number = list(permutations(range(len(x)))).index(tuple(truth))
            outputs.append(Outputs(phi.astype(LONG), np.zeros(len(phi)), number))
        return model.examples(X, y, "margin"), outputs

    def packed(self, w):
        """As the package has it, which pads the labels of chains."""
        if not self._chained:
            return w.copy()
        full = w if self._intercept else np.r_[w, np.zeros(3 * K)]
        return flat(Weights(*(part for part in split(full, K))))

    def unpacked(self, w):
        if not self._chained:
            return w
        return joined(taken_apart(w, K))[: self.reference.d]

    def points(self, sizes=(0.0, 0.3, 1.0, 3.0, 10.0, 100.0)):
        rng = np.random.default_rng(4)
        return [size * rng.normal(size=self.reference.d) for size in sizes]


@every_kind
def test_risk_and_gradient_against_enumeration(kind):
    """In extended precision, and no farther away than the problem says of its rounding."""
    bound = Bound(kind)
    for w in bound.points():
        found = bound.ours.find(bound.packed(w))
        risk, gradient = bound.reference.risk(w.astype(LONG)), bound.reference.gradient(w)
        assert abs(found.risk - risk) <= found.margin <= 1e-10 * (1.0 + np.abs(w).max())
        distance = np.linalg.norm((bound.unpacked(found.gradient) - gradient).astype(float))
        assert distance <= found.error <= 1e-10 * (1.0 + np.abs(w).max())


@every_kind
def test_features_of_all_sizes(kind):
    """What rounding does follows the scores, not the sizes of features or weights."""
    scale = np.array([1e-6, 1.0, 1e3, 1e6])
    bound = Bound(kind, scale=scale)
    units = np.ones(bound.reference.d)
    rows = units[: -K * (K + 3)] if kind.startswith("chain") else units
    rows = rows.reshape(-1, 4) if kind != "chain_unbiased" else units[: 4 * K].reshape(-1, 4)
    rows /= scale
    for w in bound.points():
        found = bound.ours.find(bound.packed(w * units))
        risk = bound.reference.risk((w * units).astype(LONG))
        assert abs(found.risk - risk) <= found.margin <= 1e-10 * (1.0 + np.abs(w).max())


@every_kind
def test_a_plane_touches_the_risk_and_is_nowhere_above(kind):
    bound = Bound(kind)
    for w in bound.points():
        gradient, offset = bound.ours.plane(bound.ours.find(bound.packed(w)))
        gradient = bound.unpacked(gradient)
        assert gradient @ w + offset == pytest.approx(float(bound.reference.risk(w)), rel=1e-8)
        for other in bound.points():
            assert bound.reference.risk(other) >= gradient @ other + offset - 1e-10


@every_kind
def test_the_offset_of_a_plane_is_an_entropy(kind):
    """Far away it is none: the difference of the risk and a product would be all rounding."""
    bound = Bound(kind)
    for w in bound.points():
        _, offset = bound.ours.plane(bound.ours.find(bound.packed(w)))
        shares = bound.reference.probabilities(w.astype(LONG))
        entropies = [-np.sum(p * np.log(np.where(p > 0.0, p, 1.0))) for p in shares]
        entropy = float(bound.reference.weights @ np.array(entropies))
        assert entropy - 1e-10 * (1.0 + w @ w) <= offset <= entropy
        _, far = bound.ours.plane(bound.ours.find(1e14 * bound.packed(w + 1.0)))
        assert far <= 0.0


@every_kind
@pytest.mark.parametrize("reg_lambda", [1e-3, 10.0])
def test_no_bound_is_above_the_optimum(kind, reg_lambda):
    """Near the optimum it is all that rounding leaves."""
    bound = Bound(kind, reg_lambda=reg_lambda)
    best = bound.reference.minimizer()
    least = float(bound.reference.objective(best))
    for distance in (0.0, 1e-9, 1e-6, 1e-3, 0.1, 1.0):
        w = best.astype(float) + distance * bound.points([1.0])[0]
        value, gradient, proved = bound.ours.objective(bound.packed(w))
        assert proved <= least * (1.0 + 1e-15)
        assert value == pytest.approx(float(bound.reference.objective(w)), rel=1e-13)
        slope = bound.reference.slope(w.astype(LONG)).astype(float)
        assert_allclose(bound.unpacked(gradient), slope, atol=1e-12 * (1.0 + abs(w).max()))
        missed = slope @ slope / (2.0 * reg_lambda)
        assert proved >= value - missed * (1.0 + 1e-6) - 1e-10 * least


@every_kind
def test_the_bound_is_that_of_the_plane(kind):
    """The dual at the marginals: ``offset - ||g||^2 / (2 reg_lambda)``."""
    bound = Bound(kind)
    for w in bound.points():
        gradient, offset = bound.ours.plane(bound.ours.find(bound.packed(w)))
        _, _, proved = bound.ours.objective(bound.packed(w))
        dual = offset - gradient @ gradient / 0.2
        assert proved == pytest.approx(dual, abs=1e-10 * (1.0 + w @ w))


@pytest.mark.parametrize("kind", ["chain", "classes", "listed"])
def test_threads_do_not_change_a_bit(kind):
    """Sixteen blocks, in one thread and in three, which do not divide them."""
    alone, together = Bound(kind, n=50, many=True), Bound(kind, 3, n=50, many=True)
    w = alone.packed(alone.points([1.0])[0])
    with together.ours:
        again = together.ours.find(w)
    found = alone.ours.find(w)
    assert (found.risk, found.margin, found.error) == (again.risk, again.margin, again.error)
    assert_array_equal(found.gradient, again.gradient)
    single = Bound(kind, n=50).ours.find(w)
    assert_allclose(found.gradient, single.gradient, rtol=1e-11, atol=1e-14)
    assert found.risk == pytest.approx(single.risk, rel=1e-14)


def test_passes_are_counted():
    bound = Bound("chain")
    w = bound.packed(bound.points([1.0])[0])
    bound.ours.find(np.zeros_like(w))  # a plane asks for the risk there, once
    assert (bound.ours.oracle_calls, bound.ours.passes) == (9, 1)
    risk, gradient = bound.ours.evaluate(w)
    assert (bound.ours.oracle_calls, bound.ours.passes) == (18, 2)
    assert risk == pytest.approx(float(bound.reference.risk(bound.points([1.0])[0])), rel=1e-13)
    assert_array_equal(gradient, bound.ours.find(w).gradient)
