"""Fits that may miss their tol."""

import warnings

from sklearn.exceptions import ConvergenceWarning


def quiet(model, *data, **further):
    """Fit without the warning of a miss; others come through."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*data, **further)


class Here:
    """Blocks in this process, summed one after the other."""

    def __init__(self, blocks):
        self.blocks, self.n_blocks = blocks, len(blocks)

    def map(self, task, *args):
        return [task(block, *args) for block in self.blocks]

    def total(self, task, *args, answer_bytes):
        return [sum(parts) for parts in zip(*self.map(task, *args), strict=True)]
