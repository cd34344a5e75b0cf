"""The CPU for which machine code is made: numba's choice, with numba's environment variables.

If LLVM does not know the CPU's instructions, kfetch uses none of the special ones.
"""

from __future__ import annotations

import os

import llvmlite.binding as llvm


def name_and_features() -> tuple[str, str]:
    """Returns the CPU's name and features in LLVM's spelling: ``znver4``, ``+sse4.2,-sha512,…``."""
    name = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    if "NUMBA_CPU_FEATURES" in os.environ:
        return name, os.environ["NUMBA_CPU_FEATURES"]
    return name, "" if name.lower() == "generic" else llvm.get_host_cpu_features().flatten()


def crc_lanes() -> int:
    """Returns how many 64-bit numbers the CPU multiplies without carries at once; 0 if it can't."""
    features = set(name_and_features()[1].split(","))
    if not {"+sse4.2", "+pclmul"} <= features:
        return 0
    if {"+avx512f", "+vpclmulqdq"} <= features:
        return 8
    return 4 if {"+avx2", "+vpclmulqdq"} <= features else 2
