"""Reads the files of Protobuf types on the driver, which sends their bytes to the tasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kfetch.errors import OptionError
from kfetch.options import ProtobufColumn, SourceOptions

__all__ = ["with_descriptors"]

BYTES_MAX = 8 << 20
"""Bytes of a file. Each task sends two of them at most, in a message to its agent."""


def with_descriptors(options: SourceOptions) -> SourceOptions:
    """Return the options with the bytes of the files that they name. Raises OptionError."""
    loaded = tuple(
        replace(typed, descriptors=_read(typed))
        if isinstance(typed, ProtobufColumn) and typed.path and not typed.descriptors
        else typed
        for typed in options.typed_columns
    )
    return replace(options, typed_columns=loaded)


def _read(typed: ProtobufColumn) -> bytes:
    name = f"{typed.column}Descriptor"
    try:
        with Path(typed.path).open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as problem:
        raise OptionError(
            f"the file of option {name} can't be read on the driver: {typed.path}: "
            f"{problem.strerror}",
            action="set it to a file that `protoc --descriptor_set_out` wrote",
            option=name,
        ) from None
    if len(data) > BYTES_MAX:
        raise OptionError(
            f"the file of option {name} has more than {BYTES_MAX >> 20} MiB: {typed.path}",
            action="write one with only the files that the message needs",
            option=name,
        )
    return data
