"""The compiled decoders of JSON, Avro and Protobuf, each loaded once per process.

Their code is linked from the code cache, or compiled into it. One thread compiles at a time.
Formats that are loaded already keep nobody waiting.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from importlib import import_module
from pathlib import Path

from kfetch.compiled import code_cache, machine_code
from kfetch.compiled.machine_code import Loop
from kfetch.formats.format import FORMATS, format_of

log = logging.getLogger(__name__)

_SLOW_S = 1.0
_HERE = Path(__file__).parent
_COMMON = ("intrinsics", "layout", "number_loops", "slot_loops")
"""The modules of ``columns`` that the loops of every format use."""
_COMPILED = ("cpu", "machine_code", "pointers")


def sources(name: str) -> tuple[Path, ...]:
    """Returns the files that decide about the machine code of a format."""
    own = ("loops", *format_of(name).loop_modules)
    folder = Path(import_module(FORMATS[name]).__path__[0])
    return (
        *(_HERE.parent / "compiled" / f"{module}.py" for module in _COMPILED),
        *(_HERE / "columns" / f"{module}.py" for module in _COMMON),
        *(folder / f"{module}.py" for module in own),
    )


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
    loop = _linked(name)
    seconds = time.monotonic() - began
    if seconds > _SLOW_S:
        advice = "`kfetch warm` does that when you build an image"
        title = format_of(name).title
        log.warning("the %s decoder was compiled in %.1f s; %s", title, seconds, advice)
    return loop


def _linked(name: str) -> Loop:
    parameters = format_of(name).parameters
    code, _ = code_cache.read_or_make(
        machine_code.name_of(name, sources(name)),
        lambda: machine_code.object_file(f"{FORMATS[name]}.loops", parameters),
        os.environ,
    )
    (loop,) = machine_code.link(code, parameters).values()
    return loop
