"""The compiled loops as functions, loaded from the code cache or compiled and written to it.

Importing numba and its cached kernels takes 1.2 s of CPU, which the first micro-batch can't spare.
The functions that numba compiles here need nothing of numba's at run time. So kfetch keeps only the
machine code, and LLVM's linker (llvmlite) loads it. The cache's key names the sources, llvmlite,
Python and the CPU. ``load`` refuses code that calls any function but LLVM's own.
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
"""Takes addresses and counts and returns an int64. It runs without the GIL."""

_HERE = Path(__file__).parent
_COMPILED = ("cpu", "crc", "grammar", "layout", "listing", "loops", "native", "pointers")
SOURCES = (*(_HERE / f"{name}.py" for name in _COMPILED), _HERE.parent / "records" / "format.py")
"""The files that decide about the machine code."""

_C_TYPES = {"int64": ctypes.c_int64}  # the others are addresses


class Loops(NamedTuple):
    """The compiled functions, and the origin of their code."""

    list_batches: Loop
    walk_batches: Loop
    fill_rows: Loop
    fill_constants: Loop
    fill_headers: Loop
    compiled: bool
    """Whether this process compiled them, because no cached code fits the sources and the CPU."""
    directory: str
    """The directory with the cached code; empty if no directory can hold it."""
    named_directory_problem: str
    """Why the directory that KFETCH_CACHE names can't hold it; empty if it can."""


@cache
def load() -> Loops:
    """Returns the functions of ``loops``, loaded once per process."""
    name = _name()
    cached = code_cache.read(name, os.environ)
    code = cached[0] if cached else _compile()
    problem = code_cache.fill_named_directory(name, code, os.environ)
    directory = cached[1] if cached else code_cache.write(name, code, os.environ)
    return Loops(
        **_link(code),
        compiled=cached is None,
        directory=str(directory or ""),
        named_directory_problem=problem,
    )


def cache_directory() -> str:
    """Returns the directory with code for ``load``; empty if ``load`` must compile."""
    cached = code_cache.read(_name(), os.environ)
    return str(cached[1]) if cached else ""


def _name() -> str:
    """Returns the name of the cache's file: it names the sources, the compiler and the CPU."""
    digest = hashlib.sha256()
    for source in SOURCES:
        digest.update(source.read_bytes())
    compiler = (
        llvmlite.__version__,
        sys.version_info[:2],
        llvm.get_process_triple(),
        *cpu.name_and_features(),
    )
    digest.update(repr(compiler).encode())
    return f"loops-{digest.hexdigest()[:32]}.o"


def _machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = cpu.name_and_features()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    # As numba does it: MCJIT needs static relocation on x86.
    reloc = "static" if target.name.startswith("x86") else "default"
    return target.create_target_machine(
        cpu=name, features=features, opt=3, reloc=reloc, codemodel="jitdefault", jit=True
    )


def _compile() -> bytes:
    """Returns the object file of the functions. It imports numba and takes seconds."""
    loops = import_module("kfetch.compiled.loops")
    module = llvm.parse_assembly("")
    for name in layout.PARAMETERS:
        symbol, text = loops.compiled(name)
        function_module = llvm.parse_assembly(text)
        function_module.get_function(symbol).name = name
        module.link_in(function_module)
    _check(module)
    return bytes(_machine().emit_object(module))


def _check(module: llvm.ModuleRef) -> None:
    """Raises KfetchError if code calls other code, or if its parameters don't fit ``_bind``."""
    for function in module.functions:
        if function.is_declaration and not function.name.startswith("llvm."):
            raise KfetchError(f"the compiled record decoder calls {function.name}")
    for name, parameters in layout.PARAMETERS.items():
        kinds = [str(argument.type) for argument in module.get_function(name).arguments]
        expected = ["i64" if kind == "int64" else "ptr" for kind in parameters]
        if ["ptr", "ptr", *expected] != kinds:
            raise KfetchError(f"numba calls {name} with ({', '.join(kinds)}): unknown to kfetch")


_engines: list[llvm.ExecutionEngine] = []  # the code lives as long as its engine


def _link(code: bytes) -> dict[str, Loop]:
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return {name: _bind(engine.get_function_address(name), name) for name in layout.PARAMETERS}


def _bind(address: int, name: str) -> Loop:
    """Returns a Python function for the code at an address.

    By numba's convention the code gets two pointers first: for the result and for an exception.
    """
    kinds = [_C_TYPES.get(kind, ctypes.c_void_p) for kind in layout.PARAMETERS[name]]
    pointer = ctypes.POINTER(ctypes.c_int64)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, ctypes.c_void_p, *kinds)(address)

    def call(*arguments: int) -> int:
        result = ctypes.c_int64()
        status = function(ctypes.byref(result), None, *arguments)
        if status:  # impossible: the loops raise nothing
            raise KfetchError(f"the compiled record decoder raised exception {status} in {name}")
        return result.value

    return call
