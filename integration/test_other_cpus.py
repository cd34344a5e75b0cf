"""The record decoder on other CPUs: code without special instructions, and with narrower ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = ("compiled", "records/test_decode.py", "records/test_corrupt.py", "records/test_fuzz.py")


FEATURES = {"generic": "", "haswell": "+sse4.2,+pclmul,+avx2"}


@pytest.mark.integration
@pytest.mark.long
@pytest.mark.parametrize("cpu", FEATURES)
def test_decoder_for(cpu: str, tmp_path: Path) -> None:
    """Code for all CPUs, and code without AVX-512, pass the decoder's tests on this machine."""
    environ = os.environ | {"NUMBA_CPU_NAME": cpu, "KFETCH_CACHE": str(tmp_path)}
    environ |= {"NUMBA_CPU_FEATURES": FEATURES[cpu]}
    command = [sys.executable, "-m", "pytest", "-q", *(f"tests/kfetch/{name}" for name in TESTS)]
    ran = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=600, check=False
    )

    assert 0 == ran.returncode, ran.stdout[-3000:]
