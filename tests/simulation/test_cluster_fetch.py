"""The model's answers to Fetch, read by kfetch's own decoder and session."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from kfetch.model import NO_TOPIC_ID, FetchPosition, TopicPartition
from kfetch.options import FetchOptions
from kfetch.session.replies import TOPIC_ID_VERSION, FetchReply
from kfetch.session.session import FetchSession
from kfetch.session.transitions import SessionEvent
from kfetch.wire import fetch
from simulation.cluster.cluster import Cluster
from simulation.cluster.fetching import Fetch
from simulation.cluster.releases import FETCH, RELEASES, Release

PARTITIONS = 3


class Client:
    """A session at the first broker, over a topic of three partitions."""

    def __init__(self, release: Release) -> None:
        self.cluster = Cluster(2, Random(1), release=release, near_replicas=True, racks=["a", "b"])
        placed = [[1, 2]] * PARTITIONS
        self.topic_id = self.cluster.create_topic("t", PARTITIONS, 0.0, placed=placed)
        self.version = release.apis[FETCH][1]
        self.session = FetchSession(topic_ids=self.by_id)
        self.options = FetchOptions(max_wait_ms=0)
        self.late: list[bytes] = []
        self.now_ms = 0.0

    @property
    def by_id(self) -> bool:
        """Whether the release names topics by id."""
        return self.version >= TOPIC_ID_VERSION

    def put(self, partition: int, *values: bytes) -> None:
        """Write a batch."""
        self.cluster.produce("t", partition, values, self.now_ms)

    def at(
        self, *offsets: int, epoch: int = -1, last: int = -1
    ) -> dict[TopicPartition, FetchPosition]:
        """Positions of the first partitions."""
        return {
            TopicPartition("t", index): FetchPosition(
                topic_id=self.topic_id if self.by_id else NO_TOPIC_ID,
                offset=offset,
                max_bytes=1000,
                leader_epoch=epoch,
                last_fetched_epoch=last,
            )
            for index, offset in enumerate(offsets)
        }

    def ask(
        self, changes: dict[TopicPartition, FetchPosition | None], rack: str = ""
    ) -> tuple[SessionEvent, FetchReply] | Fetch:
        """Returns what the session says of the reply, and the reply; or the fetch that waits."""
        plan = self.session.plan(changes)
        request = fetch.request(plan, self.version, self.options, rack)
        reply = self.cluster.brokers[1].handle(request, self.now_ms)
        if isinstance(reply, Fetch):
            reply.on_reply = self.late.append
            return reply
        read = fetch.read_reply(memoryview(reply), self.version)
        return self.session.accept(plan, read.for_session()).event, read

    def answer(
        self, changes: dict[TopicPartition, FetchPosition | None], rack: str = ""
    ) -> FetchReply:
        """Returns the reply that came at once."""
        asked = self.ask(changes, rack)
        assert not isinstance(asked, Fetch)
        return asked[1]


@pytest.fixture(params=RELEASES.values(), ids=lambda one: one.name)
def client(request: pytest.FixtureRequest) -> Client:
    """A client of each release."""
    return Client(request.param)


def told(reply: FetchReply) -> list[tuple[int, int, int, bool]]:
    """Partition, error, high watermark, and whether there are records."""
    return [(p.key[1], p.error, p.high_watermark, bool(p.records)) for p in reply.partitions]


def test_a_session_tells_news_alone(client: Client) -> None:
    """After its first reply a session names only the partitions that have news."""
    client.put(0, b"a")
    first = client.ask({**client.at(1, 0)})
    assert not isinstance(first, Fetch)
    assert (SessionEvent.OPENED, [(0, 0, 1, False), (1, 0, 0, False)]) == (first[0], told(first[1]))
    assert [] == told(client.answer({}))

    client.put(1, b"b")
    assert [(1, 0, 1, True)] == told(client.answer({}))


def test_who_had_records_comes_last(client: Client) -> None:
    """A partition that sent records goes to the end of its session."""
    for index in range(PARTITIONS):
        client.put(index, b"a")
    client.ask({**client.at(0, 1, 1)})
    first = client.answer({})
    second = client.answer({**client.at(0, 0, 0)})

    assert [0] == [p.key[1] for p in first.partitions]
    assert [1, 2, 0] == [p.key[1] for p in second.partitions]


def waiting(epoch: int = -1) -> tuple[Client, Fetch]:
    """A client whose session waits for news of its partition, and its fetch."""
    client = Client(RELEASES["4.3"])
    client.ask({**client.at(0, epoch=epoch)})
    client.options = FetchOptions(max_wait_ms=500)
    fetched = client.ask({})
    assert isinstance(fetched, Fetch)
    assert not client.late
    return client, fetched


def test_a_long_poll_ends_with_a_record() -> None:
    """A fetch waits until there is a record, and ends at once then."""
    client, _ = waiting()
    client.put(0, b"a")

    (frame,) = client.late
    assert [(0, 0, 1, True)] == told(fetch.read_reply(memoryview(frame), client.version))


def test_a_long_poll_ends_with_its_time() -> None:
    """A fetch without news is answered after its time, without partitions."""
    client, fetched = waiting()
    assert 500 == fetched.until_ms
    client.cluster.brokers[1].end_wait(fetched, 500.0)

    assert [] == told(fetch.read_reply(memoryview(client.late[0]), client.version))


@pytest.mark.parametrize("change", ["elect", "delete_topic", "stop"])
def test_a_long_poll_ends_with_a_change(change: str) -> None:
    """An election or the topic's end answers a long poll. The broker's end drops it."""
    client, fetched = waiting(epoch=0)
    if change == "elect":
        client.cluster.elect("t", 0, 1.0)
    elif change == "delete_topic":
        client.cluster.delete_topic("t", 1.0)
    else:
        client.cluster.stop_broker(1, 1.0)
    expected = {"elect": [74], "delete_topic": [3], "stop": []}[change]
    replies = [fetch.read_reply(memoryview(frame), client.version) for frame in client.late]

    assert fetched.done
    assert expected == [p.error for reply in replies for p in reply.partitions]


def test_a_new_leader_is_named(client: Client) -> None:
    """From version 16 on, a broker names the leader that has fenced a client (KIP-951)."""
    client.cluster.elect("t", 0, 0.0)
    reply = client.answer({**client.at(0, epoch=0)})
    (partition,) = reply.partitions
    named = (partition.leader, [b.host for b in reply.endpoints.values()])

    assert 74 == partition.error
    assert named == (((2, 1), ["broker-2"]) if client.version >= 16 else (None, []))


def test_a_position_beyond_the_end(client: Client) -> None:
    """A position beyond the log is out of range, or diverges if the client names its epoch."""
    client.put(0, b"a")
    client.cluster.elect("t", 0, 0.0)
    client.cluster.elect("t", 0, 0.0, leader=1)
    outside = client.answer({**client.at(9)})
    diverging = client.answer({**client.at(9, last=0)})

    assert [(0, 1, -1, False)] == told(outside)
    assert [(0, 0, 1, False)] == told(diverging)
    assert (0, 1) == diverging.partitions[0].diverging


def test_throttled(client: Client) -> None:
    """A throttled reply has no partitions. A session's epoch is counted all the same."""
    client.ask({**client.at(0)})
    client.put(0, b"a")
    client.cluster.brokers[1].throttled_until_ms = 70.0
    throttled = client.ask({})
    assert not isinstance(throttled, Fetch)
    client.now_ms = 70.0

    assert (SessionEvent.CONTINUED, 70) == (throttled[0], throttled[1].throttle_ms)
    assert [] == told(throttled[1])
    assert [(0, 0, 1, True)] == told(client.answer({}))


def test_a_near_replica_is_named(client: Client) -> None:
    """A leader names the follower in the client's rack, and sends no records (KIP-392)."""
    client.put(0, b"a")
    reply = client.answer({**client.at(0)}, rack="b")
    (partition,) = reply.partitions

    assert (2, 0) == (partition.preferred_read_replica, len(partition.records))


def test_created_again(client: Client) -> None:
    """A session by id over a topic that was created again tells so. One by name reads on."""
    client.ask({**client.at(0)})
    client.cluster.recreate_topic("t", 0.0)
    client.cluster.elect("t", 0, 0.0, leader=1)
    client.put(0, b"new")
    (partition,) = client.answer({}).partitions

    assert (103 if client.by_id else 0) == partition.error
    assert isinstance(partition.key[0], UUID) is client.by_id
