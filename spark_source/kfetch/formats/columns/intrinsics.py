"""How the loops are compiled, and machine operations that numba has no words for.

Nothing here checks a position. ``data`` may be read up to 15 bytes behind the position.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from kfetch.compiled.pointers import bytes_at, pointer_from

inlined = njit(forceinline=True, error_model="numpy")
called = njit(error_model="numpy")

_I8, _I64 = ir.IntType(8), ir.IntType(64)
_VECTOR = ir.VectorType(_I8, 16)


at_address = bytes_at
"""Returns the bytes at an address."""
int32s = pointer_from(types.int32)
"""Returns the 32-bit numbers at an address."""
int64s = pointer_from(types.int64)
"""Returns the 64-bit numbers at an address."""


def _loaded(builder: Any, pointer: Any, at: Any, kind: Any) -> Any:
    typed = builder.bitcast(builder.gep(pointer, [at]), kind.as_pointer())
    return builder.load(typed, align=1)


@intrinsic
def word(typing: Any, data: Any, at: Any) -> Any:
    """Returns eight bytes at a position as a number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _loaded(builder, args[0], args[1], _I64)

    return types.int64(data, types.int64), generate


@intrinsic
def special16(typing: Any, data: Any, at: Any) -> Any:
    """Returns a bit for each of 16 bytes that ends plain text: quotes, backslashes, controls."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        text = _loaded(builder, args[0], args[1], _VECTOR)
        quote = builder.icmp_unsigned("==", text, ir.Constant(_VECTOR, [ord('"')] * 16))
        backslash = builder.icmp_unsigned("==", text, ir.Constant(_VECTOR, [ord("\\")] * 16))
        control = builder.icmp_unsigned("<", text, ir.Constant(_VECTOR, [32] * 16))
        bits = builder.or_(builder.or_(quote, backslash), control)
        return builder.zext(builder.bitcast(bits, ir.IntType(16)), _I64)

    return types.int64(data, types.int64), generate


@intrinsic
def high_bits16(typing: Any, data: Any, at: Any) -> Any:
    """Returns a bit for each of 16 bytes that is not ASCII."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        text = _loaded(builder, args[0], args[1], _VECTOR)
        bits = builder.icmp_signed("<", text, ir.Constant(_VECTOR, [0] * 16))
        return builder.zext(builder.bitcast(bits, ir.IntType(16)), _I64)

    return types.int64(data, types.int64), generate


@intrinsic
def copy16(typing: Any, to: Any, to_at: Any, data: Any, at: Any) -> Any:
    """Copies 16 bytes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        text = _loaded(builder, args[2], args[3], _VECTOR)
        target = builder.bitcast(builder.gep(args[0], [args[1]]), _VECTOR.as_pointer())
        builder.store(text, target, align=1)
        return context.get_dummy_value()

    return types.void(to, types.int64, data, types.int64), generate


def _counting(name: str) -> Any:
    @intrinsic
    def count(typing: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = ir.FunctionType(_I64, [_I64, ir.IntType(1)])
            function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.i64")
            return builder.call(function, [args[0], ir.Constant(ir.IntType(1), 0)])

        return types.int64(types.int64), generate

    return count


trailing_zeros = _counting("cttz")
"""Returns the number of zero bits below the lowest set bit."""
leading_zeros = _counting("ctlz")
"""Returns the number of zero bits above the highest set bit."""


@intrinsic
def high_product(typing: Any, a: Any, b: Any) -> Any:
    """Returns the upper 64 bits of the product of two unsigned numbers."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(arg, wide) for arg in args))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), _I64)

    return types.uint64(types.uint64, types.uint64), generate


def _cast(source: Any, target: Any) -> Any:
    @intrinsic
    def cast(typing: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], context.get_value_type(signature.return_type))

        return target(source), generate

    return cast


float_from_bits = _cast(types.int64, types.float64)
"""Returns the float64 with these bits."""
float_to_bits = _cast(types.float64, types.int64)
"""Returns the bits of a float64."""
single_to_bits = _cast(types.float32, types.int32)
"""Returns the bits of a float32."""
single_from_bits = _cast(types.int32, types.float32)
"""Returns the float32 with these bits."""
