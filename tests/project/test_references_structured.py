"""The references of structured outputs against each other: enumeration, duality, the paper's forms.

The paper is Yu and Rousu (2007); its C is 1 over reg_lambda, with equal weights.
"""

import numpy as np
import pytest

from tests import reference_chain, reference_multiclass
from tests.reference_cones import by_clarabel, halflines
from tests.reference_structured import Structured, chains, classes
from tests.structures import KINDS, VARIANTS, drawn

every_variant = pytest.mark.parametrize("scaling, squared", VARIANTS)
COST = np.array([[0, 1, 2], [0.5, 0, 1], [2, 1, 0]])


@pytest.mark.parametrize("intercept", [True, False])
def test_features_of_labelings_have_the_partition_function(intercept):
    """Against forward-backward sums, which list nothing."""
    X, y = reference_chain.made(6, 3, 2, 4)
    model = reference_chain.Model(X, y, 3, 1.0, intercept=intercept)
    w = np.random.default_rng(0).normal(size=model.size)
    for i, example in enumerate(chains(X, y, 3, intercept=intercept)):
        log_z, _, _ = reference_chain.forward_backward(*model.scores(i, w))
        assert reference_chain.logsumexp(example.phi @ w) == pytest.approx(log_z, rel=1e-12)
        np.testing.assert_allclose(example.phi[example.truth], model.true_features(i))


@pytest.mark.parametrize("cost", [None, COST], ids=["0/1", "cost"])
@pytest.mark.parametrize("scaling", ["margin", "slack"])
def test_classes_equal_the_reference_of_classes(scaling, cost):
    rng = np.random.default_rng(1)
    X, y, weights = rng.normal(size=(20, 3)), np.arange(20) % 3, rng.uniform(1.0, 2.0, 20)
    weights /= weights.sum()
    given = {"cost": cost, "scaling": scaling} if cost is not None else {"scaling": scaling}
    lowest, *_ = reference_multiclass.optimum(X, y, weights, 0.05, False, **given)
    ours = Structured(classes(X, y, np.eye(3), cost), 0.05, weights, scaling=scaling).optimum()
    assert lowest == pytest.approx(ours.value, rel=1e-8)


@pytest.mark.matrix
@every_variant
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cone", [False, True])
@pytest.mark.parametrize("reg_lambda", [1e-4, 0.1, 1e3])
def test_strong_duality(kind, scaling, squared, cone, reg_lambda):
    """Two programmes of which neither knows the other; both values are attained."""
    problem = drawn(
        kind, 2, reg_lambda=reg_lambda, weighted=True, cone=cone, scaling=scaling, squared=squared
    )
    w, q = problem.primal_optimum(), problem.dual_optimum()
    assert problem.feasible(w)
    value, bound = problem.objective(w), problem.dual_objective(q)
    assert bound <= value * (1.0 + 1e-13)
    assert bound == pytest.approx(value, rel=1e-9, abs=1e-11)
    # strong convexity: both points are within sqrt(2 gap / reg_lambda) of the optimum
    reach = np.sqrt(2.0 * max(value - bound, 1e-15) / reg_lambda)
    assert np.linalg.norm(problem.primal_point(q) - w) <= 2.0 * reach


@every_variant
@pytest.mark.parametrize("cone", [False, True])
def test_weak_duality(scaling, squared, cone):
    problem = drawn("grid", 3, cone=cone, weighted=True, scaling=scaling, squared=squared)
    rng = np.random.default_rng(4)
    for _ in range(20):
        q = [rng.dirichlet(np.full(len(c), 0.1)) for c in problem.losses]
        if squared:
            q = [rng.uniform(0.0, 9.0) * q_i for q_i in q]
        near = problem.primal_point(q)
        assert problem.dual_objective(q) <= problem.objective(near)
        assert problem.dual_objective(q) <= problem.objective(problem.projected(-near))


# ---- slack rescaling, section 4.2 of the paper ------------------------------------------------


def wrong(problem):
    """Features less those of the truth, and losses, of outputs that have one: (17), (22)."""
    return [
        (e.phi[e.losses > 0] - e.phi[e.truth], e.losses[e.losses > 0]) for e in problem.examples
    ]


def weights_of(problem, rng):
    """Dual weights q, and the paper's multipliers alpha = C/n l q of the outputs with a loss."""
    q = [rng.dirichlet(np.full(len(c), 0.3)) for c in problem.losses]
    each = 1.0 / problem.reg_lambda / len(q)
    alpha = [each * (c * q_i)[c > 0] for c, q_i in zip(problem.losses, q, strict=True)]
    return q, alpha


