"""A night in minutes: jobs of every kind, kills at random, and in the morning all is in order."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ACLOperation
from pyspark.sql import SparkSession

from integration.acls import deny
from integration.conftest import AUTHORIZER
from integration.nodes import start_node
from integration.running import project as files
from integration.running.commands import Project
from integration.streams import PATIENCE_S
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.kafka.ready import free_ports
from kfetch_jobs.progress import progress_file as progress

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1800)]

LIVE = ("always", "flaky", "merged")
SECONDS = float(os.environ.get("KFETCH_NIGHT_SECONDS", "150"))

JOB = """\
source:
  cluster: main
  subscribe: {topic}
  decode: {{fields: id BIGINT}}
  options:
    startingOffsets: {start}
    maxOffsetsPerTrigger: 3000
    kafkaConsumer.pollTimeoutMs: 60000
transform: {transform}
sink: {{path: "${{storage}}/tables/{name}"{sink}}}
trigger: {trigger}
restart: {{initial: 1 second, max: 5 seconds}}
{more}
"""
PASSWORD = "not-the-right-horse"
PROTECTED = """\
  protected:
    bootstrap.servers: 127.0.0.1:1
    security.protocol: SASL_PLAINTEXT
    sasl.mechanism: PLAIN
    sasl.jaas.config: >-
      org.apache.kafka.common.security.scram.ScramLoginModule required
      username="night" password="${env:NIGHT_PASSWORD}";
"""
CODE = """\
from pathlib import Path

from pyspark.sql import functions as f

HERE = Path(__file__).parent


def plain(source):
    return source.select("event.id", "partition", "offset")


@f.udf("bigint")
def moody(number):
    if number % 9000 == 8999:
        try:
            (HERE / f"mood-{number}").touch(exist_ok=False)
        except FileExistsError:
            return number
        raise RuntimeError(f"a bad mood at {number}")
    return number


def flaky(source):
    return source.select(moody("event.id").alias("id"), "partition", "offset")
"""


def text(name: str, topic: str, trigger: str, **over: str) -> str:
    given = {"transform": "night:plain", "sink": "", "start": "earliest", "more": ""} | over
    return JOB.format(name=name, topic=topic, trigger=trigger, **given)


@pytest.fixture
def kafka_of_the_night(kafka_cluster: Callable[..., Cluster]) -> Cluster:
    """One broker, to be bounced, that denies what rules say."""
    return kafka_cluster(nodes=1, **AUTHORIZER)


@contextmanager
def producing(kafka: Cluster, topic: str) -> Iterator[list[int]]:
    """Numbers from 0 on into a topic, some hundred a second, until the block ends."""
    sent, stop = [0], threading.Event()

    def run() -> None:
        producer = KafkaProducer(
            bootstrap_servers=kafka.bootstrap_servers, acks="all", enable_idempotence=True
        )
        while not stop.wait(0.1):
            for _ in range(20):
                producer.send(topic, key=b"%d" % sent[0], value=b'{"id": %d}' % sent[0])
                sent[0] += 1
        producer.flush()
        producer.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield sent
    finally:
        stop.set()
        thread.join()


def expire(kafka: Cluster, topic: str) -> None:
    """Records at the start of a topic are gone."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for number in range(10):
        producer.send(topic, b'{"id": %d}' % number, partition=0)
    producer.close()
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        from kafka import TopicPartition

        admin.delete_records({TopicPartition(topic, 0): 5})


