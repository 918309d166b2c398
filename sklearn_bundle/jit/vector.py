"""Vectors of 64 bytes, for rows that are short and of unknown length: LLVM leaves those to scalars.

``load(array, i)`` is ``array[i:i + 8]`` of float64, or 16 entries of float32, of a contiguous
one-dimensional array. Bounds are not checked, and negative indices are wrong. ``a + b``, ``a - b``,
``a * b`` and ``a / b`` are entry by entry, and a product and a sum may round once. LLVM splits a
vector into the registers that the processor has: one of AVX-512, two or four narrower ones.
"""

import operator

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from sklearn_bundle.jit.decorators import inner

WIDTH = 8  # entries of float64
_BITS, _INT32, _INT64 = 512, ir.IntType(32), ir.IntType(64)
_FRACTION = {types.float32: 23, types.float64: 52}  # bits of a number behind its exponent


class Vector(types.Type):
    def __init__(self, dtype):
        self.dtype, self.width = dtype, _BITS // dtype.bitwidth
        super().__init__(f"Vector({dtype})")


@register_model(Vector)
class _Model(models.PrimitiveModel):
    def __init__(self, manager, kind):
        number = manager.lookup(kind.dtype).get_value_type()
        super().__init__(manager, kind, ir.VectorType(number, kind.width))


def _pointer(context, builder, array_type, array, index):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def _splat(builder, number, width):
    undefined = ir.Constant(ir.VectorType(number.type, width), ir.Undefined)
    zeros = ir.Constant(ir.VectorType(_INT32, width), [0] * width)
    one = builder.insert_element(undefined, number, _INT32(0))
    return builder.shuffle_vector(one, undefined, zeros)


# ---- memory --------------------------------------------------------------------------------------


@intrinsic
def load(typing_context, array, index):
    kind = Vector(array.dtype)

    def generate(context, builder, signature, arguments):
        place = _pointer(context, builder, signature.args[0], *arguments)
        value = builder.load(builder.bitcast(place, context.get_value_type(kind).as_pointer()))
        value.align = array.dtype.bitwidth // 8
        return value

    return kind(array, types.intp), generate


@intrinsic
def store(typing_context, array, index, vector):
    def generate(context, builder, signature, arguments):
        place = _pointer(context, builder, signature.args[0], *arguments[:2])
        place = builder.bitcast(place, arguments[2].type.as_pointer())
        builder.store(arguments[2], place).align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(array, types.intp, Vector(array.dtype)), generate


@intrinsic
def splat(typing_context, number):
    """All entries equal to ``number``, of float32 or float64."""
    kind = Vector(number)

    def generate(context, builder, signature, arguments):
        return _splat(builder, arguments[0], kind.width)

    return kind(number), generate


@intrinsic
def spread(typing_context, array, index):
    """All entries equal to ``array[index]``."""
    kind = Vector(array.dtype)

    def generate(context, builder, signature, arguments):
        place = _pointer(context, builder, signature.args[0], *arguments)
        return _splat(builder, builder.load(place), kind.width)

    return kind(array, types.intp), generate


@intrinsic
def prefetch(typing_context, array, index):
    """Prefetch the cache line of ``array[index]``; any index will do, since none can fault."""

    def generate(context, builder, signature, arguments):
        place = _pointer(context, builder, signature.args[0], *arguments)
        place = builder.bitcast(place, ir.IntType(8).as_pointer())
        hints = [_INT32(0), _INT32(3), _INT32(1)]  # read, keep in cache; data, not instructions
        kind = ir.FunctionType(ir.VoidType(), [place.type] + [_INT32] * len(hints))
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(function, [place, *hints])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


# ---- entry by entry ------------------------------------------------------------------------------


def _define(symbol, instruction):
    @type_callable(symbol)
    def type_of(context):
        return lambda a, b: a if isinstance(a, Vector) and a == b else None

    @lower_builtin(symbol, Vector, Vector)
    def generate(context, builder, signature, arguments):
        return getattr(builder, instruction)(*arguments, flags=("contract",))


