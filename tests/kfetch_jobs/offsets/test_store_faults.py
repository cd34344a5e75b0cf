"""Commands on a checkpoint in a store that fails: nothing is lost, nothing comes twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kfetch_jobs.checkpoints import backup
from kfetch_jobs.checkpoints.backup import Stage
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import CHECKPOINT, job
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.offsets.test_places import contents, positions
from tests.kfetch_jobs.projects import JOB
from tests.store import Store
from tests.store_proxy import Fault, Proxy, proxied

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

Ask = Callable[..., Any]
ONCE = [fault for fault in Fault if fault is not Fault.SILENT]
"""A silent store makes a command wait ten seconds. ``tests/kfetch/storage`` tries it."""


@pytest.fixture
def proxy(store: Store, project: Path, kafka: LittleKafka) -> Iterator[Proxy]:
    """The job's checkpoint is in a store behind the proxy."""
    with proxied(store) as running:
        (CHECKPOINT / "metadata").write_text('{"id": "q"}')
        copy = running.store.upload(CHECKPOINT, f"{project.name}/ck")
        lines = "".join(f"  {key}: '{value}'\n" for key, value in running.store.settings.items())
        job(JOB + f"checkpoint: {copy}\nspark:\n{lines}")
        for file in sorted(CHECKPOINT.rglob("*"), reverse=True):
            file.unlink() if file.is_file() else file.rmdir()
        running.heal()
        yield running


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.LOST_ANSWER])
@pytest.mark.parametrize("part", ["offsets/8", "commits/8", "move.json", "ck.lease"])
def test_a_move_whose_write_fails(
    asked: Ask, proxy: Proxy, project: Path, part: str, fault: Fault
) -> None:
    """It ends as one without a fault: one more micro-batch, and one backup."""
    place = proxy.store.path(f"{project.name}/ck")
    before = contents(place)
    proxy.fault("PUT", part, fault)
    told = asked("reset", "--to-earliest", "--execute")

    assert 1 == proxy.faults
    assert (8, [0, 0]) == (told["batch"], positions(place))
    after = contents(place)
    assert before.keys() | {"offsets/8", "commits/8"} == after.keys()
    [made] = backup.all_backups(place)
    assert (Stage.DONE, before) == (made.stage, contents(made.path))


@pytest.mark.parametrize("part", ["offsets/8", "commits/8", "move.json", "metadata"])
def test_a_move_that_a_store_interrupts(
    asked: Ask, proxy: Proxy, project: Path, part: str, store: Store
) -> None:
    """The error names the object. The job does not run before the undo, which puts all back."""
    place = store.path(f"{project.name}/ck")
    before = contents(place)
    proxy.fault("PUT", part, Fault.BUSY, times=1000)
    said = asked("reset", "--to-earliest", "--execute", code=1)
    assert f"{store.uri}/{project.name}/ck" in said
    assert f"{part} can't be used: the store fails (503 Service Unavailable" in said
    proxy.heal()

    if backup.last_move(place) is not None:
        asked("undo", "--execute")
    assert (before, [6, 4]) == (contents(place), positions(place))
    assert 8 == asked("reset", "--to-earliest", "--execute")["batch"]


@pytest.mark.parametrize(
    ("verb", "part"),
    [
        (["plan"], "offsets/"),
        (["plan"], "commits/"),
        (["plan"], "sources"),
        (["lag"], "metadata"),
        (["offsets", "show"], "offsets/7"),
    ],
    ids=str,
)
def test_commands_that_read(kfetch: Command, proxy: Proxy, verb: list[str], part: str) -> None:
    """A fault changes nothing of what they say."""
    whole = kfetch(*verb, "clicks", "--json")
    assert (0, "") == whole[::2]
    for fault in ONCE:
        proxy.fault("GET", part, fault)
        assert whole == kfetch(*verb, "clicks", "--json")
    assert len(ONCE) == proxy.faults
