"""The compiled decoders of JSON, Avro and Protobuf, each loaded once per process.

Their code is linked from the code cache, or compiled into it. One thread compiles at a time.
Formats that are loaded already keep nobody waiting.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from typing import NamedTuple

from kfetch.compiled import code_cache, machine_code
from kfetch.compiled.machine_code import Loop, Parameters
from kfetch.formats.avro import layout as avro_layout
from kfetch.formats.columns import layout
from kfetch.formats.protobuf import layout as protobuf_layout

__all__ = ["FORMATS", "ValueFormat", "load"]

log = logging.getLogger(__name__)

_SLOW_S = 1.0
_HERE = Path(__file__).parent
_COMMON = ("intrinsics", "layout", "number_loops", "slot_loops")
"""The modules of ``columns`` that every decoder uses."""


class ValueFormat(NamedTuple):
    """A format of values, and the compiled function that decodes it."""

    title: str
    """Its name in log lines."""
    module: str
    """The module that makes the function."""
    parameters: Parameters
    """The function's name, and the C types of its parameters."""
    sources: tuple[Path, ...]
    """The files that decide about the machine code."""


def _format(name: str, title: str, parameters: Parameters, *others: str) -> ValueFormat:
    """``others``: the modules beside ``loops`` that the function uses."""
    compiled = ("cpu", "machine_code", "pointers")
    sources = (
        *(_HERE.parent / "compiled" / f"{module}.py" for module in compiled),
        *(_HERE / "columns" / f"{module}.py" for module in _COMMON),
        *(_HERE / name / f"{module}.py" for module in ("loops", *others)),
    )
    return ValueFormat(title, f"kfetch.formats.{name}.loops", parameters, sources)


FORMATS = {
    "json": _format(
        *("json", "JSON", layout.PARAMETERS),
        *("scalar_loops", "skip_loops", "text_loops", "time_loops"),
    ),
    "avro": _format("avro", "Avro", avro_layout.PARAMETERS, "layout", "scalars", "steps"),
    "protobuf": _format(
        *("protobuf", "Protobuf", protobuf_layout.PARAMETERS),
        *("layout", "row_loops", "text_loops", "wire_loops"),
    ),
}
"""The formats by their names in ``valueFormat``."""

_loaded: dict[str, Loop] = {}
_loading = threading.Lock()


def load(name: str) -> Loop:
    """Returns the decoder of a format: a function with the parameters of its layout.

    The first call may compile for seconds. A warning in the log says so.
    """
    if name not in _loaded:
        with _loading:
            if name not in _loaded:
                _loaded[name] = _timed(name)
    return _loaded[name]


def _timed(name: str) -> Loop:
    began = time.monotonic()
    loop = _linked(name, FORMATS[name])
    seconds = time.monotonic() - began
    if seconds > _SLOW_S:
        advice = "`kfetch warm` does that when you build an image"
        log.warning(
            "the %s decoder was compiled in %.1f s; %s", FORMATS[name].title, seconds, advice
        )
    return loop


def _linked(name: str, chosen: ValueFormat) -> Loop:
    cached = code_cache.read_or_make(
        machine_code.name_of(name, chosen.sources),
        lambda: machine_code.object_file(chosen.module, chosen.parameters),
        os.environ,
    )
    (loop,) = machine_code.link(cached.code, chosen.parameters).values()
    return loop
