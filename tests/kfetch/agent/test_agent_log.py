"""An agent's log: its level, and its limit."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kfetch.agent.home import AgentFiles, ProcessIdentity
from tests.kfetch.agent.agent_process import connect
from tests.kfetch.agent.helpers import wait_until

_LEVELS = """if True:
    import logging, os, sys
    from kfetch.agent.__main__ import _configure_logging
    for setting in sys.argv[1:]:
        if os.fork() == 0:
            os.environ["KFETCH_LOG"] = setting
            _configure_logging()
            for name in ("kfetch.fetch.events", "botocore.parsers"):
                for level in (10, 20, 30):
                    logging.getLogger(name).log(level, "%s %s", name, level)
            os._exit(0)
        assert os.wait()[1] == 0
        print("end of the log", file=sys.stderr)
"""
"""Logs once with each level, in a process of its own that has imported the agent already."""


def test_the_level_of_an_agents_log() -> None:
    """KFETCH_LOG sets the level of kfetch's own lines, whatever its case. An unknown one is no
    obstacle.

    Other libraries log warnings alone: botocore's debug lines have secrets.
    """
    shown = {"debug": {10, 20, 30}, "Info ": {20, 30}, "loud": {20, 30}, "": {20, 30}}
    command = [sys.executable, "-c", _LEVELS, *shown]
    worker = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    *logs, _ = worker.stderr.split("end of the log\n")

    for level, log in zip(shown, logs, strict=True):
        lines = re.findall(r": (kfetch.fetch.events|botocore.parsers) (\d+)$", log, re.M)
        assert {"30"} == {number for name, number in lines if name == "botocore.parsers"}
        assert shown[level] == {int(n) for name, n in lines if name == "kfetch.fetch.events"}
        assert ("KFETCH_LOG" in log) == (level == "loud")


def test_an_agents_log_has_a_limit(tmp_path: Path) -> None:
    """The log of an agent that lives for months begins anew when it is full. The last line stays.

    A pipe has no limit."""
    script = (
        "import logging, os, sys\n"
        "from kfetch.agent import __main__ as agent\n"
        "if os.fork() == 0:\n"
        "    os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), 2)\n"
        "else:\n"
        "    assert os.wait()[1] == 0\n"
        "agent._LOG_BYTES_MAX = 10_000\n"
        "agent._configure_logging()\n"
        "for number in range(1000):\n"
        "    logging.getLogger('kfetch').warning('line %d', number)\n"
    )
    log = tmp_path / "agent.log"
    # Python 3.12 and later warn of a fork beside threads.
    command = [sys.executable, "-W", "ignore", "-c", script, str(log)]
    piped = subprocess.run(command, capture_output=True, timeout=60, check=True)

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
