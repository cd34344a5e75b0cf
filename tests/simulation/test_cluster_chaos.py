"""Chaos of a cluster: actions are drawn ahead, and the model stays true to its account."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from uuid import UUID

import pytest

from simulation.cluster import chaos
from simulation.cluster.chaos import WEIGHTS, Action, Chaos, Profile, draw
from simulation.cluster.cluster import Cluster, Listener, Place, Records
from simulation.cluster.releases import RELEASES
from simulation.kernel import Kernel
from simulation.network import Network

TOPICS = {"a": 3, "b": 2}
SECONDS = 60.0
BUSY = Profile(actions_per_s=5.0)


class Account(Listener):
    """Where each acknowledged record must be, unless it is gone."""

    def __init__(self) -> None:
        self.places: dict[bytes, tuple[UUID, Place, int]] = {}
        self.gone: set[bytes] = set()

    def acknowledged(
        self, topic_id: UUID, place: Place, base: int, values: Sequence[bytes]
    ) -> None:
        assert self.places.keys().isdisjoint(values)
        self.places.update(
            {value: (topic_id, place, base + number) for number, value in enumerate(values)}
        )

    def lost(self, topic_id: UUID, place: Place, records: Records, kept: int) -> None:
        assert all(self.places[value] == (topic_id, place, offset) for offset, value in records)
        self.gone.update(value for _, value in records)

    def expired(self, topic_id: UUID, place: Place, records: Records, start: int) -> None:
        self.gone.update(value for _, value in records)

    def deleted(self, topic_id: UUID, place: Place, records: Records) -> None:
        self.gone.update(value for _, value in records)


class World:
    """A cluster under chaos without clients."""

    def __init__(self, seed: int) -> None:
        self.kernel, self.account = Kernel(seed), Account()
        chance = Random(seed)
        release = chance.choice(list(RELEASES.values()))
        self.cluster = Cluster(3, chance, release=release, listener=self.account)
        for name, partitions in TOPICS.items():
            self.cluster.create_topic(name, partitions, 0.0, replicas=chance.choice([2, 3]))
        self.story: list[str] = []
        network = Network(self.kernel, self.cluster)
        self.chaos = Chaos(self.kernel, self.cluster, network, tell=self.story.append)

    def run(self, actions: list[Action]) -> None:
        """Let the actions happen, then end all faults."""
        self.chaos.schedule(actions)
        self.kernel.run(self.kernel.now + SECONDS)
        self.chaos.heal()
        self.kernel.run(self.kernel.now + 60)

    def survivors(self) -> dict[bytes, tuple[UUID, Place, int]]:
        """Where each record is now."""
        return {
            value: (topic.id, (topic.name, index), offset)
            for topic in self.cluster.image.topics.values()
            for index in range(len(topic.partitions))
            for offset, value in self.cluster.surviving(topic.name, index)
        }


@pytest.mark.parametrize("seed", range(8))
def test_what_was_acknowledged_is_there_or_told(seed: int) -> None:
    """Each acknowledged record is at its offset, or the listener was told that it is gone."""
    world = World(seed)
    weights = {**WEIGHTS, "transaction": 0.0, "delete_topic": 0.0}
    world.run(draw(Random(seed), Profile(actions_per_s=5.0, weights=weights), SECONDS, TOPICS, 3))

    left = {v: at for v, at in world.account.places.items() if v not in world.account.gone}
    assert left == world.survivors()


@pytest.mark.parametrize("seed", range(8))
def test_replicas_agree_in_the_end(seed: int) -> None:
    """After all faults the replicas of a partition have the same log, and no transaction runs."""
    world = World(seed)
    world.run(draw(Random(seed), BUSY, SECONDS, TOPICS, 3))
    for topic in world.cluster.image.topics.values():
        for index, partition in enumerate(topic.partitions):
            brokers = [world.cluster.brokers[number] for number in partition.replicas]
            logs = [broker.hosted[topic.name, index].log for broker in brokers]
            assert all(log.batches == logs[0].batches for log in logs)
            assert {(log.start, log.end, log.end) for log in logs} == {
                (log.start, log.end, log.high_watermark) for log in logs
            }
            assert not logs[0].open


def test_the_same_seed_tells_the_same_story() -> None:
    """One seed has one story."""
    stories = []
    for _ in range(2):
        world = World(3)
        world.run(draw(Random(3), BUSY, SECONDS, TOPICS, 3))
        stories.append(world.story)

    assert stories[0] == stories[1]
    assert len(stories[0]) > 100


def test_actions_are_drawn_ahead() -> None:
    """Without one action, the others have the same times and arguments. Each prints as a line."""
    actions = draw(Random(1), BUSY, SECONDS, TOPICS, 3)
    world = World(1)
    world.run(actions[:10] + actions[11:])

    assert actions == draw(Random(1), BUSY, SECONDS, TOPICS, 3)
    assert sorted(actions, key=lambda action: action.at_s) == actions
    assert "    1.500  elect topic=a partition=2" == str(
        Action(1.5, "elect", {"topic": "a", "partition": 2})
    )


def test_every_kind_happens() -> None:
    """Each kind of action has a method, arguments and a weight."""
    kinds = {action.kind for action in draw(Random(1), BUSY, 2000.0, TOPICS, 3)}

    assert set(WEIGHTS) == kinds == set(chaos._ARGUMENTS)
    assert all(hasattr(Chaos, kind) for kind in kinds)
