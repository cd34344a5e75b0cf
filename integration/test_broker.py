"""The local Kafka is a real one: it starts, dies, comes back, and keeps what it was given."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from integration.benchmarks.stage import broker_cpu_seconds
from integration.conftest import TopicFactory
from integration.nodes import start_node
from kfetch_jobs.errors import AlreadyRunning, BrokerToolError, NodeDied, NotReady, PortTaken
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.kafka.ready import known_brokers

pytestmark = pytest.mark.integration


def write(cluster: Cluster, topic: str, values: list[bytes]) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
    try:
        for sent in [producer.send(topic, value) for value in values]:
            sent.get(timeout=30)
    finally:
        producer.close()


def read(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        values: list[bytes] = []
        deadline = time.monotonic() + 30
        while len(values) < count and time.monotonic() < deadline:
            polled = consumer.poll(timeout_ms=500)
            values += [record.value for records in polled.values() for record in records]
        return values
    finally:
        consumer.close()


def test_one_node_takes_and_gives_records(kafka: Cluster, topic: TopicFactory) -> None:
    """What is written to the shared broker can be read back."""
    name = topic()
    write(kafka, name, [b"a", b"b"])
    assert read(kafka, name, 2) == [b"a", b"b"]


def test_topics_have_what_was_asked(kafka: Cluster, topic: TopicFactory) -> None:
    """The topic fixture sets partitions and configs."""
    name = topic(3, retention_ms=12345)
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        (described,) = admin.describe_topics([name])
        configs = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    assert len(described["partitions"]) == 3
    assert "12345" in str(configs)


def test_an_unknown_topic_does_not_spring_into_being(kafka: Cluster) -> None:
    """Automatic creation of topics is off."""
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.describe_topics(["never-created"])
        assert "never-created" not in admin.list_topics()


def test_cpu_seconds_grow_with_work(kafka: Cluster, topic: TopicFactory) -> None:
    """The broker's CPU time counts the work it does."""
    before = broker_cpu_seconds(kafka)
    write(kafka, topic(), [b"x" * 1000] * 2000)
    assert 0 < before < broker_cpu_seconds(kafka)


def test_only_loopback_is_listened_on(kafka: Cluster) -> None:
    """No port of the broker can be reached from another machine."""
    process = psutil.Process(kafka.nodes[0].pid)
    listening = {c.laddr.ip for c in process.net_connections("inet") if c.status == "LISTEN"}
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


@pytest.mark.long
def test_three_nodes_survive_the_death_of_one(
    kafka_cluster: Callable[..., Cluster], topic: TopicFactory
) -> None:
    """A killed node's records stay readable, and it returns on its port as the same node."""
    cluster = kafka_cluster(nodes=3)
    name = topic(replicas=3, cluster=cluster)
    write(cluster, name, [b"before"])
    node = cluster.nodes[1]
    port, pid = node.port, node.pid
    node.kill()
    assert (node.running, node.pid, len(cluster.running)) == (False, None, 2)
    assert read(cluster, name, 1) == [b"before"]
    start_node(cluster, 2)
    assert (node.port, node.pid == pid) == (port, False)
    assert all(known_brokers(n.port, 5) == {1, 2, 3} for n in cluster.nodes)
    write(cluster, name, [b"after"])
    assert read(cluster, name, 2) == [b"before", b"after"]


@pytest.mark.long
def test_a_killed_single_node_keeps_its_records(
    kafka_cluster: Callable[..., Cluster], topic: TopicFactory
) -> None:
    """SIGKILL and a restart lose no acknowledged record; so do SIGTERM and a restart."""
    cluster = kafka_cluster(nodes=1)
    name = topic(cluster=cluster)
    write(cluster, name, [b"1"])
    cluster.nodes[0].kill()
    start_node(cluster, 1)
    write(cluster, name, [b"2"])
    cluster.stop()
    start_node(cluster, 1)
    assert read(cluster, name, 2) == [b"1", b"2"]


