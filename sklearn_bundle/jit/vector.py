"""Explicit vectors of eight doubles, for rows that are short and of unknown length.

LLVM vectorizes a loop for rows of at least 32 entries and leaves the rest to scalar code; a row of
22 labels, padded to 24, is all rest. With these vectors it takes three operations on any processor,
since LLVM splits a vector into the registers that the processor has.

Bounds are not checked, and negative indices are wrong: ``load(array, i)`` reads ``array[i:i + 8]``
of a contiguous one-dimensional array.
"""

from functools import partial
from math import factorial

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, models, register_model

from sklearn_bundle.jit.elementary import _LN2_HIGH, _LN2_LOW, _LOG2_E, _ROUND

WIDTH = 8  # doubles: one of the widest registers (AVX-512), two or four narrower ones
# Types of LLVM: vectors used in arithmetic, vectors as float32 arrays hold them, and integers.
_DOUBLES = ir.VectorType(ir.DoubleType(), WIDTH)
_FLOATS = ir.VectorType(ir.FloatType(), WIDTH)
_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)
QUARTET = 4  # entries added to scattered places at a time: short rows waste little
_FUSED = ("contract",)  # a product and a sum may round once
# For ``exp_of_negative``; the last power of its series, of at most log(2)/2, is below rounding.
_LOWEST, _TERMS = -708.0, 13


class VectorType(types.Type):
    def __init__(self):
        super().__init__(name="VectorOfDoubles")


_vector = VectorType()  # in signatures


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, _DOUBLES)


def _pointer(context, builder, array_type, array, index):
    data = context.make_array(array_type)(context, builder, array).data
    stored = _FLOATS if array_type.dtype == types.float32 else _DOUBLES
    pointer = builder.bitcast(builder.gep(data, [index]), stored.as_pointer())
    return pointer, array_type.dtype.bitwidth // 8


def _shuffle(builder, a, b, lanes):
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_INT32, len(lanes)), lanes))


def _splat(builder, number, width=WIDTH):
    undefined = ir.Constant(ir.VectorType(number.type, width), ir.Undefined)
    one = builder.insert_element(undefined, number, _INT32(0))
    return _shuffle(builder, one, undefined, [0] * width)


def _first(builder, count, values):
    """The first ``count`` of ``values``, and zeros."""
    width = values.type.count
    lanes = ir.Constant(ir.VectorType(_INT64, width), list(range(width)))
    below = builder.icmp_signed("<", lanes, _splat(builder, count, width))
    return builder.select(below, values, ir.Constant(values.type, [0.0] * width))


def _places(context, builder, indices_type, indices, k, width):
    """``indices[k:k + width]``, each as 64 bits."""
    data = builder.gep(context.make_array(indices_type)(context, builder, indices).data, [k])
    loaded = [builder.load(builder.gep(data, [_INT64(r)])) for r in range(width)]
    return [builder.zext(j, _INT64) if j.type.width < 64 else j for j in loaded]


@intrinsic
def load(typing_context, array, index):
    """``array[index:index + 8]``, of float64 or float32."""

    def generate(context, builder, signature, arguments):
        pointer, size = _pointer(context, builder, signature.args[0], *arguments)
        value = builder.load(pointer)
        value.align = size
        return value if size == 8 else builder.fpext(value, _DOUBLES)

    return _vector(array, types.intp), generate


@intrinsic
def store(typing_context, array, index, vector):
    """``array[index:index + 8] = vector``."""

    def generate(context, builder, signature, arguments):
        array, index, value = arguments
        pointer, size = _pointer(context, builder, signature.args[0], array, index)
        if size == 4:
            value = builder.fptrunc(value, _FLOATS)
        builder.store(value, pointer).align = size
        return context.get_dummy_value()

    return types.void(array, types.intp, _vector), generate


