"""
Cutting out objects: do neighboring pixels help?
================================================

Learn what weights of neighboring pixels gain when a model labels each pixel as object or
background, and what it costs to learn them. A classifier of pixels decides about each by itself,
and the result has holes and specks. In :class:`~sklearn_bundle.models.Grid` a border between labels
costs something, and the best labels of all pixels together are a minimum cut.

The pictures are made here.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Grid
from sklearn_bundle.plotting import ConvergenceDisplay

# %%
# A picture shows an ellipse of one brightness in front of a background that gets brighter to one
# side, and noise. The model sees the brightness of each pixel, raw and blurred, its difference from
# the brightness of the frame, and its place.

SIDE = 32
NOISE = 0.5  # standard deviation; the object is brighter by 0.4 to 1


def picture(rng):
    """Features of pixels, and the mask."""
    v, u = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j]
    angle, (row, column) = rng.uniform(0, np.pi), rng.uniform(-0.4, 0.4, 2)
    along = (u - column) * np.cos(angle) + (v - row) * np.sin(angle)
    across = (v - row) * np.cos(angle) - (u - column) * np.sin(angle)
    width, height = rng.uniform(0.5, 0.7), rng.uniform(0.2, 0.45)
    mask = (along / width) ** 2 + (across / height) ** 2 < 1
    slope = 0.3 * (u * np.cos(2 * angle) + v * np.sin(2 * angle))
    gray = slope + rng.uniform(0.4, 1.0) * mask + NOISE * rng.normal(size=mask.shape)
    blurred = gaussian_filter(gray, 0.7)
    frame = np.concatenate([gray[0], gray[-1], gray[:, 0], gray[:, -1]]).mean()
    features = [np.ones_like(gray), gray, blurred, np.abs(blurred - frame), v, u, v * v, u * u]
    return np.stack(features, axis=-1), mask.astype(int)


CONTRAST = [2]  # the feature that says where a picture changes: the blurred brightness
rng = np.random.default_rng(0)
X_train, y_train = zip(*[picture(rng) for _ in range(24)], strict=True)
X_test, y_test = zip(*[picture(rng) for _ in range(40)], strict=True)
print(f"{len(X_train)} pictures to train, {len(X_test)} to test; the first: {X_train[0].shape}")

# %%
# Two models with the same features of pixels: of graphs without edges, and of grids. An edge of a
# grid has a feature for neighbors in rows, one for those in columns, and with ``contrast`` one that
# is smaller where the picture changes. The loss of a picture is its number of wrong pixels, so
# ``reg_lambda`` is a hundredth per pixel.

reg_lambda = 0.01 * np.mean([labels.size for labels in y_train])


def without_edges(X):
    """Each pixel by itself: nodes, no edges, and no features of edges."""
    return [(x.reshape(-1, x.shape[2]), np.empty((0, 2), int), np.empty((0, 0))) for x in X]


alone = StructuredSVM("graph", reg_lambda=reg_lambda, random_state=0)
alone.fit(without_edges(X_train), [labels.ravel() for labels in y_train])
grid = StructuredSVM(Grid(contrast=CONTRAST), reg_lambda=reg_lambda, random_state=0)
grid.fit(X_train, y_train)
print(f"{grid.lower_bound_:.2f} <= minimum <= {grid.objective_:.2f} wrong pixels per picture")
print("weights of rows, columns, contrast:", grid.w_[-3:].round(3))
single = alone.score(without_edges(X_test), [labels.ravel() for labels in y_test])
together = grid.score(X_test, y_test)
print(f"pixels right: {single:.3f} one by one, {together:.3f} as a grid")

# %%
# Weights of edges must not be negative, since no cut finds the best labels then. The fit keeps them
# so. The masks of three pictures:

masks = {
    "picture": [x[:, :, 1] for x in X_test[:3]],
    "truth": y_test[:3],
    "one by one": [
        labels.reshape(truth.shape)
        for labels, truth in zip(alone.predict(without_edges(X_test[:3])), y_test[:3], strict=True)
    ],
    "grid": grid.predict(list(X_test[:3])),
}
figure, axes = plt.subplots(3, 4, figsize=(6.4, 5.4), layout="constrained")
for column, (name, images) in zip(axes.T, masks.items(), strict=True):
    for ax, image in zip(column, images, strict=True):
        ax.imshow(image, cmap="gray" if name == "picture" else "Blues")
        ax.set(xticks=[], yticks=[])
    column[0].set_title(name)
figure.suptitle(f"Pixels right: {single:.1%} one by one, {together:.1%} as a grid")
plt.show()

# %%
# Learning repeats what a cut costs: each search for the worst labels is one. These ways to solve
# the same problem differ in the number of searches per picture. Steps on labels that were kept come
# between them, whose cost is not counted here. The certificate says when to stop.

fits = {
    name: StructuredSVM(grid.model, reg_lambda=reg_lambda, solver=name, random_state=0).fit(
        X_train, y_train
    )
    for name in ("auto", "bcfw", "rsd", "rsd-one-simplex")
}
figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
ConvergenceDisplay.from_estimators(fits, x="passes", ax=ax)
searches = {name: model.history_["passes"][-1] for name, model in fits.items()}
fewest = min(searches, key=searches.get)
ax.set(xlabel="searches per picture")
ax.set_title(f"Fewest searches to the same gap: {fewest}, {searches[fewest]} per picture")
plt.show()
