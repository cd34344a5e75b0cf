"""Status says who holds the lease of a job's checkpoint, and waits for no store that is away."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kfetch.storage.lease import Holder, taken
from kfetch.storage.open import lease_beside, stored_path
from kfetch.storage.processes import this_process
from kfetch_jobs import config
from tests.kfetch_jobs.checkpoints import job
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import JOB
from tests.store import Store

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])


@pytest.fixture(autouse=True)
def servers(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    monkeypatch.setenv("SERVERS", "127.0.0.1:1")


def in_store(settings: dict[str, str], name: str) -> str:
    lines = "".join(f"  {key}: '{value}'\n" for key, value in settings.items())
    return JOB + f"checkpoint: s3a://lake/{name}/ck\nspark:\n{lines}"


@pytest.fixture(params=["disk", "s3"])
def text(request: pytest.FixtureRequest, project: Path) -> str:
    """A job's file, whose checkpoint is on this machine or in a store."""
    if request.param == "disk":
        return JOB
    store: Store = request.getfixturevalue("store")
    return in_store(store.settings, project.name)


def write_lease(holder: Holder) -> None:
    """Make a process the holder of the job's lease, ten seconds ago."""
    made = config.load(config.find(Path.cwd())).job("clicks")
    path = stored_path(made.checkpoint, made.spark)
    assert path is not None
    lease = taken(None, holder, 30.0, time.time() - 10)
    lease_beside(path).write(lease.content(), None)


def shown(kfetch: Command) -> tuple[dict[str, Any] | None, str]:
    """The lease in the JSON, and the row of the job."""
    row = next(one for one in kfetch("status")[1].splitlines() if one.startswith("clicks"))
    return json.loads(kfetch("status", "--json")[1])["jobs"][0]["lease"], row


def test_a_holder_elsewhere(text: str, kfetch: Command) -> None:
    """Status names host, process, purpose, and since when."""
    job(text)
    assert (None, False) == (shown(kfetch)[0], "held by" in shown(kfetch)[1])
    write_lease(replace(this_process("run of job clicks"), host="b", pid=12, machine="another"))

    lease, row = shown(kfetch)
    assert re.search(r"held by process 12 on host b \(run of job clicks\) for [1-5]\d s", row)
    assert lease is not None
    assert abs(lease.pop("since_s") - time.time()) < 60
    assert abs(lease.pop("since_at") - time.time()) < 60
    assert lease == {
        "host": "b",
        "pid": 12,
        "purpose": "run of job clicks",
        "here": False,
        "trouble": "",
        "over_s": None,
        "over_at": None,
    }


def test_a_holder_of_this_machine(kfetch: Command) -> None:
    """One that lives is shown. One that has died holds nothing."""
    write_lease(this_process("run of job clicks"))
    lease, row = shown(kfetch)
    assert lease is not None
    assert (os.getpid(), True) == (lease["pid"], lease["here"])
    assert f"held by process {os.getpid()} on host {socket.gethostname()} (" in row


def test_a_holder_of_this_machine_that_died(kfetch: Command) -> None:
    """Nobody holds the lease of a process that has ended."""
    write_lease(replace(this_process("run of job clicks"), started="0"))
    assert None is shown(kfetch)[0]


@pytest.fixture
def silent() -> Iterator[str]:
    """The endpoint of a store that takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_store_that_is_away(kfetch: Command, silent: str, store: Store) -> None:
    """Twenty such jobs delay a status by two seconds together. It says why, and shows the rest."""
    settings = store.settings | {"spark.hadoop.fs.s3a.endpoint": silent}
    for number in range(20):
        job(in_store(settings, str(number)), f"j{number}")
    began = time.monotonic()
    jobs = json.loads(kfetch("status", "--json")[1])["jobs"]
    took_s = time.monotonic() - began

    assert took_s < 30  # two seconds, and a busy machine
    assert 21 == len(jobs)
    troubles = {one["lease"]["trouble"] for one in jobs if one["name"].startswith("j")}
    assert "" not in troubles
    assert any("s3a://lake/0/ck.lease can't be read: the store fails" in one for one in troubles)
    assert "the store did not answer within 2 s" in troubles
    assert not [one for one in jobs if any("lease" in why for why in one["unhealthy"])]


def test_a_checkpoint_without_a_lease(kfetch: Command) -> None:
    """Status says why there can be none, unless the job's file says that none is needed."""
    job(JOB + "checkpoint: viewfs://name/ck\n")
    lease, row = shown(kfetch)
    assert lease is not None
    assert "kfetch can hold no lease on the checkpoint viewfs://name/ck" in lease["trouble"]
    assert "its lease is unknown: job clicks: kfetch can hold no lease" in row
    job(JOB + "checkpoint: viewfs://name/ck\nsingleHost: true\n")
    assert None is shown(kfetch)[0]
