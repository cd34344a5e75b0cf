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
    """``kfetch demo`` ends with 0, its numbers add up, and it leaves nothing but its picture."""
    picture = tmp_path / "clicks.png"
    places = tmp_path / "temporary"
    places.mkdir()
    command = [sys.executable, "-m", "kfetch", "demo", "--seconds", "8", "--rate", "5000"]
    done = subprocess.run(
        [*command, "--json", "--picture", str(picture)],
        capture_output=True,
        text=True,
        timeout=560,
        env=os.environ | {"TMPDIR": str(places)},
    )

    assert 0 == done.returncode, done.stderr
    told = json.loads(done.stdout)
    assert (40_000, 40_000) == (told["produced"], told["in_delta"])
    assert (0, 0) == (told["lost"], told["duplicated"])
    assert told["killed_processes"] >= 3
    # One session at least in each of the job's two lives.
    assert told["sessions_opened"] >= 2
    assert told["records"] >= told["in_delta"]
    assert b"\x89PNG" == picture.read_bytes()[:4]
    assert [] == [path.name for path in places.glob("kfetch-demo-*")]
