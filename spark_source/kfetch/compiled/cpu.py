"""The CPU that machine code is made for: numba's choice, and its variables.

It refuses to guess: a CPU whose instructions LLVM can't tell has none of the special ones.
"""

from __future__ import annotations

import os

import llvmlite.binding as llvm

__all__ = ["crc_lanes", "name_and_features"]


def name_and_features() -> tuple[str, str]:
    """As LLVM spells them: ``znver4`` and ``+sse4.2,-sha512,…``."""
    name = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    if "NUMBA_CPU_FEATURES" in os.environ:
        return name, os.environ["NUMBA_CPU_FEATURES"]
    return name, "" if name.lower() == "generic" else llvm.get_host_cpu_features().flatten()


def crc_lanes() -> int:
    """How many 64-bit numbers are multiplied without carries at once, for CRCs; 0 if it can't."""
    found = set(name_and_features()[1].split(","))
    if not {"+sse4.2", "+pclmul"} <= found:
        return 0
    if {"+avx512f", "+vpclmulqdq"} <= found:
        return 8
    return 4 if {"+avx2", "+vpclmulqdq"} <= found else 2
