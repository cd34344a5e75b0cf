"""How many requests the commands send to a store, and how long they take at 20 ms for each."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfetch_jobs.progress.progress_file import append_entry
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import CHECKPOINT, job
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import JOB
from tests.kfetch_jobs.web.clicks import batch
from tests.store import Store
from tests.store_proxy import Proxy, proxied

pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"]), pytest.mark.usefixtures("kafka")]

BATCHES = int(os.environ.get("BATCHES", "1200"))
"""Spark keeps a hundred, unless ``spark.sql.streaming.minBatchesToRetain`` says more."""


@pytest.fixture(params=[True, False], ids=["progress", "no progress"])
def has_progress(request: pytest.FixtureRequest) -> bool:
    """Whether the job has run on this host."""
    return bool(request.param)


@pytest.fixture
def proxy(store: Store, project: Path, kafka: LittleKafka, has_progress: bool) -> Iterator[Proxy]:
    """The job's checkpoint has so many micro-batches, in a store behind the proxy."""
    last = BATCHES - 1
    for log, name in (("offsets", "6"), ("commits", "7")):
        text = (CHECKPOINT / log / name).read_bytes()
        for number in range(last):
            store.put(f"{project.name}/ck/{log}/{number}", text)
        store.put(f"{project.name}/ck/{log}/{last}", (CHECKPOINT / log / "7").read_bytes())
    store.put(f"{project.name}/ck/metadata", b'{"id": "q"}')
    with proxied(store) as running:
        lines = "".join(f"  {key}: '{value}'\n" for key, value in running.store.settings.items())
        if has_progress:
            directory = Path("data/clicks")
            directory.mkdir(parents=True, exist_ok=True)
            append_entry(directory, batch(last, time.time()))
        job(JOB + f"checkpoint: {store.uri}/{project.name}/ck\nspark:\n{lines}")
        yield running


@pytest.mark.parametrize(
    ("verb", "gets", "lists"),
    [
        (["plan"], 3, True),
        (["lag"], 3, True),
        (["offsets", "show"], 3, True),
        (["status"], 1, False),
    ],
    ids=["plan", "lag", "show", "status"],
)
def test_requests(
    kfetch: Command,
    proxy: Proxy,
    has_progress: bool,
    verb: list[str],
    gets: int,
    lists: bool,
) -> None:
    """A command reads three objects, and lists the last micro-batches, and the sources.

    On a host where the job has never run, it lists all commits by the thousand.

    moto takes most of a second for a list of so many, so the proxy repeats its answers.
    """
    names = verb if verb == ["status"] else [*verb, "clicks"]
    proxy.remembers = True
    first = kfetch(*names, "--json")
    assert 0 == first[0] or verb == ["status"]
    proxy.heal()
    proxy.delay_s = 0.02
    began = time.monotonic()
    kfetch(*names, "--json")
    took_s = time.monotonic() - began

    print(json.dumps({"verb": verb, "requests": len(proxy.requests), "s": round(took_s, 3)}))
    last = 1 + (len(str(BATCHES)) > len(str(BATCHES - 1)))  # is the next one of more digits there?
    commits = last if has_progress else 1 + -(-BATCHES // 1000)
    assert {"GET": gets} | ({"LIST": commits + last + 1} if lists else {}) == proxy.counted()
