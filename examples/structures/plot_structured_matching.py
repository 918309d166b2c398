"""
Can I learn which points of two pictures belong together?
=========================================================

Learn how to match the points of two pictures of a thing that has turned in between, with weights
from pairs of pictures with known matchings. A point can be described by where the others are around
it, its shape context, and similar ones belong together. But a turn changes some directions and
distances more than others. :class:`~sklearn_bundle.StructuredSVM` with the model "matching" learns
how much each counts.

The house here is made up.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, KFold

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Matching

# %%
# A house of 30 corners turns by half a degree a frame, before a camera that is near. The corners
# are found with a small error.

WALLS = [(x, y, z) for x in (-1, 1) for y in (0, 1) for z in (-0.7, 0.7)]
ROOF = [(x, 1.6, 0) for x in (-1, 0, 1)]
WINDOWS = [(x, y, -0.7) for x in (-0.8, -0.4, 0.4, 0.8) for y in (0.5, 0.8)]
DOOR = [(-0.15, 0, -0.7), (-0.15, 0.5, -0.7), (0.15, 0, -0.7), (0.15, 0.5, -0.7)]
CHIMNEY = [(0.5, 1.7, -0.2), (0.7, 1.7, -0.2), (0.5, 1.7, 0.0)]
TREE = [(-1.7, 0, -0.9), (-1.7, 0.8, -0.9), (-2.0, 1.2, -0.9), (-1.5, 1.4, -0.7)]
OUTLINE = [0, 2, 6, 4, 0, 2, 8, 10, 6]  # corners of the front and the roof, to draw
HOUSE = np.array(WALLS + ROOF + WINDOWS + DOOR + CHIMNEY + TREE, dtype=float)


def pictures(n_frames, rng):
    """Where the corners are in each picture: (n_frames, n_points, 2)."""
    angles = np.radians(-25 + 0.5 * np.arange(n_frames))
    x = np.cos(angles)[:, None] * HOUSE[:, 0] + np.sin(angles)[:, None] * HOUSE[:, 2]
    depth = np.cos(angles)[:, None] * HOUSE[:, 2] - np.sin(angles)[:, None] * HOUSE[:, 0]
    size = 4.0 / (4.0 + depth)
    frames = np.stack([x * size, (HOUSE[:, 1] - 0.8) * size], axis=2)
    return frames + 0.01 * rng.normal(size=frames.shape)


# %%
# The shape context of a point counts the other points by distance, in 5 rings, and by direction, in
# 12 sectors.

RINGS, SECTORS = 5, 12


def shape_contexts(points):
    """Counts of the other points, a row of 60 for each point."""
    n = len(points)
    away = points[None] - points[:, None]
    distance = np.hypot(away[..., 0], away[..., 1])
    edges = np.geomspace(0.125, 2.0, RINGS + 1)[1:-1] * distance.sum() / (n * (n - 1))
    angle = np.arctan2(away[..., 1], away[..., 0]) % (2 * np.pi)
    sector = (angle * SECTORS / (2 * np.pi)).astype(int) % SECTORS
    bins = np.searchsorted(edges, distance) * SECTORS + sector
    others = ~np.eye(n, dtype=bool)
    return np.array([np.bincount(bins[i, others[i]], minlength=RINGS * SECTORS) for i in range(n)])


frames = pictures(111, np.random.default_rng(0))
contexts = np.array([shape_contexts(points) for points in frames], dtype=float)

# %%
# An x is the array of the squared differences of all shape contexts of one picture with all of the
# other, of shape (n, n, 60). A y has, for each point of the first picture, the number of the same
# point in the second. Here the points are in the same order in all pictures, which x does not show.


def pairs(first, apart):
    """Every third picture with the one that is so many frames later: X and y."""
    starts = range(first, len(contexts) - apart, 3)
    X = [(contexts[k][:, None] - contexts[k + apart]) ** 2 for k in starts]
    return X, [np.arange(contexts.shape[1])] * len(X)


# %%
# Without learning, all weights are -1: the sum of the squared distances of matched points is to be
# as small as possible. Learning begins with the pairs of the pictures 0, 3, 6, ..., tests on those
# of 2, 5, 8, ..., and chooses ``reg_lambda`` by cross-validation.

model, equal = Matching(), -np.ones(contexts.shape[2])
baselines, errors, searches = np.arange(10, 91, 20), [], {}
for apart in baselines:
    X, y = pairs(0, apart)
    X_test, y_test = pairs(2, apart)
    search = GridSearchCV(
        StructuredSVM("matching", tol=1e-2, random_state=0),
        {"reg_lambda": [100, 10]},
        cv=KFold(3, shuffle=True, random_state=0),
    )
    searches[apart] = search.fit(X, y)
    plain = [model.loss(b, model.inference(x, equal)) for x, b in zip(X_test, y_test, strict=True)]
    errors.append((np.mean(plain), 1 - search.score(X_test, y_test)))
    chosen = search.best_params_["reg_lambda"]
    print(f"{apart} frames apart: {errors[-1][0]:.3f} of the points wrong without learning, "
          f"{errors[-1][1]:.3f} with (reg_lambda = {chosen:g})")  # fmt: skip

# %%
# A pair of test pictures, 70 frames apart: lines join the points that were matched, wrong ones in
# red.

APART = 70
svm = searches[APART].best_estimator_
X_test, y_test = pairs(2, APART)
start = 3 * (len(X_test) // 2)
one, two = frames[2 + start], frames[2 + start + APART]
shift = [0.0, -1.2 * np.ptp(frames[..., 1])]
rights = []
figure, axes = plt.subplots(1, 2, figsize=(6.4, 4.6), layout="constrained")
for ax, title, w in ((axes[0], "without learning", equal), (axes[1], "learned", svm.w_)):
    found = model.inference(X_test[start // 3], w)
    for i, k in enumerate(found):
        ends = np.array([one[i], two[k] + shift])
        look = (
            {"color": "#009E73", "lw": 0.8}
            if k == i
            else {"color": "#D55E00", "lw": 1.8, "ls": "--"}
        )
        ax.plot(*ends.T, **look)
    for points in (one, two + shift):
        ax.plot(*points[OUTLINE].T, color="0.8", lw=4, zorder=0)
        ax.plot(*points.T, "o", color="black", ms=4)
    rights.append(np.sum(found == np.arange(len(found))))
    ax.set_title(title)
    ax.set_aspect("equal")
    ax.axis("off")
figure.suptitle(f"Learning matches {rights[1]} of {len(found)} points, equal weights {rights[0]}")
plt.show()

# %%
# The error by how far the pictures are apart.

figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
looks = (("without learning", "s--", "#D55E00"), ("learned", "o-", "#0072B2"))
for k, (label, look, color) in enumerate(looks):
    ax.plot(baselines, np.array(errors)[:, k], look, color=color, label=label)
ax.set(xlabel="frames apart", ylabel="share of points that are matched wrongly", ylim=(0, None))
plain, learned = errors[-1]
ax.set_title(
    f"{baselines[-1]} frames apart, learning cuts the error from {plain:.0%} to {learned:.0%}"
)
ax.legend()
plt.show()

# %%
# The weights of one fit, negated: how much a difference counts in a bin, drawn as the bins lie
# around a point, with the inner rings widened. Weights below zero would ask for a difference, and
# the model permits them.

figure, ax = plt.subplots(
    figsize=(5.6, 4.4), layout="constrained", subplot_kw={"projection": "polar"}
)
weights = -svm.w_.reshape(RINGS, SECTORS)
limit = np.abs(weights).max()
mesh = ax.pcolormesh(
    np.linspace(0, 2 * np.pi, SECTORS + 1), np.arange(RINGS + 1), weights,
    cmap="PuOr", vmin=-limit, vmax=limit,
)  # fmt: skip
ax.set(xticklabels=[], yticklabels=[])
ax.grid(visible=False)
figure.colorbar(mesh, ax=ax, label="weight of a difference")
ax.set_title("What counts when the house turns")
plt.show()
