"""Steps in the dual of a structured hinge loss, block by block over the kept outputs.

The dual of ``reg_lambda/2 ||w||^2 + sum_i s_i H_i(w)``, or of H_i^2/2 with ``squared``, in weights
q_i of outputs. ``w = factor * sum_i s_i sum_y q_i(y) psi_i(y)``, plus what the solver adds, is kept
up to date. Negative entries of the cone are 0 in w and keep their value in ``raw``.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sklearn_bundle.jit.decorators import inner, jit
from sklearn_bundle.jit.sampling import pick, put
from sklearn_bundle.structured._compiled.outputs import (
    LONGEST,
    add_psi,
    enough,
    forget,
    insert,
    new_table,
    score_of,
)
from sklearn_bundle.structured._compiled.structures import new_work, worst

_BLOCK_STEPS = 8  # limit of pairwise steps in a visit, times the number of the block's outputs
_MISSED = 1e-8  # relative to the terms of a score: rounding moves it by less
_BLOCK_SHARE = 1e-2  # a block is solved until its gap is this share of the gap it began with


class Dual(NamedTuple):
    """What steps change (w, raw with a cone, gaps as last seen) and what they need.

    Without a cone, w and raw are the same array. ``counts`` holds the gain of the dual and the
    number of entries of psi that were read for it.
    """

    squared: bool
    factor: float
    patience: int
    weights: NDArray[np.float64]
    w: NDArray[np.float64]
    raw: NDArray[np.float64]
    cone: NDArray[np.bool_]
    gaps: NDArray[np.float64]
    counts: NDArray[np.float64]


@inner
def _add(outputs, slot, amount, dual):
    """Add ``amount * psi`` to w, with a cone also to raw."""
    if dual.cone.shape[0] == 0:
        add_psi(outputs, slot, amount, dual.w)
        return
    for e in range(outputs.begin[slot], outputs.begin[slot] + outputs.length[slot]):
        at = np.int64(outputs.indices[e])
        dual.raw[at] += amount * outputs.values[e]
        dual.w[at] = max(dual.raw[at], 0.0) if dual.cone[at] else dual.raw[at]


@inner
def gap_of(q, scores, count, squared, highest):
    """A block's part of the duality gap if the best output has the score ``highest``."""
    mean = total = 0.0
    for k in range(count):
        mean += q[k] * scores[k]
        total += q[k]
    if squared:
        highest = max(highest, 0.0)
        return max(0.5 * highest * highest + 0.5 * total * total - mean, 0.0)
    return max(highest - mean, 0.0)


@inner
def _improve_on_simplex(gram, work, q, scores, count, scale):
    """Nearly the best weights of a block, in place in q and the scores; returns the dual's gain.

    Each step moves weight from the lowest-scoring output that has any to the highest-scoring one.
    """
    gain = 0.0
    start = -1.0
    for _ in range(_BLOCK_STEPS * count):
        best = 0
        low = -1
        mean = 0.0
        for k in range(count):
            if scores[k] > scores[best]:
                best = k
            if q[k] > 0.0 and (low < 0 or scores[k] < scores[low]):
                low = k
            mean += q[k] * scores[k]
        gap = scores[best] - mean
        if start < 0.0:
            start = gap
        slope = scores[best] - scores[low]
        if gap <= _BLOCK_SHARE * start or not slope > 0.0:
            break
        bend = gram[best * work + best] + gram[low * work + low] - 2.0 * gram[best * work + low]
        bend *= scale
        step = q[low]
        if slope < step * bend:
            step = slope / bend
        gain += step * slope - 0.5 * step * step * bend
        q[low] = q[low] - step if step < q[low] else 0.0
        q[best] += step
        for k in range(count):
            scores[k] -= step * scale * (gram[best * work + k] - gram[low * work + k])
    return gain


@inner
def _improve_in_cone(gram, work, q, scores, count, scale):
    """The same for the squared hinge, whose weights have a free sum.

    Each step changes the output of the highest score, or of the lowest among those with weight.
    """
    gain = total = 0.0
    for k in range(count):
        total += q[k]
    start = -1.0
    for _ in range(_BLOCK_STEPS * count):
        best = 0
        low = -1
        for k in range(count):
            if scores[k] > scores[best]:
                best = k
            if q[k] > 0.0 and (low < 0 or scores[k] < scores[low]):
                low = k
        chosen, slope = best, scores[best] - total
        if low >= 0 and total - scores[low] > slope:
            chosen, slope = low, scores[low] - total
        gap = abs(slope)
        if start < 0.0:
            start = gap
        if gap <= _BLOCK_SHARE * start or gap == 0.0:
            break
        bend = scale * gram[chosen * work + chosen] + 1.0
        step = max(slope / bend, -q[chosen])
        gain += step * slope - 0.5 * step * step * bend
        q[chosen] = q[chosen] + step if step > -q[chosen] else 0.0
        total += step
        for k in range(count):
            scores[k] -= step * scale * gram[chosen * work + k]
    return gain


