"""Reads files of types on the driver, which sends their bytes to the tasks."""

from __future__ import annotations

from pathlib import Path

from kfetch.errors import OptionError

BYTES_MAX = 8 << 20
"""Bytes of a file. Each task sends two of them at most, in a message to its agent."""


def read_types(path: str, option: str) -> bytes:
    """Returns the bytes of a file of types, which an option names. Raises OptionError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as problem:
        raise OptionError(
            f"the file of option {option} can't be read on the driver: {path}: {problem.strerror}",
            action="set it to a file that `protoc --descriptor_set_out` wrote",
            option=option,
        ) from None
    if len(data) > BYTES_MAX:
        raise OptionError(
            f"the file of option {option} has more than {BYTES_MAX >> 20} MiB: {path}",
            action="write one with only the files that the message needs",
            option=option,
        )
    return data
