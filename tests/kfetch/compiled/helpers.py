"""Helpers for tests of the compiled code."""

from __future__ import annotations

import os
from pathlib import Path


def cache_environ(tmp_path: Path) -> dict[str, str]:
    """Returns an environment with the code cache below ``tmp_path`` and this process's CPU."""
    cpu = {name: value for name, value in os.environ.items() if name.startswith("NUMBA_CPU_")}
    return cpu | {"KFETCH_CACHE": str(tmp_path / "cache")}