@inner
def _kept_gap(outputs, i, dual, scores):
    """Fill in the scores of a block's outputs; returns its gap over them."""
    first, count, highest = outputs.at[i], outputs.count[i], -np.inf
    for k in range(count):
        scores[k] = score_of(outputs, first + k, dual.w)
        highest = max(highest, scores[k])
        dual.counts[1] += outputs.length[first + k]
    return gap_of(outputs.q[first : first + count], scores, count, dual.squared, highest)


@inner
def visit(outputs, i, dual, scores, before):
    """Solve block i over the outputs that it has; returns its gap over them before the step."""
    first, count = outputs.at[i], outputs.count[i]
    q = outputs.q[first : first + count]
    for k in range(count):
        before[k] = q[k]
    gap = _kept_gap(outputs, i, dual, scores)
    if gap > 0.0:
        gram = outputs.gram[outputs.gram_at[i] :]
        scale = dual.factor * dual.weights[i]
        if dual.squared:
            gain = _improve_in_cone(gram, outputs.capacity[i], q, scores, count, scale)
        else:
            gain = _improve_on_simplex(gram, outputs.capacity[i], q, scores, count, scale)
        dual.counts[0] += dual.weights[i] * gain
    full = False
    for k in range(count):
        if q[k] != before[k]:
            _add(outputs, first + k, dual.factor * dual.weights[i] * (q[k] - before[k]), dual)
        if q[k] > 0.0:
            outputs.idle[first + k] = 0
        else:
            outputs.idle[first + k] += 1
            full = full or outputs.idle[first + k] > dual.patience
    if full:
        forget(outputs, i, dual.patience)
    return gap


@jit
def epoch(structure, outputs, dual, sampling, longest, steps):
    """Visit ``steps`` blocks, each after an oracle call; returns how many there was room for."""
    work = new_work(structure)
    most = 0
    for i in range(longest.shape[0]):
        most = max(most, longest[i])
    indices, values = np.empty(most, np.uint32), np.empty(most)
    table = new_table(most, dual.w.shape[0])
    scores, before = np.empty(16), np.empty(16)
    for step in range(steps):
        if not enough(outputs, most):
            return step
        i = pick(sampling)
        length, loss, _, _ = worst(structure, i, dual.w, work, indices, values)
        scores, before, table = _fitting(outputs, i, scores, before, table)
        insert_and_visit(outputs, i, dual, indices, values, length, loss, scores, before, table)
        put(sampling, i, dual.weights[i] * dual.gaps[i])
    return steps


@inner
def _fitting(outputs, i, scores, before, table):
    """Workspace for block i after one more output."""
    most = 2 * outputs.count[i] + 2
    if scores.shape[0] < most:
        scores, before = np.empty(2 * most), np.empty(2 * most)
    if table.keys.shape[0] < 4 * outputs.used[LONGEST]:
        table = new_table(2 * outputs.used[LONGEST], table.dense.shape[0])
    return scores, before, table


@inner
def insert_and_visit(outputs, i, dual, indices, values, length, loss, scores, before, table):
    """Keep what the oracle found for block i, note the gap, and solve the block."""
    if length > 0 or loss > 0.0:
        insert(outputs, i, indices, values, length, loss, table)
    dual.gaps[i] = visit(outputs, i, dual, scores, before)


@jit
def visit_with(outputs, dual, i, indices, values, loss):
    """:func:`insert_and_visit` for an output found elsewhere; False if none fits any more."""
    length = indices.shape[0]
    if not enough(outputs, length):
        return False
    table = new_table(max(length, outputs.used[LONGEST]), dual.w.shape[0])
    most = 2 * outputs.count[i] + 2
    scores, before = np.empty(most), np.empty(most)
    insert_and_visit(outputs, i, dual, indices, values, length, loss, scores, before, table)
    return True


@jit
def insert_all(outputs, dual, first, start, starts, indices, values, losses, found):
    """Keep an output for each of a range of blocks, all found at w, and note their gaps.

    Begins with block number ``start`` of the range; returns how far there was room.
    """
    table = new_table(max(outputs.used[LONGEST], 1), dual.w.shape[0])
    for row in range(start, losses.shape[0]):
        i = first + row
        length = starts[row + 1] - starts[row]
        if not enough(outputs, length):
            return row
        if table.keys.shape[0] < 4 * max(length, outputs.used[LONGEST]):
            table = new_table(2 * max(length, outputs.used[LONGEST]), dual.w.shape[0])
        mean = total = 0.0
        for slot in range(outputs.at[i], outputs.at[i] + outputs.count[i]):
            if outputs.q[slot] > 0.0:
                mean += outputs.q[slot] * score_of(outputs, slot, dual.w)
                total += outputs.q[slot]
        highest = found[row]
        gap = highest - mean
        if dual.squared:
            gap = 0.5 * highest * highest + 0.5 * total * total - mean
        dual.gaps[i] = max(gap, 0.0)
        begin, end = starts[row], starts[row + 1]
        if length > 0 or losses[row] > 0.0:
            insert(outputs, i, indices[begin:end], values[begin:end], length, losses[row], table)
    return losses.shape[0]


