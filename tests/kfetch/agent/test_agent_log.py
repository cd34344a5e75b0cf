"""An agent's log: its level, and its limit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kfetch.agent.home import AgentFiles, ProcessIdentity
from tests.kfetch.agent.agent_process import connect
from tests.kfetch.agent.helpers import wait_until


@pytest.mark.parametrize(
    ("level", "shown"), [("debug", {10, 30}), ("Info ", {30}), ("loud", {30}), ("", {30})]
)
def test_the_level_of_an_agents_log(level: str, shown: set[int]) -> None:
    """KFETCH_LOG sets the level of kfetch's own lines, whatever its case. An unknown one is no
    obstacle.

    Other libraries log warnings alone: botocore's debug lines have secrets.
    """
    script = (
        "import logging\n"
        "from kfetch.agent.__main__ import _configure_logging\n"
        "_configure_logging()\n"
        "for name in ('kfetch.fetch.events', 'botocore.parsers'):\n"
        "    for level in (10, 20, 30):\n"
        "        logging.getLogger(name).log(level, '%s %s', name, level)\n"
    )
    worker = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"KFETCH_LOG": level},
        capture_output=True,
        text=True,
        timeout=60,
    )
    logged = re.findall(r": (kfetch.fetch.events|botocore.parsers) (\d+)$", worker.stderr, re.M)

    assert 0 == worker.returncode
    assert {"30"} == {number for name, number in logged if name == "botocore.parsers"}
    assert shown | {20} == {int(n) for name, n in logged if name == "kfetch.fetch.events"}
    assert ("KFETCH_LOG" in worker.stderr) == (level == "loud")


def test_an_agents_log_has_a_limit(tmp_path: Path) -> None:
    """The log of an agent that lives for months begins anew when it is full. The last line stays.

    A pipe has no limit."""
    script = (
        "import logging\n"
        "from kfetch.agent import __main__ as agent\n"
        "agent._LOG_BYTES_MAX = 10_000\n"
        "agent._configure_logging()\n"
        "for number in range(1000):\n"
        "    logging.getLogger('kfetch').warning('line %d', number)\n"
    )
    log = tmp_path / "agent.log"
    with log.open("wb") as output:
        subprocess.run([sys.executable, "-c", script], stderr=output, timeout=60, check=True)
    piped = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)

    assert 0 < log.stat().st_size < 11_000
    first, *_, last = log.read_text().splitlines()
    assert first == "The log was full. Its earlier lines are gone."
    assert last.endswith("line 999")
    assert 1000 == piped.stderr.count(b"\n")


def test_a_level_in_lower_case_starts_an_agent(
    files: AgentFiles, owner: ProcessIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With KFETCH_LOG=debug an agent starts, and logs at that level."""
    monkeypatch.setenv("KFETCH_LOG", "debug")
    connect(files, owner).close()

    assert wait_until(lambda: "DEBUG [" in files.log.read_text())
