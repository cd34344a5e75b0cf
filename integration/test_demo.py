"""The demo itself, short: a job killed midway, and every event counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def test_nothing_is_lost_and_nothing_is_twice(tmp_path: Path) -> None:
    """In an empty directory, ``kfetch demo`` ends with 0 and its numbers add up. It leaves nothing
    but its picture, neither there nor among temporary files."""
    empty, temporary = tmp_path / "empty", tmp_path / "temporary"
    for directory in (empty, temporary):
        directory.mkdir()
    command = [sys.executable, "-m", "kfetch", "demo", "--seconds", "8", "--rate", "5000"]
    done = subprocess.run(
        [*command, "--json", "--picture", "clicks.png"],
        capture_output=True,
        text=True,
        timeout=560,
        cwd=empty,
        env=os.environ | {"TMPDIR": str(temporary)},
    )

    assert 0 == done.returncode, done.stderr
    result = json.loads(done.stdout)
    assert (40_000, 40_000) == (result["produced"], result["in_delta"])
    assert (0, 0) == (result["lost"], result["duplicated"])
    assert result["killed_processes"] >= 3
    # One session at least in each of the job's two lives.
    assert result["sessions_opened"] >= 2
    assert result["records"] >= result["in_delta"]
    assert b"\x89PNG" == (empty / "clicks.png").read_bytes()[:4]
    assert ["clicks.png"] == [path.name for path in empty.iterdir()]
    assert [] == [path.name for path in temporary.glob("kfetch-demo-*")]