@jit
def missed(outputs, dual, first, found):
    """The row of an example that keeps an output with a higher score than the oracle's; or -1."""
    for row in range(found.shape[0]):
        i = first + row
        for k in range(outputs.count[i]):
            slot = outputs.at[i] + k
            score = score_of(outputs, slot, dual.w)
            excess, terms = score - found[row], abs(score) + outputs.loss[slot]
            if excess > _MISSED * terms:
                own = outputs.gram[outputs.gram_at[i] + k * (outputs.capacity[i] + 1)]
                if excess > _MISSED * (terms + _length(dual.w) * np.sqrt(max(own, 0.0))):
                    return row
    return -1


@inner
def _length(w):
    squared = 0.0
    for j in range(w.shape[0]):
        squared += w[j] * w[j]
    return np.sqrt(squared)


@jit
def cached_pass(outputs, dual, blocks, share):
    """Visit each of the blocks; returns those whose gap is at least ``share`` of the mean gap."""
    scores, before = np.empty(16), np.empty(16)
    gaps = np.zeros(blocks.shape[0])
    sum_of_gaps = 0.0
    for b in range(blocks.shape[0]):
        i = blocks[b]
        count = outputs.count[i]
        if count < 2 and not dual.squared:
            continue
        if scores.shape[0] < count:
            scores, before = np.empty(2 * count), np.empty(2 * count)
        gaps[b] = dual.weights[i] * visit(outputs, i, dual, scores, before)
        sum_of_gaps += gaps[b]
    return blocks[gaps * blocks.shape[0] >= share * sum_of_gaps]


@jit
def cached_gap(outputs, dual, blocks):
    """The sum of the gaps of blocks over the outputs that they have, all at w."""
    scores = np.empty(16)
    sum_of_gaps = 0.0
    for i in blocks:
        if scores.shape[0] < outputs.count[i]:
            scores = np.empty(2 * outputs.count[i])
        sum_of_gaps += dual.weights[i] * _kept_gap(outputs, i, dual, scores)
    return sum_of_gaps


@jit
def sums(outputs, weights, squared, w):
    """``w += sum_i s_i sum_y q_i(y) psi_i(y)``; returns sums of losses and of lengths of psi.

    Weights of a block that sum to one up to rounding are scaled to sum to one.
    """
    losses = carry = lengths = 0.0
    for i in range(weights.shape[0]):
        first, last = outputs.at[i], outputs.at[i] + outputs.count[i]
        total = 0.0
        for slot in range(first, last):
            total += outputs.q[slot]
        loss = -0.5 * total * total if squared else 0.0
        for slot in range(first, last):
            if outputs.q[slot] > 0.0:
                if not squared:
                    outputs.q[slot] /= total
                loss += outputs.q[slot] * outputs.loss[slot]
                amount = weights[i] * outputs.q[slot]
                own = outputs.gram_at[i] + (slot - first) * (outputs.capacity[i] + 1)
                lengths += amount * np.sqrt(max(outputs.gram[own], 0.0))
                add_psi(outputs, slot, amount, w)
        value = weights[i] * loss - carry
        new = losses + value
        carry = (new - losses) - value
        losses = new
    return losses, lengths


# ---- steps on many blocks together, over the outputs with weight -------------------------------


@jit
def scores_of(outputs, slots, w, out):
    """Write the scores of the slots; returns the number of entries read."""
    read = 0
    for k in range(slots.shape[0]):
        out[k] = score_of(outputs, slots[k], w)
        read += outputs.length[slots[k]]
    return read


@jit
def combination(outputs, slots, amounts, out):
    """``out += sum_k amounts[k] psi_k``."""
    for k in range(slots.shape[0]):
        if amounts[k] != 0.0:
            add_psi(outputs, slots[k], amounts[k], out)


@jit
def onto_simplexes(values, sizes):
    """Project the values onto the unit simplex, block by block of these sizes."""
    falling, first = np.empty(values.shape[0]), 0
    for size in sizes:
        _sort(falling, values, first, first + size)
        total, level = -1.0, 0.0
        for k in range(size):
            total += falling[k]
            if falling[k] * (k + 1) <= total:
                break
            level = total / (k + 1)
        for k in range(first, first + size):
            values[k] = max(values[k] - level, 0.0)
        first += size


@inner
def _sort(falling, values, first, last):
    """Write the values from first to last in falling order: blocks are small."""
    for k in range(last - first):
        value, at = values[first + k], k
        while at > 0 and falling[at - 1] < value:
            falling[at] = falling[at - 1]
            at -= 1
        falling[at] = value
