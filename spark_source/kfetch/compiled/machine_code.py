"""Machine code of functions that numba compiles: made, checked, linked, and named for the cache.

The functions need nothing of numba's at run time, so kfetch keeps only their object file, and
LLVM's linker (llvmlite) loads it. The name in the cache says the sources, llvmlite, Python and the
CPU. Code that calls any function but LLVM's own is refused.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from kfetch.compiled import cpu
from kfetch.errors import KfetchError

Loop = Callable[..., int]
"""Takes addresses and counts and returns an int64. It runs without the GIL."""

Parameters = Mapping[str, Sequence[str]]
"""The functions' names, and the C types of their parameters."""

_C_TYPES = {"int64": ctypes.c_int64}  # the others are addresses


def name_of(prefix: str, sources: Sequence[Path]) -> str:
    """Returns the name of the cache's file: it names the sources, the compiler and the CPU."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    compiler = (
        llvmlite.__version__,
        sys.version_info[:2],
        llvm.get_process_triple(),
        *cpu.name_and_features(),
    )
    digest.update(repr(compiler).encode())
    return f"{prefix}-{digest.hexdigest()[:32]}.o"


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


def object_file(module_name: str, parameters: Parameters) -> bytes:
    """Returns the object file of a module's functions. It imports numba and takes seconds.

    The module has Python functions with these names.
    """
    loops = import_module(module_name)
    module = llvm.parse_assembly("")
    for name, kinds in parameters.items():
        symbol, text = _compiled(getattr(loops, name), kinds)
        function_module = llvm.parse_assembly(text)
        function_module.get_function(symbol).name = name
        module.link_in(function_module)
    check(module, parameters)
    return bytes(_machine().emit_object(module))


def _compiled(function: Callable[..., Any], parameters: Sequence[str]) -> tuple[str, str]:
    """Returns the symbol of a function, and LLVM's text of all that it needs."""
    from numba import njit, types

    def type_of(parameter: str) -> Any:
        kind = getattr(types, parameter.rstrip("*"))
        return types.CPointer(kind) if parameter.endswith("*") else kind

    signature = tuple(map(type_of, parameters))
    # Without wrappers for Python and C, which would need numba at run time.
    standalone = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
    made = njit(types.int64(*signature), **standalone)(function)
    return made.overloads[signature].fndesc.llvm_func_name, made.inspect_llvm(signature)


def check(module: llvm.ModuleRef, parameters: Parameters) -> None:
    """Raises KfetchError if code calls other code, or if its parameters are others."""
    for function in module.functions:
        if function.is_declaration and not function.name.startswith("llvm."):
            raise KfetchError(f"the compiled record decoder calls {function.name}")
    for name, expected_kinds in parameters.items():
        kinds = [str(argument.type) for argument in module.get_function(name).arguments]
        expected = ["i64" if kind == "int64" else "ptr" for kind in expected_kinds]
        if ["ptr", "ptr", *expected] != kinds:
            raise KfetchError(f"numba calls {name} with ({', '.join(kinds)}): unknown to kfetch")


_engines: list[llvm.ExecutionEngine] = []  # the code lives as long as its engine


def link(code: bytes, parameters: Parameters) -> dict[str, Loop]:
    """Returns the functions of an object file."""
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return {
        name: _bind(engine.get_function_address(name), name, kinds)
        for name, kinds in parameters.items()
    }


def _bind(address: int, name: str, parameters: Sequence[str]) -> Loop:
    """Returns a Python function for the code at an address.

    By numba's convention the code gets two pointers first: for the result and for an exception.
    """
    kinds = [_C_TYPES.get(kind, ctypes.c_void_p) for kind in parameters]
    pointer = ctypes.POINTER(ctypes.c_int64)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, ctypes.c_void_p, *kinds)(address)

    def call(*arguments: int) -> int:
        result = ctypes.c_int64()
        status = function(ctypes.byref(result), None, *arguments)
        if status:  # impossible: the loops raise nothing
            raise KfetchError(f"the compiled record decoder raised exception {status} in {name}")
        return result.value

    return call
