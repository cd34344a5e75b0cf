"""The configuration of a Kafka node: server.properties, log4j2 configuration, JVM flags.

Pure: text from values. The values suit a test cluster. Kafka's own defaults do not: a cluster waits
for more members of a new group, and one node can't have three replicas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
LOGS_PROPERTY = "kfetch.logs"
"""JVM property with the directory of a node's logs."""

# Formatting needs the tools' jar. Without a binding, slf4j drops every line of the broker's log.
# Kafka 4.3.1 comes with log4j 2.25.4.
KAFKA = (
    "org.apache.kafka:kafka_2.13:4.3.1",
    "org.apache.kafka:kafka-tools:4.3.1",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePorts:
    """The ports of a node."""

    node_id: int
    port: int
    """For clients and the other brokers."""
    controller_port: int
    """For KRaft. A node that is a broker only does not use it."""


def controllers(nodes: Sequence[NodePorts]) -> Sequence[NodePorts]:
    """Returns the nodes that vote: the first three, or one if there are fewer than three.

    Two voters are worse than one: without either of them the cluster stops.
    """
    return nodes[:3] if len(nodes) >= 3 else nodes[:1]


def server_properties(
    node_id: int, nodes: Sequence[NodePorts], data: Path, extra: Mapping[str, str]
) -> str:
    """Returns the text of one node's server.properties. ``extra`` overrides all other values."""
    values = _network(node_id, nodes) | _for_tests(len(nodes)) | {"log.dirs": str(data)}
    lines = [f"{key}={_escaped(value)}" for key, value in (values | dict(extra)).items()]
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _network(node_id: int, nodes: Sequence[NodePorts]) -> dict[str, str]:
    me = next(node for node in nodes if node.node_id == node_id)
    voters = controllers(nodes)
    broker = f"BROKER://{HOST}:{me.port}"
    votes = me in voters
    return {
        "node.id": str(node_id),
        "process.roles": "broker,controller" if votes else "broker",
        "listeners": f"{broker},CONTROLLER://{HOST}:{me.controller_port}" if votes else broker,
        "advertised.listeners": broker,
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "BROKER",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(
            f"{voter.node_id}@{HOST}:{voter.controller_port}" for voter in voters
        ),
    }


def _for_tests(nodes: int) -> dict[str, str]:
    replicas = str(min(3, nodes))
    return {
        "num.partitions": "1",
        "default.replication.factor": "1",
        # A mistyped topic name must fail, and create no topic.
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "share.coordinator.state.topic.replication.factor": replicas,
        # One replica must be enough: tests kill nodes.
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # 50 partitions each by default: seconds of work at the first commit or transaction.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        # A killed node can register again only after its old session: 9 s by default.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }


def jvm_flags(heap: str) -> list[str]:
    """Returns JVM flags for a broker that starts fast, and whose CPU time is worth measuring."""
    return [
        f"-Xmx{heap}",
        # The heap has its full size at once, so the start needs no collections that grow it.
        f"-Xms{heap}",
        # Serial: with this heap its pauses are milliseconds. G1's barriers and helper threads take
        # CPU from the two cores on which the test itself runs. No TieredStopAtLevel: it starts
        # faster, but benchmarks compare the broker's CPU time, which needs the real compiler.
        "-XX:+UseSerialGC",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        "-Djava.net.preferIPv4Stack=true",
    ]


# Without a further jar, log4j reads only XML. The JVM's own messages, such as those of a crash, go
# to the broker's stdout.
LOG4J2 = """\
<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="ERROR" shutdownHook="disable">
  <Appenders>
    <RollingFile name="file" fileName="${sys:kfetch.logs}/server.log"
                 filePattern="${sys:kfetch.logs}/server.log.%i">
      <PatternLayout pattern="[%d] %p %m (%c)%n"/>
      <SizeBasedTriggeringPolicy size="20 MB"/>
      <DefaultRolloverStrategy max="2"/>
    </RollingFile>
    <File name="requests" fileName="${sys:kfetch.logs}/requests.log" createOnDemand="true">
      <PatternLayout pattern="%m%n"/>
    </File>
  </Appenders>
  <Loggers>
    <Logger name="kafka.request.logger" level="${sys:kfetch.requests:-WARN}" additivity="false">
      <AppenderRef ref="requests"/>
    </Logger>
    <Root level="INFO"><AppenderRef ref="file"/></Root>
  </Loggers>
</Configuration>
"""