@intrinsic
def prefetch(typing_context, array, index):
    """Prefetch the cache line of ``array[index]``; any index will do, since none can fault."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        hints = [_INT32(0), _INT32(3), _INT32(1)]  # read, keep in cache; data, not instructions
        kind = ir.FunctionType(ir.VoidType(), [place.type] + [_INT32] * len(hints))
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(function, [place, *hints])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@intrinsic
def muladd(typing_context, a, b, c):
    """``a * b + c`` of numbers, rounded once if the processor can, whatever the code around it.

    LLVM fuses a product into a sum on its own if the product has no other use.
    """

    def generate(context, builder, signature, arguments):
        number = ir.DoubleType()
        kind = ir.FunctionType(number, [number, number, number])
        function = builder.module.declare_intrinsic("llvm.fmuladd", [number], kind)
        return builder.call(function, arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


@intrinsic
def splat(typing_context, number):
    """All eight equal to ``number``."""

    def generate(context, builder, signature, arguments):
        return _splat(builder, arguments[0])

    return _vector(types.float64), generate


@intrinsic
def spread(typing_context, array, index):
    """All eight equal to ``array[index]``, of float64 or float32."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        value = builder.load(builder.gep(data, [arguments[1]]))
        if signature.args[0].dtype == types.float32:
            value = builder.fpext(value, ir.DoubleType())
        return _splat(builder, value)

    return _vector(array, types.intp), generate


def _fused(builder, a, b, c):
    return builder.fadd(builder.fmul(a, b, flags=_FUSED), c, flags=_FUSED)


@intrinsic
def fma(typing_context, a, b, c):
    """``a * b + c``, of vectors of doubles, of lanes or of numbers."""

    def generate(context, builder, signature, arguments):
        return _fused(builder, *arguments)

    return a(a, a, a), generate


@intrinsic
def times(typing_context, a, b):
    """``a * b``, of vectors of doubles, of lanes or of numbers, all of one type."""

    def generate(context, builder, signature, arguments):
        return builder.fmul(*arguments, flags=_FUSED)

    return a(a, a), generate


@intrinsic
def plus(typing_context, a, b):
    """``a + b``, as ``times``."""

    def generate(context, builder, signature, arguments):
        return builder.fadd(*arguments, flags=_FUSED)

    return a(a, a), generate


@intrinsic
def minus(typing_context, a, b):
    """``a - b``, as ``times``."""

    def generate(context, builder, signature, arguments):
        return builder.fsub(*arguments, flags=_FUSED)

    return a(a, a), generate


@intrinsic
def over(typing_context, a, b):
    """``a / b``, as ``times``."""

    def generate(context, builder, signature, arguments):
        return builder.fdiv(*arguments)

    return a(a, a), generate


@intrinsic
def magnitude(typing_context, a):
    """``abs(a)``."""

    def generate(context, builder, signature, arguments):
        integers = ir.VectorType(_INT64, WIDTH)
        without_sign = ir.Constant(integers, [2**63 - 1] * WIDTH)
        bits = builder.and_(builder.bitcast(arguments[0], integers), without_sign)
        return builder.bitcast(bits, _DOUBLES)

    return _vector(_vector), generate


@intrinsic
def positive(typing_context, a):
    """``max(a, 0)``, NaN where a is."""

    def generate(context, builder, signature, arguments):
        zero = ir.Constant(_DOUBLES, [0.0] * WIDTH)
        below = builder.fcmp_ordered("<=", arguments[0], zero)
        return builder.select(below, zero, arguments[0])

    return _vector(_vector), generate


@intrinsic
def larger(typing_context, a, b):
    """``max(a, b)``, as ``times``; b where either is NaN."""

    def generate(context, builder, signature, arguments):
        above = builder.fcmp_ordered(">", *arguments)
        return builder.select(above, *arguments)

    return a(a, a), generate


@intrinsic
def exp_of_negative(typing_context, a):
    """``exp(a)`` for a from -708 to 0, as in ``elementary``; 0 below, and 0 for NaN."""

    def generate(context, builder, signature, arguments):
        def same(number):
            return ir.Constant(_DOUBLES, [number] * WIDTH)

        fused = partial(_fused, builder)

        def integers(number):
            return ir.Constant(ir.VectorType(_INT64, WIDTH), [number] * WIDTH)

        above = builder.fcmp_ordered(">=", arguments[0], same(_LOWEST))
        x = builder.select(above, arguments[0], same(_LOWEST))
        shifted = fused(x, same(_LOG2_E), same(_ROUND))
        k = builder.fsub(shifted, same(_ROUND))
        r = fused(k, same(-_LN2_LOW), fused(k, same(-_LN2_HIGH), x))
        p = same(1.0 / factorial(_TERMS))
        for n in range(_TERMS - 1, -1, -1):
            p = fused(p, r, same(1.0 / factorial(n)))
        bits = builder.bitcast(shifted, ir.VectorType(_INT64, WIDTH))
        bits = builder.shl(builder.add(bits, integers(1023)), integers(52))
        value = builder.fmul(p, builder.bitcast(bits, _DOUBLES))
        return builder.select(above, value, same(0.0))

    return _vector(_vector), generate


