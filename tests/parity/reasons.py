"""Why kfetch differs in some of the connector's cases, and why others have no test here."""

from __future__ import annotations

from dataclasses import dataclass

from tests.parity.cases import Name, matching

__all__ = ["DIFFERENCES", "REASONS", "Reason"]


@dataclass(frozen=True)
class Reason:
    """A part of the connector that kfetch does not have, with its cases."""

    part: str
    sentence: str
    patterns: tuple[Name, ...]
    """Suites and names. ``*`` stands for any text."""

    def cases(self) -> list[Name]:
        """Returns the connector's cases, each once."""
        found = [case for pattern in self.patterns for case in matching(*pattern)]
        return list(dict.fromkeys(found))


_METRICS = (
    "Spark has no place for the metrics of a Python source. kfetch.LagListener computes the lag "
    "from the progress."
)
_START_FILE = (
    "Spark shows this file to no Python source, so the first offset in kfetch's own form carries "
    "the start of batch 0. The command `kfetch checkpoint {} the connector's file."
)
_NO_GROUP = (
    "kfetch joins no consumer group. It accepts the option and warns that it has no effect. "
    "`kfetch.commitGroup` shows progress to tools for groups."
)
_MICRO_BATCH = "KafkaMicroBatchSourceSuiteBase"

DIFFERENCES: dict[Name, str] = {
    ("ConsumerStrategySuite", "AssignStrategy.assignedTopicPartitions must skip *"): (
        "The connector leaves out partitions that do not exist. kfetch fails, because a misspelt "
        "name would look like an idle topic."
    ),
    (_MICRO_BATCH, "allow group.id *"): _NO_GROUP,
    (_MICRO_BATCH, "ensure that initial offset are written *"): _START_FILE.format(
        "to-kafka` writes"
    ),
    (_MICRO_BATCH, "deserialization of initial offset *"): _START_FILE.format("show` reads"),
    (_MICRO_BATCH, "ensure stream-stream self-join *"): (
        "The connector's case has one offset in the log. The same program in Python has two, with "
        "the connector as well as with kfetch. The topic is read twice, and each pair comes once."
    ),
    ("KafkaMicroBatchV2SourceSuite", "test custom metrics *"): _METRICS,
    ("KafkaMicroBatchV2SourceSuite", "SPARK-57438: *"): _METRICS,
    ("KafkaRelationSuiteBase", "test late binding start offsets"): (
        "Both bind offsets after load(). Spark plans a DataFrame of a Python source once. To see "
        "newer records, call load() again."
    ),
}
"""What kfetch does in another way than the connector on purpose, and why, in a sentence or two."""

REASONS = (
    Reason(
        "Writing to Kafka",
        "kfetch is a source and does not write. Its queries may write with the connector.",
        (("KafkaSink*", "*"), ("KafkaContinuousSinkSuite", "*"), ("InternalKafkaProducer*", "*")),
    ),
    Reason(
        "Continuous processing",
        "Spark runs continuous processing with sources in the JVM only.",
        (
            ("KafkaContinuousSource*", "*"),
            ("KafkaContinuousTest", "*"),
            ("KafkaDontFailOnDataLossSuite", "*continuous processing"),
            ("KafkaSourceProviderSuite", "continuous mode*"),
        ),
    ),
    Reason(
        "Real-time mode",
        "Spark runs its real-time mode with sources in the JVM only.",
        (("KafkaRealTime*", "*"), ("KafkaConsumerPoolRealTimeModeSuite", "*")),
    ),
    Reason(
        "The older interface of sources, and the choice between the two",
        "A Python source has one interface. The same cases with the newer one are above.",
        (
            ("KafkaDontFailOnDataLossSuite", "*v1"),
            ("KafkaMicroBatchV1SourceSuite", "*"),
            ("KafkaMicroBatchV2SourceSuite", "V2 Source is used by default"),
            ("KafkaRelationSuiteV1", "V1 Source is used when set through SQLConf"),
            ("KafkaRelationSuiteV2", "*"),
        ),
    ),
    Reason(
        "Java clients and their pools",
        "kfetch has no Java client. One agent per executor holds its fetch sessions instead, "
        "which tests/kfetch/agent and tests/kfetch/session test.",
        (
            ("ConsumerStrategySuite", "createAdmin*"),
            ("FetchedDataPoolSuite", "*"),
            ("InternalKafkaConsumerPoolSuite", "*"),
            ("KafkaDataConsumerSuite", "SPARK-19886*"),
            ("KafkaSparkConfSuite", "*"),
        ),
    ),
    Reason(
        "Delegation tokens",
        "Spark fetches delegation tokens in the JVM and shows them to no Python source. "
        "kfetch logs in with the mechanisms of docs/how-to/sasl.md.",
        (
            ("KafkaDelegationTokenSuite", "*"),
            ("KafkaDataConsumerSuite", "*same token"),
            ("KafkaDataConsumerSuite", "*token renewal"),
        ),
    ),
    Reason(
        "The executor that a task prefers",
        "A Python source cannot name one. The ranges themselves are those of the case without "
        "executors.",
        (("KafkaOffsetRangeCalculatorSuite", "*with executors"),),
    ),
)
