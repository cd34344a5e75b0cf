"""C pointers for the compiled loops, without the checks and reference counts of numba's arrays.

The functions check nothing: the caller has checked the position.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def pointer_from(kind: Any) -> Any:
    """Returns a function from an address to the values of a kind that lie there."""

    @intrinsic
    def cast(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), generate

    return cast


bytes_at = pointer_from(types.uint8)
"""Returns the bytes at an address. Sections lie in many buffers; one call reads them all."""


@intrinsic
def row_of(typing: Any, table: Any, number: Any, width: Any) -> Any:
    """Returns a row of a table that has ``width`` columns."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.gep(args[0], [builder.mul(*args[1:])])

    return table(table, types.int64, types.int64), generate


@intrinsic
def bytes_from(typing: Any, data: Any, at: Any) -> Any:
    """Returns the bytes from a position on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.gep(args[0], [args[1]])

    return data(data, types.int64), generate


@intrinsic
def address_of(typing: Any, data: Any) -> Any:
    """Returns the address of bytes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(args[0], context.get_value_type(signature.return_type))

    return types.int64(data), generate


@intrinsic
def copy(typing: Any, to: Any, to_at: Any, data: Any, at: Any, size: Any) -> Any:
    """Copies with memcpy, which fills the columns eight times as fast as a loop over bytes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target = builder.gep(args[0], [args[1]])
        source = builder.gep(args[2], [args[3]])
        cgutils.raw_memcpy(builder, target, source, args[4], 1)
        return context.get_dummy_value()

    pointer = types.CPointer(types.uint8)
    return types.void(pointer, types.int64, pointer, types.int64, types.int64), generate