@intrinsic
def where_below(typing_context, a, limit, b):
    """b where ``a < limit``, 0 elsewhere."""

    def generate(context, builder, signature, arguments):
        a, limit, b = arguments
        below = builder.fcmp_ordered("<", a, limit)
        return builder.select(below, b, ir.Constant(_DOUBLES, [0.0] * WIDTH))

    return _vector(_vector, _vector, _vector), generate


@intrinsic
def where_at_most(typing_context, a, limit, b):
    """b where ``a <= limit``, 0 elsewhere."""

    def generate(context, builder, signature, arguments):
        a, limit, b = arguments
        below = builder.fcmp_ordered("<=", a, limit)
        return builder.select(below, b, ir.Constant(_DOUBLES, [0.0] * WIDTH))

    return _vector(_vector, _vector, _vector), generate


@intrinsic
def last_of(typing_context, a, count):
    """The last ``count`` of the eight, and zeros before them."""

    def generate(context, builder, signature, arguments):
        a, count = arguments
        lanes = ir.Constant(ir.VectorType(_INT64, WIDTH), [WIDTH - 1 - k for k in range(WIDTH)])
        kept = builder.icmp_signed("<", lanes, _splat(builder, count))
        return builder.select(kept, a, ir.Constant(_DOUBLES, [0.0] * WIDTH))

    return _vector(_vector, types.intp), generate


@intrinsic
def total(typing_context, a):
    """Sum of the eight, in pairs."""

    def generate(context, builder, signature, arguments):
        value = arguments[0]
        for half in (4, 2, 1):
            mask = [k + half if k < half else k for k in range(WIDTH)]
            mask = ir.Constant(ir.VectorType(_INT32, WIDTH), mask)
            value = builder.fadd(value, builder.shuffle_vector(value, value, mask))
        return builder.extract_element(value, _INT32(0))

    return types.float64(_vector), generate


@intrinsic
def largest(typing_context, a):
    """The largest of the eight; none of them is NaN."""

    def generate(context, builder, signature, arguments):
        value = arguments[0]
        for half in (4, 2, 1):
            mask = [k + half if k < half else k for k in range(WIDTH)]
            other = _shuffle(builder, value, value, mask)
            value = builder.select(builder.fcmp_ordered(">", other, value), other, value)
        return builder.extract_element(value, _INT32(0))

    return types.float64(_vector), generate


@intrinsic
def store_totals(typing_context, array, index, a, b, c, d):
    """Store the totals of four vectors, each as in ``total``, in ``array[index:index + 4]``."""

    def generate(context, builder, signature, arguments):
        array, index, a, b, c, d = arguments

        def folded(a, b, half):
            low = [k for k in range(2 * WIDTH) if not k & half]
            high = [k + half for k in low]
            return builder.fadd(_shuffle(builder, a, b, low), _shuffle(builder, a, b, high))

        quarters = folded(folded(a, b, 4), folded(c, d, 4), 2)
        even, odd = (
            _shuffle(builder, quarters, quarters, [p, p + 2, p + 4, p + 6]) for p in (0, 1)
        )
        value = builder.fadd(even, odd)
        pointer, size = _pointer(context, builder, signature.args[0], array, index)
        builder.store(value, builder.bitcast(pointer, value.type.as_pointer())).align = size
        return context.get_dummy_value()

    return types.void(array, types.intp, _vector, _vector, _vector, _vector), generate


@intrinsic
def gather_fma(typing_context, data, indices, k, count, w, total):
    """``data[k:k + 8] * w[indices[k:k + 8]] + total``, for the first ``count`` entries only.

    All eight are read: there must be eight entries, all finite. w is read by eight loads, since no
    processor's gather instruction is much faster than these, and some are slower.
    """

    def generate(context, builder, signature, arguments):
        data, indices, k, count, w, total = arguments
        pointer, size = _pointer(context, builder, signature.args[0], data, k)
        x = builder.load(pointer)
        x.align = size
        x = x if size == 8 else builder.fpext(x, _DOUBLES)
        values = context.make_array(signature.args[4])(context, builder, w).data
        gathered = ir.Constant(_DOUBLES, ir.Undefined)
        places = _places(context, builder, signature.args[1], indices, k, WIDTH)
        for r, j in enumerate(places):
            number = builder.load(builder.gep(values, [j]))
            gathered = builder.insert_element(gathered, number, _INT32(r))
        product = builder.fmul(x, _first(builder, count, gathered), flags=_FUSED)
        return builder.fadd(product, total, flags=_FUSED)

    return _vector(data, indices, types.intp, types.intp, w, _vector), generate


