"""What a Kafka node is told: its server.properties, its log4j2 configuration, its JVM flags.

Pure: text from values. The defaults are those of a test cluster, where Kafka's own would make it
slow (waiting for group members that never come) or impossible (three replicas on one node).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "HOST",
    "KAFKA",
    "LOG4J2",
    "LOGS_PROPERTY",
    "NodePorts",
    "controllers",
    "jvm_flags",
    "server_properties",
]

HOST = "127.0.0.1"
LOGS_PROPERTY = "kfetch.logs"
"""Of a node's JVM: the directory of its logs. It tells whose a process is, too."""

# The tools' jar has what `kafka` needs for formatting. Without a binding slf4j drops every line of
# the broker's log; 2.25.4 is the log4j that Kafka 4.3.1 brings.
KAFKA = (
    "org.apache.kafka:kafka_2.13:4.3.1",
    "org.apache.kafka:kafka-tools:4.3.1",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePorts:
    """Where a node listens."""

    node_id: int
    port: int
    """for clients and the other brokers"""
    controller_port: int
    """for KRaft; unused by a node that is a broker only"""


def controllers(nodes: Sequence[NodePorts]) -> Sequence[NodePorts]:
    """The nodes that vote: three of three or more, else one.

    Two voters would be worse than one: the death of either would stop the cluster.
    """
    return nodes[:3] if len(nodes) >= 3 else nodes[:1]


def server_properties(
    node_id: int, nodes: Sequence[NodePorts], data: Path, extra: Mapping[str, str]
) -> str:
    """The text of one node's server.properties; ``extra`` has the last word."""
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
        # A mistyped topic must fail, not spring into being.
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "share.coordinator.state.topic.replication.factor": replicas,
        # One replica left must still do: nodes get killed here.
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # 50 partitions each by default: seconds of work at the first commit or transaction.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        # A killed node may register again only when its old session is over: 9 s by default.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }


def jvm_flags(heap: str) -> list[str]:
    """Flags for a broker that starts fast on a small machine and is still worth measuring."""
    return [
        f"-Xmx{heap}",
        # The heap's full size at once: no collections during start-up only to grow it.
        f"-Xms{heap}",
        # Serial: at this heap its pauses are milliseconds, and G1's barriers and helper threads
        # would take CPU from the two cores that the test itself runs on. No TieredStopAtLevel: it
        # starts faster, but the benchmarks compare broker CPU, and that needs the real compiler.
        "-XX:+UseSerialGC",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        "-Djava.net.preferIPv4Stack=true",
    ]


# XML is the one format that log4j reads without a further jar. The broker's stdout keeps what the
# JVM itself says: a crash, a flag it does not know.
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
