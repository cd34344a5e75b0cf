"""The compiled JSON decoder as a function: linked from the code cache, or compiled into it.

It does for ``values.json_loops`` what ``compiled.native`` does for the record decoder.
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

import llvmlite
import llvmlite.binding as llvm

from kfetch.compiled import code_cache, cpu
from kfetch.errors import KfetchError
from kfetch.values import layout

__all__ = ["load"]

_HERE = Path(__file__).parent
_LOOPS = ("json", "number", "scalar", "skip", "slot", "text", "time")
SOURCES = (
    Path(__file__),
    _HERE / "compiled" / "pointers.py",
    *(_HERE / "values" / f"{name}.py" for name in ("intrinsics", "layout")),
    *(_HERE / "values" / f"{name}_loops.py" for name in _LOOPS),
)
"""The files that decide about the machine code."""

_engines: list[llvm.ExecutionEngine] = []  # the code lives as long as its engine


@cache
def load() -> Callable[..., int]:
    """Returns ``decode_documents``, loaded once per process. It takes addresses and counts."""
    name = _name()
    cached = code_cache.read(name, os.environ)
    code = cached[0] if cached else _compile()
    if not cached:
        code_cache.write(name, code, os.environ)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return _bind(engine.get_function_address("decode_documents"), "decode_documents")


def _name() -> str:
    digest = hashlib.sha256()
    for source in SOURCES:
        digest.update(source.read_bytes())
    processor = cpu.name_and_features()
    compiler = llvmlite.__version__, sys.version_info[:2], llvm.get_process_triple(), *processor
    digest.update(repr(compiler).encode())
    return f"json-{digest.hexdigest()[:32]}.o"


def _machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = cpu.name_and_features()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    reloc = "static" if target.name.startswith("x86") else "default"
    return target.create_target_machine(
        cpu=name, features=features, opt=3, reloc=reloc, codemodel="jitdefault", jit=True
    )


def _compile() -> bytes:
    """Returns the object file. It imports numba and takes seconds."""
    loops = import_module("kfetch.values.json_loops")
    module = llvm.parse_assembly("")
    for name in layout.PARAMETERS:
        symbol, text = loops.compiled(name)
        function_module = llvm.parse_assembly(text)
        function_module.get_function(symbol).name = name
        module.link_in(function_module)
    for function in module.functions:
        if function.is_declaration and not function.name.startswith("llvm."):
            raise KfetchError(f"the compiled JSON decoder calls {function.name}")
    return bytes(_machine().emit_object(module))


def _bind(address: int, name: str) -> Callable[..., int]:
    """Returns a Python function. numba's code gets two pointers first: result and exception."""
    kinds = [
        ctypes.c_int64 if kind == "int64" else ctypes.c_void_p for kind in layout.PARAMETERS[name]
    ]
    pointer = ctypes.POINTER(ctypes.c_int64)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, ctypes.c_void_p, *kinds)(address)

    def call(*arguments: int) -> int:
        result = ctypes.c_int64()
        status = function(ctypes.byref(result), None, *arguments)
        if status:  # impossible: the loops raise nothing
            raise KfetchError(f"the compiled JSON decoder raised exception {status}")
        return result.value

    return call
