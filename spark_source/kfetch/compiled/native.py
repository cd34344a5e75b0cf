"""The compiled loops as functions, loaded from the code cache or compiled and written to it.

Importing numba and its cached kernels takes 1.2 s of CPU, which the first micro-batch can't spare.
So kfetch keeps their machine code (``machine_code``), which needs nothing of numba's.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kfetch.compiled import code_cache, interface, machine_code
from kfetch.compiled.code_cache import CodeOrigin
from kfetch.compiled.machine_code import Loop

_HERE = Path(__file__).parent
_COMPILED = ("cpu", "crc", "grammar", "interface", "listing", "loops", "machine_code",
             "native", "pointers")  # fmt: skip
SOURCES = (*(_HERE / f"{name}.py" for name in _COMPILED), _HERE.parent / "records" / "format.py")
"""The files that decide about the machine code."""


class Loops(NamedTuple):
    """The compiled functions, and the origin of their code."""

    list_batches: Loop
    walk_batches: Loop
    fill_rows: Loop
    fill_constants: Loop
    fill_headers: Loop
    origin: CodeOrigin


@cache
def load() -> Loops:
    """Returns the functions of ``loops``, loaded once per process."""
    code, origin = code_cache.read_or_make(code_name(), _compile, os.environ)
    return Loops(**machine_code.link(code, interface.PARAMETERS), origin=origin)


def cache_directory() -> str:
    """Returns the directory with code for ``load``; empty if ``load`` must compile."""
    cached = code_cache.read(code_name(), os.environ)
    return str(cached[1]) if cached else ""


def code_name() -> str:
    """Returns the name of the file that holds this code for this machine."""
    return machine_code.name_of("loops", SOURCES)


def _compile() -> bytes:
    """Returns the object file of the functions. It imports numba and takes seconds."""
    return machine_code.object_file("kfetch.compiled.loops", interface.PARAMETERS)