_define(operator.add, "fadd")
_define(operator.sub, "fsub")
_define(operator.mul, "fmul")
_define(operator.truediv, "fdiv")


@intrinsic
def where_above(typing_context, a, limit, b, c):
    """b where ``a > limit``, otherwise c: of vectors or numbers of one type."""

    def generate(context, builder, signature, arguments):
        return builder.select(builder.fcmp_ordered(">", *arguments[:2]), *arguments[2:])

    return a(a, a, a, a), generate


@intrinsic
def larger(typing_context, a, b):
    """``max(a, b)``; b where either is NaN."""

    def generate(context, builder, signature, arguments):
        return builder.select(builder.fcmp_ordered(">", *arguments), *arguments)

    return a(a, a), generate


@intrinsic
def power_of_two(typing_context, shifted):
    """``2^k``, for ``k + 1.5 * 2^p`` with p fraction bits: k stands in the low bits of the sum."""
    fraction, size = _FRACTION[shifted.dtype], shifted.dtype.bitwidth

    def generate(context, builder, signature, arguments):
        kind = ir.VectorType(ir.IntType(size), shifted.width)
        bias = ir.Constant(kind, [(1 << (size - fraction - 2)) - 1] * shifted.width)
        bits = builder.add(builder.bitcast(arguments[0], kind), bias)
        bits = builder.shl(bits, ir.Constant(kind, [fraction] * shifted.width))
        return builder.bitcast(bits, arguments[0].type)

    return shifted(shifted), generate


# ---- all entries ---------------------------------------------------------------------------------


def _folded(builder, value, width, join):
    half = width // 2
    while half:
        mask = ir.Constant(ir.VectorType(_INT32, width), [k ^ half for k in range(width)])
        value, half = join(value, builder.shuffle_vector(value, value, mask)), half // 2
    return value


def _larger(builder, a, b):
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


@type_callable(len)
def _type_of_len(context):
    return lambda vector: types.intp if isinstance(vector, Vector) else None


@lower_builtin(len, Vector)
def _len(context, builder, signature, arguments):
    return context.get_constant(types.intp, signature.args[0].width)


@intrinsic
def total(typing_context, vector):
    """The sum of all entries, in pairs."""

    def generate(context, builder, signature, arguments):
        value = _folded(builder, arguments[0], vector.width, builder.fadd)
        return builder.extract_element(value, _INT32(0))

    return vector.dtype(vector), generate


@intrinsic
def largest(typing_context, vector):
    """The largest entry; none is NaN."""

    def generate(context, builder, signature, arguments):
        value = _folded(builder, arguments[0], vector.width, lambda a, b: _larger(builder, a, b))
        return builder.extract_element(value, _INT32(0))

    return vector.dtype(vector), generate


@intrinsic
def first_largest(typing_context, vector):
    """Place of the largest entry, the first of equal ones; none is NaN."""

    def generate(context, builder, signature, arguments):
        value = _folded(builder, arguments[0], vector.width, lambda a, b: _larger(builder, a, b))
        equal = builder.fcmp_ordered("==", arguments[0], value)
        bits = builder.zext(builder.bitcast(equal, ir.IntType(vector.width)), _INT32)
        return builder.zext(builder.cttz(bits, ir.Constant(ir.IntType(1), 1)), _INT64)

    return types.intp(vector), generate


@intrinsic
def entry(typing_context, vector, place):
    def generate(context, builder, signature, arguments):
        return builder.extract_element(*arguments)

    return vector.dtype(vector, types.intp), generate


# ---- in words, for structured/_compiled alone ----------------------------------------------------

plus, minus = operator.add, operator.sub


@inner
def fma(a, b, c):
    return a * b + c


@inner
def positive(a):
    return larger(splat(0.0), a)
