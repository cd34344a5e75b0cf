"""The versions of Kafka that the tests run, and what each can do.

    python -m integration.brokers.versions   prints the table of docs/reference/broker-versions.md

A broker tells its clients the newest version of each API. What a broker lacks follows from that, so
``Release.apis`` is the only thing that is written down per version. ``test_versions`` compares it
with the brokers' own answers, and takes from it what to expect of kfetch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

FETCH, LIST_OFFSETS, METADATA, EPOCHS, DESCRIBE = 1, 2, 3, 23, 75
"""Keys of APIs: Fetch, ListOffsets, Metadata, OffsetForLeaderEpoch, DescribeTopicPartitions."""
API_NAMES = {
    FETCH: "Fetch",
    LIST_OFFSETS: "ListOffsets",
    METADATA: "Metadata",
    EPOCHS: "OffsetForLeaderEpoch",
    DESCRIBE: "DescribeTopicPartitions",
}
_ABSENT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Something that brokers can do from some version of an API on."""

    name: str
    api: int
    since: int
    """The lowest version of the API."""
    without: str
    """What kfetch does with a broker that lacks it."""


SESSIONS = Feature(
    name="Fetch sessions (KIP-227)",
    api=FETCH,
    since=7,
    without="kfetch names every partition in each request.",
)
CHECKED_OPERATIONS = Feature(
    name="Permissions in metadata (KIP-430)",
    api=METADATA,
    since=8,
    without="`kfetch check`, `plan` and `lag` do not notice a topic that may be described and "
    "not read. The first read fails.",
)
RELIABLE_EPOCHS = Feature(
    name="Reliable leader epochs in metadata (KAFKA-9212)",
    api=METADATA,
    since=9,
    without="kfetch ignores the epochs in metadata. It cannot see that a broker's metadata is old.",
)
EPOCH_ENDS = Feature(
    name="Epoch ends for consumers (KIP-320, KAFKA-8422)",
    api=EPOCHS,
    since=3,
    without="kfetch does not compare positions with the leader's epochs.",
)
NEAR_REPLICAS = Feature(
    name="Reads from the nearest replica (KIP-392)",
    api=FETCH,
    since=11,
    without="kfetch reads from the leaders. `kafka.client.rack` has no effect.",
)
CHECKED_EPOCHS = Feature(
    name="Leader epochs checked in sessions (KAFKA-9338), truncation in fetch replies (KIP-595)",
    api=FETCH,
    since=12,
    without="Positions that come from a session have no epochs. A truncated log that ends before "
    "the query's position is an error. **kfetch may not notice a truncated log that has grown past "
    "the position.**",
)
TOPIC_IDS = Feature(
    name="Topic ids (KIP-516)",
    api=METADATA,
    since=10,
    without="A topic that was created again and ends before the query's position is an error. "
    "**kfetch does not notice a new topic that is longer.**",
)
FETCHED_IDS = Feature(
    name="Topic ids in fetches (KIP-516)",
    api=FETCH,
    since=13,
    without="Fetches name topics. kfetch compares the ids of metadata. If a topic is created "
    "again between a plan and its read, some records of the new topic may come twice.",
)
LEADERS_IN_REPLIES = Feature(
    name="The new leader in fetch replies (KIP-951)",
    api=FETCH,
    since=16,
    without="After a change of the leader, kfetch asks for metadata.",
)
GROWTH_QUESTIONS = Feature(
    name="DescribeTopicPartitions (KIP-966)",
    api=DESCRIBE,
    since=0,
    without="The driver asks for all metadata of its topics every `kafka.metadata.max.age.ms`.",
)
REBOOTSTRAP = Feature(
    name="Brokers that send clients away (KIP-1102)",
    api=METADATA,
    since=13,
    without="kfetch leaves a broker when it does not answer.",
)

FEATURES = (
    SESSIONS,
    CHECKED_OPERATIONS,
    RELIABLE_EPOCHS,
    EPOCH_ENDS,
    NEAR_REPLICAS,
    CHECKED_EPOCHS,
    TOPIC_IDS,
    FETCHED_IDS,
    LEADERS_IN_REPLIES,
    GROWTH_QUESTIONS,
    REBOOTSTRAP,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A version of Kafka."""

    version: str
    apis: Mapping[int, int] = field(hash=False)
    """The newest version of each API, by key. A missing API is unknown to the broker."""
    scala: str = "2.13"
    with_zookeeper: bool = False
    replaced: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Jars that stand for those of the release: coordinates by the start of the jar's name."""

    @property
    def name(self) -> str:
        """Major and minor version."""
        return self.version.rpartition(".")[0]

    @property
    def logs_with_log4j1(self) -> bool:
        """Whether the broker needs log4j 1, for which reload4j stands."""
        return int(self.version.split(".")[0]) < 4

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The Maven coordinates of the broker, and of a binding of slf4j."""
        return (f"org.apache.kafka:kafka_{self.scala}:{self.version}", *self._logging)

    @property
    def _logging(self) -> tuple[str, ...]:
        if self.logs_with_log4j1:
            return "ch.qos.reload4j:reload4j:1.2.25", "org.slf4j:slf4j-reload4j:1.7.36"
        return ("org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",)

    def has(self, feature: Feature) -> bool:
        """Whether the broker can do this."""
        return self.apis.get(feature.api, _ABSENT) >= feature.since


def _apis(
    fetch: int, offsets: int, metadata: int, epochs: int, describe: int = -1
) -> dict[int, int]:
    known = {FETCH: fetch, LIST_OFFSETS: offsets, METADATA: metadata, EPOCHS: epochs}
    return known if describe == _ABSENT else known | {DESCRIBE: describe}


RELEASES = (
    Release(
        version="2.1.1",
        scala="2.12",
        with_zookeeper=True,
        # ZooKeeper 3.4 reads a host from InetSocketAddress.toString(), which Java 14 changed.
        replaced={
            "zookeeper-": "org.apache.zookeeper:zookeeper:3.5.9",
            "zookeeper-jute-": "org.apache.zookeeper:zookeeper-jute:3.5.9",
        },
        apis=_apis(10, 4, 7, 2),
    ),
    Release(version="2.4.1", with_zookeeper=True, apis=_apis(11, 5, 9, 3)),
    Release(version="2.8.2", with_zookeeper=True, apis=_apis(12, 6, 11, 4)),
    Release(version="3.3.2", apis=_apis(13, 7, 12, 4)),
    Release(version="3.9.1", apis=_apis(17, 9, 12, 4, 0)),
    Release(version="4.0.1", apis=_apis(17, 10, 13, 4, 0)),
    Release(version="4.3.1", apis=_apis(18, 11, 13, 4, 0)),
)


def release(name: str) -> Release:
    """Returns the release of a major and minor version, such as 2.8."""
    return next(one for one in RELEASES if one.name == name)


def table() -> str:
    """Returns the table of docs/reference/broker-versions.md: a line for each feature."""
    names = " | ".join(one.name for one in RELEASES)
    lines = [f"| a broker's feature | {names} | without it |"]
    lines += ["|---" * (len(RELEASES) + 2) + "|"]
    for feature in FEATURES:
        cells = " | ".join("yes" if one.has(feature) else "no" for one in RELEASES)
        lines.append(f"| {feature.name} | {cells} | {feature.without} |")
    for key, name in API_NAMES.items():
        cells = " | ".join(str(one.apis.get(key, "no")) for one in RELEASES)
        lines.append(f"| newest version of {name} | {cells} | |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
