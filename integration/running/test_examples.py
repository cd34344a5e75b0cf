"""The jobs of ``examples/`` run with the trigger availableNow, and write the right tables."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from integration.streams import finish
from kfetch_jobs import config
from kfetch_jobs.config import Job
from kfetch_jobs.config.trigger import Trigger
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.run import delta_sink
from kfetch_jobs.run.tables import unfenced

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

EXAMPLES = Path(__file__).parents[2] / "examples"
COUNT = 30
USERS = ("ann", "bob", "eve")
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC).astimezone().replace(tzinfo=None)
"""Local time without a zone, as PySpark returns timestamps."""
ORDERS = range(4, COUNT, 5)
"""The numbers of the clicks after which ``produce.py`` writes an order."""


@pytest.fixture
def cluster(kafka_cluster: Callable[..., Cluster]) -> Cluster:
    """A cluster for this test alone, because the examples' topics have fixed names."""
    return kafka_cluster(nodes=1)


@pytest.fixture
def jobs(cluster: Cluster, tmp_path: Path) -> Iterator[dict[str, Job]]:
    environ = {"KFETCH_BOOTSTRAP": cluster.bootstrap_servers, "KFETCH_STORAGE": str(tmp_path)}
    project = config.load(EXAMPLES / "kfetch.yml", environ)
    once = Trigger.model_validate({"availableNow": True})
    yield {
        name: replace(job, file=job.file.model_copy(update={"trigger": once}))
        for name, job in project.jobs_and_mistakes()[0].items()
    }
    sys.modules.pop("transforms", None)
    if str(EXAMPLES) in sys.path:
        sys.path.remove(str(EXAMPLES))


@pytest.mark.parametrize("runs", [1, pytest.param(2, marks=pytest.mark.long)])
def test_tables_of_the_examples(
    cluster: Cluster, jobs: dict[str, Job], spark: SparkSession, tmp_path: Path, runs: int
) -> None:
    """The jobs write each record of ``produce.py`` once. A second run adds no rows."""
    produce(cluster)
    for _ in range(runs):
        with ThreadPoolExecutor(2) as pool:
            # Jobs in one session would share the view `source`.
            ended = pool.map(
                lambda job: finish(delta_sink.start(spark.newSession(), job, unfenced)),
                jobs.values(),
            )
            assert 6 == len(list(ended))

    tables = {
        path.name: [row.asDict() for row in spark.read.format("delta").load(str(path)).collect()]
        for path in (tmp_path / "tables").iterdir()
    }
    assert {name: sorted(map(str, rows)) for name, rows in expected().items()} == {
        name: sorted(str(without_position(row)) for row in rows) for name, rows in tables.items()
    }


def without_position(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the row without partition, offset and timestamp, which vary from run to run."""
    return {key: row[key] for key in row if key not in ("partition", "offset", "timestamp")}


def produce(cluster: Cluster) -> None:
    example = runpy.run_path(str(EXAMPLES / "produce.py"))
    example["main"](cluster.bootstrap_servers, str(COUNT))


def at(number: int) -> datetime:
    return NOON + timedelta(seconds=10 * number)


def user(number: int) -> str:
    return USERS[number % 3]


def expected() -> dict[str, list[dict[str, Any]]]:
    """Returns the rows of each table. They follow from ``produce.py``, without the jobs' code."""
    clicks = [{"id": n, "user": user(n), "page": f"/{n % 2}", "at": at(n)} for n in range(COUNT)]
    orders = [
        {"id": n, "user": user(n), "amount": Decimal(f"{n}.50"), "at": at(n) + timedelta(seconds=5)}
        for n in ORDERS
    ]
    return {
        "clicks": clicks,
        "revenue": [order | {"day": date(2026, 11, 21)} for order in orders],
        "users": [
            {"user": "ann", "city": "Oslo", "gone": None},
            {"user": "bob", "city": "Cusco", "gone": None},
        ],
        # The watermark is two minutes behind the last click, 12:04:50: two minutes are complete.
        "visits": [
            {"minute": at(6 * minute), "page": page, "count": 3}
            for minute in range(2)
            for page in ("/0", "/1")
        ],
        "clicks_dead": [
            {
                "topic": "clicks",
                "error": "the value does not fit valueSchema: a word without quotes is no JSON "
                "value, at byte 2",
                "key": b"ann",
                "value": b"not JSON",
            }
        ],
        "sales": [
            order | {"page": click["page"], "clicked": click["at"]}
            for order in orders
            for click in clicks
            if click["user"] == order["user"] and click["at"] <= order["at"]
        ],
        "activity": [
            {"topic": topic, "user": row["user"], "at": row["at"]}
            for topic, rows in (("clicks", clicks), ("orders", orders))
            for row in rows
        ]
        + [{"topic": "clicks", "user": None, "at": None}],
    }
