"""
Cutting out horses: do neighboring pixels help?
===============================================

Which pixels show the object, and which the background? A classifier of pixels decides about each by
itself, and the result has holes and specks. :class:`~sklearn_bundle.models.Grid` has weights for
pairs of neighbors too, which make a border cost something; the best labels of all pixels together
are a minimum cut. What are they worth, and what does it cost to learn them?

The pictures are made here. If the environment variable ``SKLEARN_BUNDLE_DATA`` names a folder with
a ``tasks.py``, as the benchmarks take it, they are the Weizmann horses from there.
"""

import os
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Grid
from sklearn_bundle.plotting import ConvergenceDisplay

# %%
# A picture has an ellipse, of a brightness of its own before a background that gets brighter to one
# side, and noise. Of each pixel the model sees the brightness, raw and blurred, how far it is from
# the brightness of the frame, and the place.

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
    grey = slope + rng.uniform(0.4, 1.0) * mask + NOISE * rng.normal(size=mask.shape)
    blurred = gaussian_filter(grey, 0.7)
    frame = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]]).mean()
    features = [np.ones_like(grey), grey, blurred, np.abs(blurred - frame), v, u, v * v, u * u]
    return np.stack(features, axis=-1), mask.astype(int)


tasks = Path(os.environ.get("SKLEARN_BUNDLE_DATA", ""), "tasks.py")
if tasks.exists():
    shown, contrast = 10, [10, 13, 14]  # grey; grey and two differences of colors
    X_train, y_train, X_test, y_test = runpy.run_path(str(tasks))["structured"]("horses")
    y_train, y_test = (
        [labels.reshape(x[3]) for x, labels in zip(X, y, strict=True)]
        for X, y in ((X_train, y_train), (X_test, y_test))
    )
    X_train, X_test = ([x[0].reshape(*x[3], -1) for x in X] for X in (X_train, X_test))
else:
    shown, contrast, rng = 1, [2], np.random.default_rng(0)
    X_train, y_train = zip(*[picture(rng) for _ in range(40)], strict=True)
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
grid = StructuredSVM(Grid(contrast=contrast), reg_lambda=reg_lambda, random_state=0)
grid.fit(X_train, y_train)
print(f"{grid.lower_bound_:.2f} <= minimum <= {grid.objective_:.2f} wrong pixels per picture")
print("weights of rows, columns, contrast:", grid.w_[-3:].round(3))
single = alone.score(without_edges(X_test), [labels.ravel() for labels in y_test])
print(f"pixels right: {single:.3f} one by one, {grid.score(X_test, y_test):.3f} as a grid")

# %%
# Weights of edges must not be negative, as no cut finds the best labels then; a fit keeps them so.
# The masks of four pictures:

masks = {
    "picture": [x[:, :, shown] for x in X_test[:4]],
    "truth": y_test[:4],
    "one by one": [
        labels.reshape(truth.shape)
        for labels, truth in zip(alone.predict(without_edges(X_test[:4])), y_test[:4], strict=True)
    ],
    "grid": grid.predict(list(X_test[:4])),
}
figure, axes = plt.subplots(4, 4, figsize=(8, 8), layout="constrained")
for row, (name, images) in zip(axes, masks.items(), strict=True):
    for ax, image in zip(row, images, strict=True):
        ax.imshow(image, cmap="gray" if name == "picture" else "Blues")
        ax.set(xticks=[], yticks=[])
    row[0].set_ylabel(name)
plt.show()

# %%
# What a cut costs an image, learning has to pay often: each search for the worst labels is one. The
# ways to solve the same problem, by searches per picture. Steps on kept labels come between them,
# and the certificate tells when to stop.

fits = {
    name: StructuredSVM(grid.model, reg_lambda=reg_lambda, solver=name, random_state=0).fit(
        X_train, y_train
    )
    for name in ("auto", "bcfw", "rsd", "rsd-one-simplex")
}
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
ConvergenceDisplay.from_estimators(fits, x="passes", ax=ax)
ax.set(xlabel="searches per picture")
plt.show()
