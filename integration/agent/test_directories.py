"""Where code and sockets go without a home directory: real commands, a real agent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from integration.conftest import TopicFactory
from integration.records import producer
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

READ = """
import logging, sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from integration.agent.reader import Reader

logging.basicConfig()
bootstrap, topic, agent, directory = sys.argv[1:]
with closing(Reader(SimpleNamespace(bootstrap_servers=bootstrap), topic, agent, Path(directory))) as r:
    print(len(r.read()))
"""  # noqa: E501
ORDERS = (
    ("warm", "inline", "process"),
    ("inline", "process", "warm"),
    ("process", "warm", "inline"),
)


@pytest.mark.long
@pytest.mark.parametrize("number", range(3))
def test_orders(kafka: Cluster, topic: TopicFactory, tmp_path: Path, number: int) -> None:
    """``kfetch warm``, an inline read and a read through the agent work, whichever comes first.

    HOME is missing, or it is a file. KFETCH_CACHE can't be made. All of them use /tmp, here a
    directory of the test's own. A warning names KFETCH_CACHE, and only the first command compiles
    the record decoder.
    """
    name = topic()
    with producer(kafka) as sender:
        for _ in range(10):
            sender.send(name, b"v")
    (tmp_path / "file").touch()
    without = ("HOME", "XDG_CACHE_HOME")
    environ = {key: text for key, text in os.environ.items() if key not in without}
    environ |= {"TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    environ |= {"KFETCH_CACHE": str(tmp_path / "file" / "cache")}
    environ |= {"HOME": str(tmp_path / "file")} if number % 2 else {}
    outputs = []
    for command in ORDERS[number]:
        arguments = ["-c", READ, kafka.bootstrap_servers, name, command, str(tmp_path)]
        ran = subprocess.run(
            [sys.executable, *(["-m", "kfetch", "warm"] if command == "warm" else arguments)],
            env=environ, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert command == "warm" or "10\n" == ran.stdout, ran.stderr
        logs = [path.read_text() for path in tmp_path.glob(f"kfetch-{os.getuid()}/*.log")]
        outputs.append("".join(logs) if command == "process" else ran.stdout + ran.stderr)

    problem = f"KFETCH_CACHE can't be used: {tmp_path}/file/cache (Not a directory)"
    assert [True] * 3 == [problem in output for output in outputs], outputs
    assert [True, False, False] == [
        "the record decoder was compiled" in output for output in outputs
    ], outputs
