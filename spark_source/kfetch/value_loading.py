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
from kfetch.values import avro_layout, layout, protobuf_layout

__all__ = ["FORMATS", "ValueFormat", "load"]

log = logging.getLogger(__name__)

_SLOW_S = 1.0
_HERE = Path(__file__).parent
_COMMON = (
    *(_HERE / "compiled" / f"{name}.py" for name in ("cpu", "machine_code", "pointers")),
    *(_HERE / "values" / f"{name}.py" for name in ("intrinsics", "layout")),
)


class ValueFormat(NamedTuple):
    """A format of values, and the compiled function that decodes it."""

    title: str
    """Its name in log lines."""
    module: str
    """The module of ``kfetch.values`` that makes the function."""
    parameters: Parameters
    """The function's name, and the C types of its parameters."""
    sources: tuple[Path, ...]
    """The files that decide about the machine code."""


def _format(title: str, module: str, parameters: Parameters, *others: str) -> ValueFormat:
    """``others``: the other modules of ``kfetch.values`` that the function uses."""
    sources = (*_COMMON, *(_HERE / "values" / f"{name}.py" for name in (module, *others)))
    return ValueFormat(title, module, parameters, sources)


FORMATS = {
    "json": _format(
        *("JSON", "json_loops", layout.PARAMETERS),
        *("number_loops", "scalar_loops", "skip_loops", "slot_loops", "text_loops", "time_loops"),
    ),
    "avro": _format(
        *("Avro", "avro_loops", avro_layout.PARAMETERS),
        *("avro_layout", "avro_scalars", "avro_steps", "number_loops", "slot_loops"),
    ),
    "protobuf": _format(
        *("Protobuf", "protobuf_loops", protobuf_layout.PARAMETERS),
        *("protobuf_layout", "protobuf_row_loops", "protobuf_text_loops", "protobuf_wire_loops"),
        *("number_loops", "slot_loops"),
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
        lambda: machine_code.object_file(f"kfetch.values.{chosen.module}", chosen.parameters),
        os.environ,
    )
    (loop,) = machine_code.link(cached.code, chosen.parameters).values()
    return loop
