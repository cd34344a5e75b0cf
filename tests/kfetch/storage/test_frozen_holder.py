"""Real processes: a holder that is stopped for three leases writes nothing when it is continued."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kfetch.storage.lease_holder import take
from kfetch.storage.open import versioned
from kfetch.storage.processes import this_process
from kfetch.storage.versions import VersionedDirectory, VersionedFile
from tests.kfetch.agent.helpers import wait_until
from tests.store import Store

pytestmark = [
    pytest.mark.allow_hosts(["127.0.0.1"]),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a stopped process"),
]

LENGTH_S = 1.0
ROUNDS = 2
HOLDER = f"""
import sys, time
from dataclasses import replace
from pathlib import Path
from kfetch.storage.lease_holder import take
from kfetch.storage.open import lease_beside, stored_path
from kfetch.storage.processes import process_end, this_process
uri, output, *pairs = sys.argv[1:]
lease = lease_beside(stored_path(uri, dict(pair.split("=", 1) for pair in pairs)))
me = replace(this_process("a test"), machine="another one")
with take(lease, me, length_s={LENGTH_S}, switch=process_end(suspends=False)) as held:
    while True:
        held.check()
        with open(output, "a") as file:
            file.write("written\\n")
        time.sleep(0.002)
"""


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[list[str], VersionedFile]:
    """The arguments that name a checkpoint, and its lease."""
    if request.param == "disk":
        return [str(tmp_path / "ck")], VersionedDirectory(tmp_path / "ck.lease")
    store: Store = request.getfixturevalue("store")
    path = store.path(f"{tmp_path.name}/ck.lease")
    settings = [f"{name}={value}" for name, value in store.settings.items()]
    return [f"{store.uri}/{tmp_path.name}/ck", *settings], versioned(path)


def test_a_stopped_holder(tmp_path: Path, place: tuple[list[str], VersionedFile]) -> None:
    """Another process takes the lease over, and from then on the stopped one never writes."""
    (uri, *settings), lease = place
    draw = random.Random(7)
    for number in range(ROUNDS):
        output = tmp_path / f"{number}.txt"
        output.touch()
        command = [sys.executable, "-c", HOLDER, uri, str(output), *settings]
        with subprocess.Popen(command) as process:
            try:
                assert wait_until(lambda at=output: at.stat().st_size > 0)  # type: ignore[misc]
                time.sleep(draw.random() * LENGTH_S)
                process.send_signal(signal.SIGSTOP)
                # Until it has stopped, it may renew its lease, and the waiter would see that.
                os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
                stopped = time.monotonic()
                me = replace(this_process("the other one"), machine="a third one")
                with take(lease, me, length_s=30.0) as held:
                    size = output.stat().st_size
                    assert time.monotonic() - stopped < 3 * LENGTH_S + 5
                    assert wait_until(lambda at=stopped: time.monotonic() > at + 3 * LENGTH_S)  # type: ignore[misc]
                    with suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGCONT)
                    assert -signal.SIGKILL == process.wait(60)
                    assert size == output.stat().st_size
                    held.check()
            finally:
                process.kill()