def test_in_the_morning_all_is_there_once(
    kafka_of_the_night: Cluster,
    topic: Callable[..., str],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """Eight jobs, the supervisor killed twice, jobs at random, the broker bounced: every table has
    each record once; the jobs that lost data, or are denied their topic, were given up at their
    first word of it; the one with a password never began, and the password is nowhere; the history
    is true, and nothing is left running."""
    kafka = kafka_of_the_night
    live, lost, denied = (topic(count, cluster=kafka) for count in (2, 1, 1))
    expire(kafka, lost)
    deny(kafka, denied, ACLOperation.READ)
    shop = Project(tmp_path / "shop", kafka, NIGHT_PASSWORD=PASSWORD)
    shop.directory.mkdir()
    (shop.directory / "night.py").write_text(CODE)
    always, every_minute = "{processingTime: 1 second}", '{cron: "* * * * *"}'
    files.write(
        shop.directory,
        kafka,
        always=text("always", live, always),
        flaky=text("flaky", live, always, transform="night:flaky"),
        hourly=text("hourly", live, every_minute),
        once=text("once", live, "availableNow"),
        merged=text("merged", live, "continuous", sink=", mode: merge, keys: id, latestBy: offset"),
        lossy=text("lossy", lost, always, start=f"""'{{"{lost}":{{"0":0}}}}'"""),
        denied=text("denied", denied, always),
    )
    with (shop.directory / "kfetch.yml").open("a") as file:
        file.write(PROTECTED)
    page = f"127.0.0.1:{free_ports(1)[0]}"
    try:
        with producing(kafka, live) as sent:
            shop.kfetch("up", "--detach", "--listen", page)
            told = protect(shop)
            kills = disturb(shop, kafka, page)
        settle(shop, sent[0])
        told += everything_told(shop, page)
    finally:
        shop.kfetch("down")

    assert [] == shop.processes()
    assert kills >= 2
    for name in ("always", "flaky", "hourly", "once", "merged"):
        table = spark.read.format("delta").load(f"{shop.directory}/storage/tables/{name}")
        found = sorted(row.id for row in table.select("id").collect())
        missing, twice = sorted(set(range(sent[0])) - set(found)), len(found) - len(set(found))
        assert ([], 0, sent[0]) == (missing[:10], twice, len(found)), name
    check_history(shop, denied)
    check_moods(shop, sent[0])
    assert PASSWORD not in told
    assert [] == [path for path in written(shop) if PASSWORD.encode() in path.read_bytes()]


def protect(shop: Project) -> str:
    """A job for a cluster with a log-in comes along, and is refused; what was said of it."""
    job = text("protected", "orders", "continuous").replace("cluster: main", "cluster: protected")
    (shop.directory / "jobs" / "protected.yml").write_text(job)
    told = ""
    for words in (["validate"], ["run", "protected"], ["start", "protected"]):
        done = shop.run(*words)
        told += done.stdout + done.stderr
        assert (2, True) == (done.returncode, "PlainLoginModule" in done.stderr), done.stderr
    return told


def everything_told(shop: Project, page: str) -> str:
    """What commands and pages say."""
    words = ("status", "history", "list", "lag")
    told = [shop.run(word, "--json").stdout for word in words]
    for job in ("protected", "denied", "always"):
        told += [shop.run("logs", job, "-n", "9999").stdout]
        told += [answered(f"http://{page}/jobs/{job}")]
    told += [shop.run("logs", "-n", "9999").stdout, answered(f"http://{page}/metrics")]
    found = "".join([*told, answered(f"http://{page}/")])
    assert "which needs PlainLoginModule, but option" in found
    return found


def answered(url: str) -> str:
    """A page, or the sentence that it does not exist."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return str(answer.read().decode())
    except HTTPError as refused:
        return refused.read().decode()


def written(shop: Project) -> Iterator[Path]:
    """All files of the project, its storage with logs and the supervisor's database."""
    return (path for path in shop.directory.rglob("*") if path.is_file())


def disturb(shop: Project, kafka: Cluster, page: str) -> int:
    """Kill now this, now that; how often."""
    chance, kills = random.Random(7), 0
    deadline = time.monotonic() + SECONDS
    bounced, supervisors = False, 0
    while time.monotonic() < deadline:
        time.sleep(12)
        left = deadline - time.monotonic()
        if supervisors < 2 and left < SECONDS * (0.7 - 0.4 * supervisors):
            os.kill(shop_status(shop)["supervisor"], signal.SIGKILL)
            shop.kfetch("up", "--detach", "--listen", page)
            supervisors += 1
        elif not bounced and left < SECONDS / 2:
            kafka.nodes[0].kill()
            time.sleep(3)
            start_node(kafka, 1)
            bounced = True
        else:
            running = [job["pid"] for job in shop.jobs().values() if job["pid"]]
            with suppress(ProcessLookupError):
                os.kill(chance.choice(running), signal.SIGKILL)
            kills += 1
    assert (2, True) == (supervisors, bounced)
    return kills


def shop_status(shop: Project) -> Any:
    return json.loads(shop.run("status", "--json").stdout)


def settle(shop: Project, sent: int) -> None:
    """Until everything has been read: by those that run, and by one more run of those that end."""
    shop.kfetch("stop", "once", "hourly")
    began = time.time()  # a run may begin long before the command returns
    shop.kfetch("start", "once", "hourly")
    deadline = time.monotonic() + 2 * PATIENCE_S  # a job that fails now and then takes longer
    while True:
        jobs = shop.jobs()
        done = {
            run["job"]
            for run in history(shop)
            if run["kind"] == "finished" and run["started_s"] >= began
        }
        # Lag is as old as the micro-batch that told it; the positions say what has been read.
        read = [progress.read_batches(shop.directory / "storage" / name) for name in LIVE]
        if {"once", "hourly"} <= done and all(lines and lines[-1].end == sent for lines in read):
            return
        assert time.monotonic() < deadline, (
            jobs,
            [run for run in history(shop) if run["sentence"]],
        )
        time.sleep(1)


def check_moods(shop: Project, sent: int) -> None:
    """Each mood ended a run of the moody job once, and the history tells of it by name."""
    moods = {int(path.name.removeprefix("mood-")) for path in shop.directory.glob("mood-*")}
    assert set(range(8999, sent, 9000)) == moods
    told = [run["sentence"] for run in history(shop) if run["job"] == "flaky"]
    found = [
        int(mood) for sentence in told for mood in re.findall(r"a bad mood at (\d+)", sentence)
    ]
    assert moods, f"{sent} records are too few for a mood: a longer KFETCH_NIGHT_SECONDS"
    # A kill may have come before the run could tell.
    assert len(found) == len(set(found))
    assert len(found) >= len(moods) - 1


def history(shop: Project) -> Any:
    return json.loads(shop.kfetch("history", "-n", "1000", "--json"))


def check_history(shop: Project, denied: str) -> None:
    """Each run has an end; only who lost data, or was denied it, was given up, and that at once."""
    runs = history(shop)
    assert all(run["ended_s"] and run["kind"] for run in runs)
    kinds = {name: [run["kind"] for run in runs if run["job"] == name] for name in shop.jobs()}
    # Newest first: nothing came after the last word, whatever was killed before it.
    for name, last in (("lossy", "data_loss"), ("denied", "auth")):
        assert last == kinds[name][0]
        assert set(kinds[name][1:]) <= {"killed"}
    (why,) = [run["sentence"] for run in runs if run["kind"] == "auth"]
    assert f"topic {denied}: the operation" in why
    assert [] == kinds["protected"]
    assert "killed" in {kind for of_job in kinds.values() for kind in of_job}
    for name in ("always", "merged"):
        assert set(kinds[name]) <= {"killed", "failed", "stopped"}, kinds[name]
    print(
        {name: {kind: of_job.count(kind) for kind in set(of_job)} for name, of_job in kinds.items()}
    )
