"""Configuration files of a broker, a KRaft controller and a ZooKeeper. Pure: text from values.

Kafka 2.1 to 2.8 run with ZooKeeper here, later ones with KRaft. Brokers up to 3.9 log with log4j 1,
for which reload4j stands, and those from 4.0 on with log4j 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kfetch_jobs.kafka.settings import HOST

BROKER, CONTROLLER, COMBINED, ZOOKEEPER = "broker", "controller", "broker,controller", "zookeeper"
"""Roles of a process. The first three are words of ``process.roles``."""
KEEPER_ID = 100
"""The id of the KRaft controller that is no broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of a cluster."""

    node_id: int
    role: str
    port: int
    """For clients. A controller or a ZooKeeper has no such port and leaves this one free."""
    keeper_port: int
    """Of the controller or the ZooKeeper. Brokers have none and leave this one free."""

    @property
    def serves(self) -> bool:
        """Whether clients read and write here."""
        return BROKER in self.role


def file_of(
    process: Process, processes: Sequence[Process], data: Path, extra: Mapping[str, str]
) -> str:
    """Returns the configuration file of a process. ``extra`` are further properties of brokers."""
    if process.role == ZOOKEEPER:
        return _lines(_zookeeper(process, data))
    keepers = [one for one in processes if CONTROLLER in one.role or one.role == ZOOKEEPER]
    brokers = sum(one.serves for one in processes)
    if keepers[0].role == ZOOKEEPER:
        values = _with_zookeeper(process, keepers[0])
    else:
        values = _with_kraft(process, keepers)
    return _lines(values | _for_tests(brokers) | {"log.dirs": str(data)} | dict(extra))


def _lines(values: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())


def _zookeeper(process: Process, data: Path) -> dict[str, str]:
    return {
        "dataDir": str(data),
        "clientPort": str(process.keeper_port),
        "clientPortAddress": HOST,
        # A session ends after 2 ticks at the earliest.
        "tickTime": "500",
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
    }


def _listener(process: Process) -> str:
    return f"BROKER://{HOST}:{process.port}"


def _with_zookeeper(process: Process, keeper: Process) -> dict[str, str]:
    return {
        "broker.id": str(process.node_id),
        "zookeeper.connect": f"{HOST}:{keeper.keeper_port}",
        "zookeeper.connection.timeout.ms": "30000",
        # A killed broker can register again only after its old session: 18 s by default.
        "zookeeper.session.timeout.ms": "2000",
        "listeners": _listener(process),
        "advertised.listeners": _listener(process),
        "listener.security.protocol.map": "BROKER:PLAINTEXT",
        "inter.broker.listener.name": "BROKER",
    }


def _with_kraft(process: Process, keepers: Sequence[Process]) -> dict[str, str]:
    votes = CONTROLLER in process.role
    listeners = [_listener(process)] if process.serves else []
    quorum = ",".join(f"{one.node_id}@{HOST}:{one.keeper_port}" for one in keepers)
    values = {
        "node.id": str(process.node_id),
        "process.roles": process.role,
        "listeners": ",".join(
            [*listeners, *([f"CONTROLLER://{HOST}:{process.keeper_port}"] if votes else [])]
        ),
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": quorum,
        # A killed broker can register again only after its old session: 9 s by default.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }
    if process.serves:
        served = {"advertised.listeners": _listener(process)}
        values |= served | {"inter.broker.listener.name": "BROKER"}
    return values


def _for_tests(brokers: int) -> dict[str, str]:
    replicas = str(min(3, brokers))
    return {
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        # How long a replica that lags stays in sync: 10 s or 30 s by default.
        "replica.lag.time.max.ms": "3000",
        "group.initial.rebalance.delay.ms": "0",
        # The log cleaner's buffer is 128 MiB by default, half of the heap.
        "log.cleaner.dedupe.buffer.size": "20000000",
    }


LOG4J1 = """\
log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File=${kfetch.logs}/server.log
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.kafka.request.logger=${kfetch.requests}, requests
log4j.additivity.kafka.request.logger=false
log4j.appender.requests=org.apache.log4j.FileAppender
log4j.appender.requests.File=${kfetch.logs}/requests.log
log4j.appender.requests.layout=org.apache.log4j.PatternLayout
log4j.appender.requests.layout.ConversionPattern=%m%n
"""
"""The logging of brokers up to 3.9. Those from 4.0 on have ``settings.LOG4J2``."""
