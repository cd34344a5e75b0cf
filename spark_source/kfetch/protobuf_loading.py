"""The compiled Protobuf decoder as a function: linked from the code cache, or compiled into it."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from kfetch.compiled import code_cache, machine_code
from kfetch.compiled.machine_code import Loop
from kfetch.values import protobuf_layout

__all__ = ["load"]

_HERE = Path(__file__).parent
_LOOPS = ("number", "slot", "protobuf", "protobuf_row", "protobuf_text", "protobuf_wire")
SOURCES = (
    *(_HERE / "compiled" / f"{name}.py" for name in ("cpu", "machine_code", "pointers")),
    *(_HERE / "values" / f"{name}.py" for name in ("intrinsics", "layout", "protobuf_layout")),
    *(_HERE / "values" / f"{name}_loops.py" for name in _LOOPS),
)
"""The files that decide about the machine code."""


@cache
def load() -> Loop:
    """Returns ``decode_messages``, loaded once per process."""
    name = machine_code.name_of("protobuf", SOURCES)
    cached = code_cache.read(name, os.environ)
    parameters = protobuf_layout.PARAMETERS
    module = "kfetch.values.protobuf_loops"
    code = cached[0] if cached else machine_code.object_file(module, parameters)
    code_cache.fill_named_directory(name, code, os.environ)
    if not cached:
        code_cache.write(name, code, os.environ)
    return machine_code.link(code, parameters)["decode_messages"]
