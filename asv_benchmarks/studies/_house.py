"""Frames of a rotating object, whose points are to be matched from one frame to another.

The CMU house, or without data a made one. The points of every frame are in the same order, so that
the true matching is the identity; that order is in no feature, and no inference knows it.
"""

from types import ModuleType
from typing import NamedTuple

import numpy as np

RINGS, SECTORS = 5, 12  # of a shape context (Belongie et al.): 60 bins
_NEAR, _FAR = 0.125, 2.0  # of the rings, in mean distances of two points
_MASS = 30.0  # sum of a descriptor: as many points as the house has


class Frames(NamedTuple):
    """Descriptors of the points in each frame, of shape (n_frames, n_points, n_features)."""

    name: str
    descriptors: np.ndarray
    baselines: tuple[int, ...]  # frames between the two of a pair

    def pairs(self, first: int, apart: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Every third frame from ``first`` with that ``apart``: X and y of Matching.

        Caetano et al. train on ``first`` 0, validate on 1 and test on 2. Features are squared
        differences of the descriptors.
        """
        S = self.descriptors
        starts = range(first, len(S) - apart, 3)
        X = [(S[k][:, None] - S[k + apart][None]) ** 2 for k in starts]
        return X, [np.arange(S.shape[1]) for _ in starts]


def read(tasks: ModuleType | None) -> Frames:
    """The house of 111 frames, or 60 made ones."""
    if tasks is None:
        return Frames("made frames", _scaled(_made(60, 15)), tuple(range(0, 60, 10)))
    S = tasks.load_structured("cmu_house")["shape_context"].astype(np.float64)
    return Frames("CMU house", _scaled(S), tuple(range(0, 100, 10)))


def _scaled(S: np.ndarray) -> np.ndarray:
    return S * (_MASS / S.sum(axis=-1).mean())


def _made(n_frames: int, n_points: int, seed: int = 0) -> np.ndarray:
    """Shape contexts of points in space that turn by 0.6 degrees a frame, each moved a little."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1.0, 1.0, (n_points, 3)) * (1.0, 1.0, 0.5)
    frames = []
    for angle in np.radians(0.6 * np.arange(n_frames)):
        turn = np.array([[np.cos(angle), 0.0], [0.0, 1.0], [np.sin(angle), 0.0]])
        frames.append(shape_contexts(points @ turn + 0.02 * rng.normal(size=(n_points, 2))))
    return np.array(frames)


def shape_contexts(points: np.ndarray) -> np.ndarray:
    """Where the other points are, in counts by distance and direction: (n, RINGS * SECTORS)."""
    away = points[None] - points[:, None]
    distance = np.hypot(*np.moveaxis(away, -1, 0))
    n = len(points)
    edges = np.geomspace(_NEAR, _FAR, RINGS + 1)[1:-1] * distance.sum() / (n * (n - 1))
    ring = np.searchsorted(edges, distance)
    angle = np.arctan2(away[..., 1], away[..., 0]) % (2.0 * np.pi)
    sector = (angle * SECTORS / (2.0 * np.pi)).astype(int) % SECTORS
    counts = np.zeros((n, RINGS * SECTORS))
    for i in range(n):
        others = np.arange(n) != i
        np.add.at(counts[i], (ring * SECTORS + sector)[i, others], 1.0)
    return counts
