"""Optima of smooth risks of one score in decimals: Newton's method, and a proof of what it found.

Long double is not enough for a judge where columns of 1e9 meet exponentials: gradients that cancel
leave it an error that it cannot see. With 60 digits nothing of that is left, and what is, is
bounded.
"""

from copy import copy
from decimal import Context, Decimal, localcontext
from functools import wraps
from typing import NamedTuple

import numpy as np

from tests.reference_programme import LONG, solved

DIGITS = 60
_UNIT = Decimal(10) ** (1 - DIGITS)  # relative, of one operation
_FEW = 16  # roundings of a term beside those of its sum
_STEPS, _SHORTEST = 60, Decimal("1e-50")  # of Newton's method; the share of one
_FLAT = Decimal("1e-30")  # relative curvature that is added: some losses have none
_END = Decimal("1e-45")  # of the objective: what the last step may promise


def in_digits(function):
    """Run with that many of them; what overflows is infinite."""

    @wraps(function)
    def wrapped(*arguments):
        with localcontext(Context(prec=DIGITS, traps=[])):
            return function(*arguments)

    return wrapped


class Found(NamedTuple):
    """A point, and how far the optimum may be from it."""

    w: np.ndarray
    b: np.longdouble
    apart: float  # of the optimum's w, by Euclid
    shift: float  # of the best b for this w
    missing: float  # by how much the objective is less


class Digits:
    """``w'Bw reg_lambda / 2 + sum_i s_i l(<w, x_i> + b)`` in decimals; b is 0 unless it is free."""

    @in_digits
    def __init__(self, X, risk, B, reg_lambda, free):
        self.risk, self.d = copy(risk), X.shape[1]
        used = risk.weights > 0
        X = X[used]
        for name, value in vars(risk).items():
            of_rows = np.ndim(value) and len(value) == len(used)
            setattr(self.risk, name, decimals(value[used] if of_rows else value))
        self.s, self.free = self.risk.weights, free
        self.rows = decimals(np.c_[X, np.ones(len(X))] if free else X)
        self.bend = np.full((self.rows.shape[1],) * 2, Decimal(0))
        self.bend[: self.d, : self.d] = decimals(B) * Decimal(reg_lambda)
        # Least eigenvalues in float64, rounded down.
        self.modulus = reg_lambda * float(np.linalg.eigvalsh(B)[0]) * (1 - 1e-9)

    @in_digits
    def optimum(self, w, b):
        """From a point near it, or from zeros if that is none."""
        start = np.r_[w, b][: len(self.bend)]
        start = np.where(np.isfinite(start).all(), start, 0)
        return self.proved(self.lowest(decimals(start)))

    def lowest(self, v):
        """Newton's steps, none of which goes beyond the least point by more than half its slope."""
        for _ in range(_STEPS):
            f = self.rows @ v
            first, second = self.risk.derivatives(f)
            gradient = self.bend @ v + (self.s * first) @ self.rows
            step, promised = self._step(gradient, self.s * second)
            if not promised > _END * self._size(v, f, first):
                break
            along, curved = self.rows @ step, step @ (self.bend @ step)
            share, straight = Decimal(1), step @ (self.bend @ v)
            while share > _SHORTEST:
                slope = straight + share * curved
                slope += (self.s * self.risk.derivatives(f + share * along)[0]) @ along
                if slope <= promised / 2:
                    break
                share /= 4
            else:
                break
            v = v + share * step
        return v

    def _size(self, v, f, first):
        """Of the terms of a first derivative, in place of the objective's."""
        return np.abs(v) @ (np.abs(self.bend) @ np.abs(v)) + (self.s * np.abs(first)) @ np.abs(f)

    def _step(self, gradient, curvatures):
        """And how much less the derivative along it would be at its end."""
        H = self.bend + self.rows.T @ (curvatures[:, None] * self.rows)
        widths = np.array([h.sqrt() if h > 0 else Decimal(1) for h in np.diag(H)])
        H = H / np.outer(widths, widths)
        H[np.diag_indices_from(H)] += _FLAT
        step = -solved(H, gradient / widths) / widths
        return step, -(gradient @ step)

    @in_digits
    def proved(self, v):
        """What is known of a point, and of the nearest one in long double.

        ``min over b`` of the objective is strongly convex in w, and has there the gradient in w at
        the best b. That is between two numbers if the derivative in b rises through 0 between them;
        derivatives of the losses rise with their scores, and so all of them are known to intervals.
        """
        n, p = self.rows.shape
        f, sizes = self.rows @ v, np.abs(self.rows) @ np.abs(v)
        rounded = (p + _FEW) * _UNIT * (sizes + self._numbers())
        shift = self._shift(f, rounded, abs(v[-1])) if self.free else Decimal(0)
        low, high = (
            self.s * self.risk.derivatives(f + sign * (shift + rounded))[0] for sign in (-1, 1)
        )
        largest = np.maximum(np.abs(low), np.abs(high))
        off = (high - low + (n + _FEW) * _UNIT * largest) @ np.abs(self.rows)
        off += (p + _FEW) * _UNIT * (np.abs(self.bend) @ np.abs(v))
        length = _length((np.abs(self._gradient(v)) + off)[: self.d])
        near = longs(v)
        moved = decimals(near) - v
        risen = self._gradient(v + moved) @ moved  # the objective is convex
        missing = length**2 / (2 * self.modulus) + float(shift * largest.sum() + max(risen, 0))
        w, b = near[: self.d], near[-1] if self.free else LONG(0)
        apart = length / self.modulus + _length(moved[: self.d])
        return Found(w, b, apart, float(shift + abs(moved[-1])), missing)

    def _gradient(self, v):
        return self.bend @ v + (self.s * self.risk.derivatives(self.rows @ v)[0]) @ self.rows

    def _numbers(self):
        """Sizes of what scores are compared with."""
        given = (v for name, v in vars(self.risk).items() if name not in ("weights", "M"))
        return 1 + sum(np.abs(np.ravel(v)) for v in given)

    def _shift(self, f, rounded, size):
        """A number that the best b is no farther away than; infinite if none was found."""
        shift = _UNIT * (size + 1)
        while shift < 1 + size:
            signs = []
            for sign in (-1, 1):
                there = self.s * self.risk.derivatives(f + sign * (shift - rounded))[0]
                off = (len(f) + _FEW) * _UNIT * np.abs(there).sum()
                signs.append(sign * there.sum() - off >= 0)
            if all(signs):
                return shift
            shift *= 100
        return Decimal("Infinity")


def _length(values):
    """Rounded up."""
    return float(np.sum(values * values).sqrt()) * (1 + 1e-9)


@in_digits
def decimals(values):
    """Of numbers in long double, which are sums of two in double."""
    values = np.asarray(values, LONG)
    high = values.astype(float)
    low = (values - high).astype(float)
    found = [Decimal(a) + Decimal(b) for a, b in zip(np.ravel(high), np.ravel(low), strict=True)]
    return np.array(found, object).reshape(values.shape)[()]


def longs(values):
    """The nearest numbers in long double, or almost."""
    high = values.astype(float)
    low = (values - np.array([Decimal(a) for a in high.tolist()], object)).astype(float)
    return high.astype(LONG) + low
