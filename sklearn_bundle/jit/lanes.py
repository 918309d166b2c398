"""Explicit vectors of sixteen float32, for products that stay in registers.

LLVM vectorizes loops with registers half as wide as those of AVX-512, keeps the sums of a matrix
product in memory, and before a loop that writes to an array compares its address with those of all
others. Functions that say so also take float64, as the vectors of :mod:`~.vector`. As there, LLVM
splits a vector into the registers that the processor has, bounds are not checked, and negative
indices are wrong.
"""

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, models, register_model

from sklearn_bundle.jit import vector
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


def _of(number):
    """The type of vectors of such numbers."""
    return _vector if number == types.float32 else vector._vector


def _width(of_vector):
    return WIDTH if of_vector == _vector else vector.WIDTH


def _pointer(context, builder, array_type, array, index, kind):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), kind.as_pointer())


@intrinsic
def load(typing_context, array, index):
    """``array[index:index + 16]`` of float32, or eight entries of float64."""
    found = _of(array.dtype)

    def generate(context, builder, signature, arguments):
        kind = context.get_value_type(found)
        value = builder.load(_pointer(context, builder, signature.args[0], *arguments, kind))
        value.align = array.dtype.bitwidth // 8
        return value

    return found(array, types.intp), generate


@intrinsic
def store(typing_context, array, index, values):
    """``array[index:index + 16] = values``, of float32 or float64."""

    def generate(context, builder, signature, arguments):
        array_type, kind = signature.args[0], context.get_value_type(signature.args[2])
        place, index, value = arguments
        pointer = _pointer(context, builder, array_type, place, index, kind)
        builder.store(value, pointer).align = array_type.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(array, types.intp, _of(array.dtype)), generate


@intrinsic
def width_of(typing_context, array):
    """How many entries ``load`` reads."""
    width = _width(_of(array.dtype))

    def generate(context, builder, signature, arguments):
        return context.get_constant(types.intp, width)

    return types.intp(array), generate


@intrinsic
def broadcast(typing_context, array, index):
    """All sixteen equal to ``array[index]``, of float32."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return _splat(builder, builder.load(builder.gep(data, [arguments[1]])), WIDTH)

    return _vector(array, types.intp), generate


@intrinsic
def splat(typing_context, number):
    """All sixteen, or eight, equal to ``number``, of float32 or float64."""
    found = _of(number)

    def generate(context, builder, signature, arguments):
        return _splat(builder, arguments[0], _width(found))

    return found(number), generate


@intrinsic
def where_above(typing_context, a, limit, b, c):
    """b where ``a > limit``, otherwise c: of vectors or numbers of one type."""

    def generate(context, builder, signature, arguments):
        a, limit, b, c = arguments
        return builder.select(builder.fcmp_ordered(">", a, limit), b, c)

    return a(a, a, a, a), generate


@intrinsic
def first_largest(typing_context, values):
    """Place of the largest entry of a vector, the first of equal ones; none is NaN."""
    width = _width(values)

    def generate(context, builder, signature, arguments):
        largest, half = arguments[0], width // 2
        while half:
            mask = [k ^ half for k in range(width)]
            mask = ir.Constant(ir.VectorType(_INT32, width), mask)
            other = builder.shuffle_vector(largest, largest, mask)
            largest = builder.select(builder.fcmp_ordered(">", other, largest), other, largest)
            half //= 2
        equal = builder.fcmp_ordered("==", arguments[0], largest)
        bits = builder.zext(builder.bitcast(equal, ir.IntType(width)), _INT32)
        return builder.zext(builder.cttz(bits, ir.Constant(ir.IntType(1), 1)), ir.IntType(64))

    return types.intp(values), generate


@intrinsic
def entry(typing_context, values, place):
    """The entry of a vector at ``place``."""
    number = types.float32 if values == _vector else types.float64

    def generate(context, builder, signature, arguments):
        return builder.extract_element(*arguments)

    return number(values, types.intp), generate


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
