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

WIDTH, BYTES = 8, 64  # entries of float64, or ``BYTES // array.itemsize`` of an array
_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_FRACTION = {types.float32: 23, types.float64: 52}  # bits of a number behind its exponent


class Vector(types.Type):
    def __init__(self, dtype):
        self.dtype, self.width = dtype, 8 * BYTES // dtype.bitwidth
        super().__init__(f"Vector({dtype})")


@register_model(Vector)
def _model(manager, kind):
    number = manager.lookup(kind.dtype).get_value_type()
    return models.PrimitiveModel(manager, kind, ir.VectorType(number, kind.width))


def _pointer(context, builder, array_type, array, index):
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [index])


def _splat(builder, number, width):
    undefined = ir.Constant(ir.VectorType(number.type, width), ir.Undefined)
    one = builder.insert_element(undefined, number, _INT32(0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_INT32, width), None))


# ---- memory --------------------------------------------------------------------------------------


def _load(small):
    def load(typing_context, array, index):
        kind = Vector(array.dtype)

        def generate(context, builder, signature, arguments):
            if small:
                builder.function.attributes.add("optsize")
            place = _pointer(context, builder, signature.args[0], *arguments)
            value = builder.load(builder.bitcast(place, context.get_value_type(kind).as_pointer()))
            value.align = array.dtype.bitwidth // 8
            return value

        return kind(array, types.intp), generate

    return intrinsic(load)


# The first also has the function that calls it compiled for size: LLVM unrolls no loops there.
load, load_fast = _load(True), _load(False)


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
        kind = ir.FunctionType(ir.VoidType(), [place.type, _INT32, _INT32, _INT32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        # Read, keep in cache; data, not instructions.
        builder.call(function, [place, _INT32(0), _INT32(3), _INT32(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


# ---- entry by entry ------------------------------------------------------------------------------
# Numbers stand for vectors of equal entries, if they are of the same type.


def _common(*kinds):
    """The type of a result; None unless there is a vector, and numbers of its kind."""
    found = [kind for kind in kinds if isinstance(kind, Vector)]
    return found[0] if found and set(kinds) <= {found[0], found[0].dtype} else None


def _alike(builder, signature, arguments):
    kinds, width = signature.args, getattr(signature.return_type, "width", None)
    return [
        _splat(builder, x, width) if width and not isinstance(kind, Vector) else x
        for kind, x in zip(kinds, arguments, strict=True)
    ]


def _define(symbol, instruction):
    def generate(context, builder, signature, arguments):
        a, b = _alike(builder, signature, arguments)
        return getattr(builder, instruction)(a, b, flags=("contract",))

    type_callable(symbol)(lambda context: lambda a, b: _common(a, b))
    for kinds in ((Vector, Vector), (Vector, types.Float), (types.Float, Vector)):
        lower_builtin(symbol, *kinds)(generate)


_define(operator.add, "fadd")
_define(operator.sub, "fsub")
_define(operator.mul, "fmul")
_define(operator.truediv, "fdiv")


@intrinsic
def where_above(typing_context, a, limit, b, c):
    """b where ``a > limit``, otherwise c."""

    def generate(context, builder, signature, arguments):
        a, limit, b, c = _alike(builder, signature, arguments)
        return builder.select(builder.fcmp_ordered(">", a, limit), b, c)

    kinds = a, limit, b, c
    return (_common(*kinds) or a)(*kinds), generate


@inner
def larger(a, b):
    """``max(a, b)``; b where either is NaN."""
    return where_above(a, b, a, b)


@intrinsic
def power_of_two(typing_context, shifted):
    """``2^k``, for ``k + 1.5 * 2^p`` with p fraction bits: k stands in the low bits of the sum."""
    number, width = getattr(shifted, "dtype", shifted), getattr(shifted, "width", None)
    fraction, integer = _FRACTION[number], ir.IntType(number.bitwidth)
    bias = 2 ** (number.bitwidth - fraction - 2) - 1

    def generate(context, builder, signature, arguments):
        kind = ir.VectorType(integer, width) if width else integer
        up, shift = (ir.Constant(kind, [k] * width if width else k) for k in (bias, fraction))
        bits = builder.add(builder.bitcast(arguments[0], kind), up)
        return builder.bitcast(builder.shl(bits, shift), arguments[0].type)

    return shifted(shifted), generate


# ---- all entries ---------------------------------------------------------------------------------


def _folded(builder, value, width, join):
    half = width // 2
    while half:
        mask = ir.Constant(ir.VectorType(_INT32, width), [k ^ half for k in range(width)])
        other = builder.shuffle_vector(value, value, mask)
        value, half = join(builder, value, other), half // 2
    return value


def _larger(builder, a, b):
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _of_all(join):
    @intrinsic
    def reduced(typing_context, vector):
        def generate(context, builder, signature, arguments):
            value = _folded(builder, arguments[0], vector.width, join)
            return builder.extract_element(value, _INT32(0))

        return vector.dtype(vector), generate

    return reduced


total = _of_all(lambda builder, a, b: builder.fadd(a, b))  # in pairs
largest = _of_all(_larger)  # none is NaN


@intrinsic
def first_largest(typing_context, vector):
    """Place of the largest entry, the first of equal ones; none is NaN."""

    def generate(context, builder, signature, arguments):
        value = _folded(builder, arguments[0], vector.width, _larger)
        equal = builder.fcmp_ordered("==", arguments[0], value)
        bits = builder.zext(builder.bitcast(equal, ir.IntType(vector.width)), _INT32)
        return builder.zext(builder.cttz(bits, ir.Constant(ir.IntType(1), 1)), _INT64)

    return types.intp(vector), generate


@intrinsic
def entry(typing_context, vector, place):
    def generate(context, builder, signature, arguments):
        return builder.extract_element(*arguments)

    return vector.dtype(vector, types.intp), generate
