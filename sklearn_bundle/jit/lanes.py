"""Explicit vectors of sixteen float32, for products that stay in registers.

LLVM vectorizes loops with registers half as wide as those of AVX-512, and keeps the sums of a
matrix product in memory. As in :mod:`~.vector`, LLVM splits a vector into
the registers that the processor has, bounds are not checked, and negative indices are wrong.
"""

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, models, register_model

from sklearn_bundle.jit.elementary import _EXP, _LN2_PARTS, _LOG2_E, _LOWEST_SINGLE, _ROUND_SINGLE
from sklearn_bundle.jit.vector import _FUSED, _INT32, _fused, _splat

WIDTH = 16  # float32: one of the widest registers (AVX-512), two or four narrower ones
# Types of LLVM: vectors used in arithmetic, half of one in float64, and integers.
_FLOATS = ir.VectorType(ir.FloatType(), WIDTH)
_DOUBLES = ir.VectorType(ir.DoubleType(), WIDTH // 2)
_INTS = ir.VectorType(_INT32, WIDTH)


class LanesType(types.Type):
    def __init__(self):
        super().__init__(name="VectorOfSingles")


_vector = LanesType()  # in signatures


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, _FLOATS)


def _constant(number):
    return ir.Constant(_FLOATS, [float(number)] * WIDTH)


def _integers(number):
    return ir.Constant(_INTS, [number] * WIDTH)


def _pointer(context, builder, array_type, array, index, kind):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), kind.as_pointer())


@intrinsic
def load(typing_context, array, index):
    """``array[index:index + 16]``, of float32."""

    def generate(context, builder, signature, arguments):
        value = builder.load(_pointer(context, builder, signature.args[0], *arguments, _FLOATS))
        value.align = 4
        return value

    return _vector(array, types.intp), generate


@intrinsic
def store(typing_context, array, index, vector):
    """``array[index:index + 16] = vector``, of float32."""

    def generate(context, builder, signature, arguments):
        array, index, value = arguments
        pointer = _pointer(context, builder, signature.args[0], array, index, _FLOATS)
        builder.store(value, pointer).align = 4
        return context.get_dummy_value()

    return types.void(array, types.intp, _vector), generate


@intrinsic
def broadcast(typing_context, array, index):
    """All sixteen equal to ``array[index]``, of float32."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return _splat(builder, builder.load(builder.gep(data, [arguments[1]])), WIDTH)

    return _vector(array, types.intp), generate


@intrinsic
def splat(typing_context, number):
    """All sixteen equal to ``number``."""

    def generate(context, builder, signature, arguments):
        return _splat(builder, arguments[0], WIDTH)

    return _vector(types.float32), generate


@intrinsic
def decay(typing_context, product, scale, left, right):
    """``exp(min(scale * product - (left + right), 0))``; 0 if that is not a normal number.

    A NaN in the exponent counts as 0.
    """

    def generate(context, builder, signature, arguments):
        product, scale, left, right = arguments
        zero, lowest = _constant(0.0), _constant(_LOWEST_SINGLE)
        rounding = _constant(_ROUND_SINGLE)
        norms = builder.fadd(left, right)
        x = builder.fsub(builder.fmul(scale, product, flags=_FUSED), norms, flags=_FUSED)
        x = builder.select(builder.fcmp_ordered("<", x, zero), x, zero)
        clipped = builder.select(builder.fcmp_ordered(">", x, lowest), x, lowest)
        shifted = _fused(builder, clipped, _constant(_LOG2_E), rounding)
        k = builder.fsub(shifted, rounding)
        r = clipped
        for part in _LN2_PARTS:
            r = _fused(builder, k, _constant(-part), r)
        p = _constant(_EXP[0])
        for coefficient in (*_EXP[1:], 1.0, 1.0):
            p = _fused(builder, p, r, _constant(coefficient))
        bits = builder.add(builder.bitcast(shifted, _INTS), _integers(127))
        power = builder.bitcast(builder.shl(bits, _integers(23)), _FLOATS)
        value = builder.fmul(p, power)
        return builder.select(builder.fcmp_ordered("<", x, lowest), zero, value)

    return _vector(_vector, _vector, _vector, _vector), generate


@intrinsic
def add_to(typing_context, array, index, vector, unit):
    """``array[index:index + 16] += unit * vector``; array and unit are float64."""

    def generate(context, builder, signature, arguments):
        array, index, vector, unit = arguments
        half = WIDTH // 2
        factor = _splat(builder, unit, half)
        for first in (0, half):
            at = builder.add(index, ir.Constant(index.type, first))
            pointer = _pointer(context, builder, signature.args[0], array, at, _DOUBLES)
            mask = ir.Constant(ir.VectorType(_INT32, half), [first + k for k in range(half)])
            part = builder.fpext(builder.shuffle_vector(vector, vector, mask), _DOUBLES)
            value = builder.load(pointer)
            value.align = 8
            builder.store(_fused(builder, factor, part, value), pointer).align = 8
        return context.get_dummy_value()

    return types.void(array, types.intp, _vector, types.float64), generate