@pytest.mark.parametrize("squared", [False, True])
def test_the_duals_of_the_paper(squared):
    """(18) to (20), and (23) to (26), over reg_lambda."""
    problem, rng = drawn("listed", 5, scaling="slack", squared=squared), np.random.default_rng(5)
    C, n = 1.0 / problem.reg_lambda, len(problem.examples)
    for _ in range(5):
        q, alpha = weights_of(problem, rng)
        pairs = list(zip(wrong(problem), alpha, strict=True))
        beta = sum(a @ delta for (delta, _), a in pairs)
        gamma = sum(a.sum() for _, a in pairs)
        zeta = np.array([(a / loss).sum() for (_, loss), a in pairs])
        assert squared or (zeta <= C / n * (1.0 + 1e-14)).all()
        value = -beta @ beta / 2 + gamma - squared * n / (2 * C) * zeta @ zeta
        # outputs without loss have no multiplier: their psi is 0 in ours, but their weight counts
        free = [q_i * (c > 0) for q_i, c in zip(q, problem.losses, strict=True)]
        ours = problem.dual_objective(free) if squared else problem.dual_objective(q)
        assert ours == pytest.approx(value * problem.reg_lambda, rel=1e-12)


class Cones:
    """Simplicial decomposition of (26) over a product of cones, rays by (28) to (30)."""

    def __init__(self, problem):
        self.wrong, self.n = wrong(problem), len(problem.examples)
        self.C = 1.0 / problem.reg_lambda
        self.rays = [[] for _ in self.wrong]  # of each example: (beta, zeta, gamma)
        self.q = [np.empty(0) for _ in self.wrong]

    def solve_master(self):
        """The best non-negative combination of the rays."""
        owner = np.repeat(np.arange(self.n), [len(rays) for rays in self.rays])
        every = [ray for rays in self.rays for ray in rays]
        beta, gamma = np.array([ray[0] for ray in every]), np.array([ray[2] for ray in every])
        bend = beta @ beta.T + self.n / self.C * (owner[:, None] == owner)
        A, side = -np.eye(len(every)), np.zeros(len(every))
        q = np.maximum(by_clarabel(bend, -gamma, A, side, halflines(len(every))), 0.0)
        self.q = [q[owner == i] for i in range(self.n)]

    @property
    def gradient(self):
        """With respect to the sum of the beta_i, and to each zeta_i."""
        pairs = zip(self.q, self.rays, strict=True)
        beta = sum(q_j * ray[0] for q, rays in pairs for q_j, ray in zip(q, rays, strict=True))
        return -beta, np.array([-self.n / self.C * q.sum() for q in self.q])

    @property
    def value(self):
        """(26)."""
        g_beta, g_zeta = self.gradient
        gamma = sum(q @ [ray[2] for ray in rays] for q, rays in zip(self.q, self.rays, strict=True))
        return gamma - g_beta @ g_beta / 2 - self.C / (2 * self.n) * g_zeta @ g_zeta

    def excess(self, ray, i):
        """q* + g_zeta of (30): how much a ray points upwards."""
        g_beta, g_zeta = self.gradient
        return g_beta @ ray[0] + ray[2] + g_zeta[i]

    def best_ray(self, i):
        """(28) at the maximum of (29), the true output left out."""
        delta, loss = self.wrong[i]
        g_beta = self.gradient[0]
        best = np.argmax(loss * (delta @ g_beta) + loss)
        return loss[best] * delta[best], 1.0, loss[best]

    def run(self):
        """Until no ray passes the strict test in (30); how often the master was solved."""
        for i, (delta, loss) in enumerate(self.wrong):
            if len(loss):
                self.rays[i].append((loss[0] * delta[0], 1.0, loss[0]))
        for round_ in range(1, 100):
            self.solve_master()
            fresh = [(i, self.best_ray(i)) for i in range(self.n) if len(self.wrong[i][1])]
            fresh = [(i, ray) for i, ray in fresh if self.excess(ray, i) > 1e-7]
            if not fresh:
                return round_
            for i, ray in fresh:
                self.rays[i].append(ray)
        raise AssertionError("no end")


@pytest.mark.parametrize("kind", ["listed", "classes", "grid"])
def test_rays_reach_the_optimum_of_quadratic_slack_rescaling(kind):
    """Each ray is found once; kept rays with weight stand at equality in (30)."""
    problem = drawn(kind, 6, scaling="slack", squared=True)
    cones = Cones(problem)
    assert cones.run() > 1
    assert cones.value * problem.reg_lambda == pytest.approx(problem.optimum().value, rel=1e-7)
    for i, (q, rays) in enumerate(zip(cones.q, cones.rays, strict=True)):
        assert len({(*beta, gamma) for beta, _, gamma in rays}) == len(rays)
        held = [cones.excess(ray, i) for q_j, ray in zip(q, rays, strict=True) if q_j > 1e-5]
        np.testing.assert_allclose(held, 0.0, atol=1e-6)
