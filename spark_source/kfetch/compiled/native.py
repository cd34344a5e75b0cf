"""The compiled loops as functions: taken from the cache, or compiled and kept there.

Importing numba and its cached kernels takes 1.2 s of CPU, more than the first micro-batch has to
spare. What numba compiles here needs nothing of numba's at run time, so only the machine code
is kept, and LLVM's linker (llvmlite) loads it. It refuses code that was made from other sources, by
another llvmlite or Python, or for another CPU, and to keep code that calls anything but memcpy.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import llvmlite
import llvmlite.binding as llvm

from kfetch.compiled import code_cache, cpu, layout
from kfetch.errors import KfetchError

__all__ = ["Loops", "cache_directory", "load"]

Loop = Callable[..., int]
"""Addresses and counts in, an int64 out; without the GIL."""

_SOURCES = tuple(
    f"{name}.py"
    for name in ["cpu", "crc", "grammar", "layout", "listing", "loops", "native", "pointers"]
)
_C_TYPES = {"int64": ctypes.c_int64}  # the others are addresses


class Loops(NamedTuple):
    """The compiled functions, and where they came from."""

    list_batches: Loop
    fill_rows: Loop
    fill_constants: Loop
    fill_headers: Loop
    compiled: bool
    """Whether this process had to, for want of a cache that fits these sources and this CPU."""
    directory: str
    """Where the code is kept; empty if nowhere."""


@cache
def load() -> Loops:
    """The functions of ``loops``, once per process."""
    found = code_cache.read(_name(), os.environ)
    if found is None:
        code = _compile()
        directory = code_cache.write(_name(), code, os.environ)
    else:
        code, directory = found
    functions = _link(code)
    return Loops(**functions, compiled=found is None, directory=str(directory or ""))


def cache_directory() -> str:
    """Where the compiled functions are kept; empty if they are not, and ``load`` will compile."""
    found = code_cache.read(_name(), os.environ)
    return str(found[1]) if found else ""


def _name() -> str:
    """The file in the cache: what is compiled, by what, for what."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for source in _SOURCES:
        digest.update((here / source).read_bytes())
    maker = (
        llvmlite.__version__,
        sys.version_info[:2],
        llvm.get_process_triple(),
        *cpu.name_and_features(),
    )
    digest.update(repr(maker).encode())
    return f"loops-{digest.hexdigest()[:32]}.o"


def _machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = cpu.name_and_features()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    # As numba makes its own: MCJIT needs static relocation on x86.
    reloc = "static" if target.name.startswith("x86") else "default"
    return target.create_target_machine(
        cpu=name, features=features, opt=3, reloc=reloc, codemodel="jitdefault", jit=True
    )


def _compile() -> bytes:
    """The object file of the functions. Imports numba; takes seconds."""
    loops = import_module("kfetch.compiled.loops")
    module = llvm.parse_assembly("")
    for name in layout.PARAMETERS:
        symbol, text = loops.compiled(name)
        part = llvm.parse_assembly(text)
        part.get_function(symbol).name = name
        module.link_in(part)
    _check(module)
    return bytes(_machine().emit_object(module))


def _check(module: llvm.ModuleRef) -> None:
    """Refuse what would not stand alone, or be called otherwise than ``_bind`` does it."""
    for function in module.functions:
        if function.is_declaration and not function.name.startswith("llvm."):
            raise KfetchError(f"the compiled record decoder calls {function.name}")
    for name, parameters in layout.PARAMETERS.items():
        kinds = [str(each.type) for each in module.get_function(name).arguments]
        expected = ["i64" if each == "int64" else "ptr" for each in parameters]
        if ["ptr", "ptr", *expected] != kinds:
            raise KfetchError(f"numba calls {name} with ({', '.join(kinds)}): unknown to kfetch")


_engines: list[llvm.ExecutionEngine] = []  # code lives as long as its engine


def _link(code: bytes) -> dict[str, Loop]:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return {name: _bind(engine.get_function_address(name), name) for name in layout.PARAMETERS}


def _bind(address: int, name: str) -> Loop:
    """A Python function. numba's own convention: a place for the result, one for an exception."""
    kinds = [_C_TYPES.get(each, ctypes.c_void_p) for each in layout.PARAMETERS[name]]
    pointer = ctypes.POINTER(ctypes.c_int64)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, ctypes.c_void_p, *kinds)(address)

    def call(*arguments: int) -> int:
        result = ctypes.c_int64()
        status = function(ctypes.byref(result), None, *arguments)
        if status:  # can't be: the loops raise nothing
            raise KfetchError(f"the compiled record decoder raised exception {status} in {name}")
        return result.value

    return call