def test_properties_reach_the_broker(kafka: Cluster) -> None:
    """An extra server property is written to server.properties and accepted."""
    text = (kafka.directory / "node-1" / "server.properties").read_text()
    assert "allow.everyone.if.no.acl.found=true\n" in text


def test_a_node_that_dies_at_start_is_quoted(tmp_path: Path) -> None:
    """A broker that gives up is quoted in one sentence, and no process is left."""
    with pytest.raises(NodeDied, match=r"node 1 ended at start: .*no\.Such.*server\.log"):
        Cluster.start(tmp_path / "k", properties={"metric.reporters": "no.Such"})
    assert Cluster.attach(tmp_path / "k").running == []


def test_a_failed_start_is_not_remembered(tmp_path: Path) -> None:
    """Properties that Kafka refuses are named, and the next start does without them."""
    with pytest.raises(BrokerToolError, match=r"cannot format .* num\.io\.threads"):
        Cluster.start(tmp_path / "k", properties={"num.io.threads": "0"})
    with Cluster.start(tmp_path / "k") as cluster:
        assert len(cluster.running) == 1


def test_too_little_time_is_said(tmp_path: Path) -> None:
    """A deadline that passes ends in one sentence, and no process is left."""
    with pytest.raises(NotReady, match="not ready in time"):
        Cluster.start(tmp_path / "k", timeout_s=0.2)
    assert Cluster.attach(tmp_path / "k").running == []


def test_a_taken_port_is_named(kafka: Cluster, tmp_path: Path) -> None:
    """A port that a broker of another directory listens on is refused before anything starts."""
    port = kafka.nodes[0].port
    with pytest.raises(PortTaken, match=f"needs port {port}, and another process uses it"):
        Cluster.start(tmp_path / "k", port=port)


def test_a_running_cluster_is_not_started_again(kafka: Cluster) -> None:
    """A second start in the same directory names the address of the first."""
    with pytest.raises(AlreadyRunning, match=f"already running at {kafka.bootstrap_servers}"):
        Cluster.start(kafka.directory)


def test_nodes_die_with_a_killed_test_run(tmp_path: Path) -> None:
    """When the process that owns a cluster gets SIGKILL, its node is gone soon after."""
    script = (
        "import sys, time; from kfetch_jobs.kafka import Cluster\n"
        "print(Cluster.start(sys.argv[1]).nodes[0].pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "k")], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        node = psutil.Process(int(owner.stdout.readline()))
        owner.send_signal(signal.SIGKILL)
    node.wait(timeout=10)


class Shell:
    """``kfetch broker`` as a person types it, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kfetch", "broker", *words]
        root = Path(__file__).parents[1]
        return subprocess.run(
            command,
            cwd=self.directory,
            env=os.environ | {"PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            timeout=120,
        )


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell("stop")


def test_the_command_line_starts_shows_and_stops(broker: Shell) -> None:
    """start leaves a broker that answers after the command is gone; stop ends it."""
    started = json.loads(broker("start", "--json").stdout)
    (node,) = started["nodes"]
    port = int(node["address"].split(":")[1])
    assert known_brokers(port, 5) == {1}
    shown = broker("status", "--json")
    assert (shown.returncode, json.loads(shown.stdout)["nodes"]) == (0, [node])
    again = broker("start")
    assert again.returncode == 1
    assert f"kfetch: the broker is already running at {node['address']}" in again.stderr
    assert broker("stop").stdout == "stopped 1 node(s)\n"
    assert known_brokers(port, 5) == set()
    assert broker("status").returncode == 1


@pytest.mark.long
def test_a_dead_brokers_data_is_used_again(broker: Shell) -> None:
    """After SIGKILL the next start says what it found and keeps cluster id and address."""
    first = json.loads(broker("start", "--json").stdout)
    psutil.Process(first["nodes"][0]["pid"]).kill()
    second = broker("start")
    assert "the data of an earlier start" in second.stdout
    shown = json.loads(broker("status", "--json").stdout)
    assert shown["cluster_id"] == first["cluster_id"]
    assert shown["bootstrap_servers"] == first["bootstrap_servers"]