def _add_four(context, builder, signature, arguments, choose=None):
    """What both kinds of ``scatter_add`` generate; ``choose(j, place)`` may redirect a sum."""
    data, indices, k, count, factor, out = arguments[:6]
    pointer, size = _pointer(context, builder, signature.args[0], data, k)
    kind = ir.VectorType(pointer.type.pointee.element, QUARTET)
    x = builder.load(builder.bitcast(pointer, kind.as_pointer()))
    x.align = size
    if size == 4:
        x = builder.fpext(x, ir.VectorType(ir.DoubleType(), QUARTET))
    product = builder.fmul(x, _first(builder, count, _splat(builder, factor, QUARTET)))
    target = context.make_array(signature.args[5])(context, builder, out).data
    for r, j in enumerate(_places(context, builder, signature.args[1], indices, k, QUARTET)):
        place = builder.gep(target, [j])
        if choose is not None:
            place = choose(j, place)
        number = builder.extract_element(product, _INT32(r))
        builder.store(builder.fadd(builder.load(place), number), place)
    return context.get_dummy_value()


@intrinsic
def scatter_add(typing_context, data, indices, k, count, factor, out):
    """``out[indices[k + r]] += factor * data[k + r]`` for r below 4 and below ``count``.

    All four are read, and their places are written, some with their old values: there must be four
    entries, all finite. Places may repeat.
    """
    arguments = data, indices, types.intp, types.intp, types.float64, out
    return types.void(*arguments), _add_four


@intrinsic
def scatter_add_within(typing_context, data, indices, k, count, factor, out, left, right, spare):
    """The same for places from ``left`` to below ``right``; the others go to ``spare``.

    ``spare`` has 64 entries, since an addition to an entry waits for the last one to the same.
    """

    def generate(context, builder, signature, arguments):
        left, right, spare = arguments[6:]
        nowhere = context.make_array(signature.args[8])(context, builder, spare).data
        width = builder.sub(right, left)

        def choose(j, place):
            inside = builder.icmp_unsigned("<", builder.sub(j, left), width)
            other = builder.gep(nowhere, [builder.and_(j, _INT64(63))])
            return builder.select(inside, place, other)

        return _add_four(context, builder, signature, arguments, choose)

    places = types.intp, types.intp
    arguments = data, indices, *places, types.float64, out, *places, spare
    return types.void(*arguments), generate


@intrinsic
def transpose(typing_context, source, i, target, j, width):
    """Copy the transposed 8 x 8 block at ``source[i]`` to ``target[j]``; rows ``width`` apart."""

    def generate(context, builder, signature, arguments):
        source, i, target, j, width = arguments
        rows = []
        for r in range(WIDTH):
            at = builder.add(i, builder.mul(width, ir.Constant(width.type, r)))
            pointer, size = _pointer(context, builder, signature.args[0], source, at)
            rows.append(builder.load(pointer))
            rows[-1].align = size
        for half in (4, 2, 1):  # exchange the off-diagonal quarters of blocks of twice this size
            low = [k if not k & half else k + WIDTH - half for k in range(WIDTH)]
            high = [k + half if not k & half else k + WIDTH for k in range(WIDTH)]
            masks = [ir.Constant(ir.VectorType(_INT32, WIDTH), mask) for mask in (low, high)]
            for r in range(WIDTH):
                if not r & half:
                    a, b = rows[r], rows[r + half]
                    rows[r] = builder.shuffle_vector(a, b, masks[0])
                    rows[r + half] = builder.shuffle_vector(a, b, masks[1])
        for r in range(WIDTH):
            at = builder.add(j, builder.mul(width, ir.Constant(width.type, r)))
            pointer, size = _pointer(context, builder, signature.args[2], target, at)
            builder.store(rows[r], pointer).align = size
        return context.get_dummy_value()

    return types.void(source, types.intp, target, types.intp, types.intp), generate
