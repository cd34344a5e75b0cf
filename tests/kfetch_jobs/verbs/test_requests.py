"""How many requests the commands send to a store, and how long they take at 20 ms for each."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import CHECKPOINT, job
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import JOB
from tests.store import BUCKET, Store
from tests.store_proxy import Proxy, proxied

pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"]), pytest.mark.usefixtures("kafka")]

BATCHES = int(os.environ.get("BATCHES", "1200"))
"""Spark keeps a hundred, unless ``spark.sql.streaming.minBatchesToRetain`` says more."""


@pytest.fixture
def proxy(store: Store, project: Path, kafka: LittleKafka) -> Iterator[Proxy]:
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
        job(JOB + f"checkpoint: s3a://{BUCKET}/{project.name}/ck\nspark:\n{lines}")
        yield running


@pytest.mark.parametrize(
    ("verb", "gets", "lists"),
    [
        (["plan"], 2, True),
        (["lag"], 2, True),
        (["offsets", "show"], 2, True),
        (["status"], 1, False),
    ],
    ids=["plan", "lag", "show", "status"],
)
def test_requests(
    kfetch: Command,
    proxy: Proxy,
    verb: list[str],
    gets: int,
    lists: bool,
) -> None:
    """A command reads two objects, and lists the numbers of micro-batches by the thousand.

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

    pages = 2 * -(-BATCHES // 1000) + 1  # offsets, commits, sources
    assert {"GET": gets} | ({"LIST": pages} if lists else {}) == proxy.counted()
    print(json.dumps({"verb": verb, "requests": len(proxy.requests), "s": round(took_s, 3)}))
