"""Figures about processes stay right while processes end."""

from __future__ import annotations

import subprocess

import psutil
import pytest

from integration.agent.processes import cpu_seconds


def test_a_process_that_ends_while_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's short-lived Python processes may end during a measurement. It does not fail."""
    with subprocess.Popen(["sleep", "60"]) as child:
        ended = psutil.Process(child.pid)
        child.kill()
    here = psutil.Process()
    monkeypatch.setattr(here, "children", lambda recursive: [ended])
    with pytest.raises(psutil.NoSuchProcess):
        ended.cpu_times()
    before = sum(here.cpu_times()[:4])

    assert before <= cpu_seconds(here)
