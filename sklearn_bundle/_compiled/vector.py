"""Explicit vectors of eight doubles, for rows that are short and of unknown length.

LLVM vectorises a loop for rows of 32 and more and leaves the rest to scalar code; a row of 22
labels, padded to 24, is all rest. With these it is three vector operations on any processor, since
LLVM splits a vector into registers of the size that there are.

Nothing checks bounds, and negative indices are wrong: ``load(array, i)`` reads ``array[i:i + 8]``
of a contiguous one-dimensional array.
"""

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, models, register_model

WIDTH = 8
_DOUBLES = ir.VectorType(ir.DoubleType(), WIDTH)
_FLOATS = ir.VectorType(ir.FloatType(), WIDTH)
_INT32 = ir.IntType(32)
_FUSED = ("contract",)  # a product and a sum may round once


class VectorType(types.Type):
    def __init__(self):
        super().__init__(name="VectorOfDoubles")


_vector = VectorType()


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, _DOUBLES)


def _pointer(context, builder, array_type, array, index):
    data = context.make_array(array_type)(context, builder, array).data
    stored = _FLOATS if array_type.dtype == types.float32 else _DOUBLES
    pointer = builder.bitcast(builder.gep(data, [index]), stored.as_pointer())
    return pointer, array_type.dtype.bitwidth // 8


def _splat(builder, number):
    undefined = ir.Constant(_DOUBLES, ir.Undefined)
    one = builder.insert_element(undefined, number, _INT32(0))
    mask = ir.Constant(ir.VectorType(_INT32, WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(one, undefined, mask)


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


@intrinsic
def fma(typing_context, a, b, c):
    """``a * b + c``."""

    def generate(context, builder, signature, arguments):
        a, b, c = arguments
        return builder.fadd(builder.fmul(a, b, flags=_FUSED), c, flags=_FUSED)

    return _vector(_vector, _vector, _vector), generate


@intrinsic
def times(typing_context, a, b):
    """``a * b``."""

    def generate(context, builder, signature, arguments):
        return builder.fmul(*arguments, flags=_FUSED)

    return _vector(_vector, _vector), generate


@intrinsic
def plus(typing_context, a, b):
    """``a + b``."""

    def generate(context, builder, signature, arguments):
        return builder.fadd(*arguments, flags=_FUSED)

    return _vector(_vector, _vector), generate


@intrinsic
def minus(typing_context, a, b):
    """``a - b``."""

    def generate(context, builder, signature, arguments):
        return builder.fsub(*arguments, flags=_FUSED)

    return _vector(_vector, _vector), generate


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
def transpose(typing_context, source, i, target, j, width):
    """The block of 8 x 8 at ``source[i]``, transposed, to ``target[j]``; rows ``width`` apart."""

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
