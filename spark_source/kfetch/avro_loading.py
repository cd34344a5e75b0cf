"""The compiled Avro decoder as a function: linked from the code cache, or compiled into it."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from kfetch.compiled import code_cache, machine_code
from kfetch.compiled.machine_code import Loop
from kfetch.values import avro_layout

__all__ = ["load"]

_HERE = Path(__file__).parent
_MODULES = ("avro_layout", "avro_loops", "avro_scalars", "avro_steps", "intrinsics", "layout",
            "number_loops", "slot_loops")  # fmt: skip
SOURCES = (
    *(_HERE / "compiled" / f"{name}.py" for name in ("cpu", "machine_code", "pointers")),
    *(_HERE / "values" / f"{name}.py" for name in _MODULES),
)
"""The files that decide about the machine code."""


@cache
def load() -> Loop:
    """Returns ``decode_records``, loaded once per process."""
    name = machine_code.name_of("avro", SOURCES)
    cached = code_cache.read(name, os.environ)
    code = cached[0] if cached else machine_code.object_file("kfetch.values.avro_loops",
                                                             avro_layout.PARAMETERS)  # fmt: skip
    code_cache.fill_named_directory(name, code, os.environ)
    if not cached:
        code_cache.write(name, code, os.environ)
    return machine_code.link(code, avro_layout.PARAMETERS)["decode_records"]
