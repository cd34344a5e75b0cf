"""A little Kafka with racks: each node has a replica of each partition, as KIP-392 sees it.

A leader that gets a rack names the follower there instead of sending records, as Kafka's
RackAwareReplicaSelector does. A follower answers fetches, and no other requests.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from typing import Any

from kfetch.model import TopicPartition
from tests.kfetch.wire.little import NOT_LEADER, LittleKafka, Partition
from tests.kfetch.wire.log import Log


class RackKafka(LittleKafka):
    """Nodes 1, 2, … in the racks r1, r2, …."""

    def __init__(self, nodes: int = 3, versions: Any = None) -> None:
        super().__init__(nodes, versions)
        for number, node in self.nodes.items():
            node.rack = f"r{number}"
        self.follower_ends: dict[tuple[int, TopicPartition], int] = {}
        """Where a follower's log ends, if it lags: (node, partition) to an offset."""
        self.follower_errors: dict[TopicPartition, list[int]] = defaultdict(list)
        """Errors to answer to the next fetches from followers."""
        self.offers_anything = False
        """Whether leaders name followers that lag, too."""
        self.selects = True
        """Whether the brokers have a replica selector."""
        self.always_names: int | None = None
        """A follower that leaders name without any rack, as a selector of one's own may do."""
        self.served: list[tuple[int, TopicPartition, int, int]] = []
        """(node, partition, fetch offset, bytes) of each piece of records."""
        self._asked_rack: str | None = None
        """The rack of the fetch that is being answered; None outside of fetches."""

    def racks(self, node: int) -> list[str]:
        """The racks that fetches at a node named."""
        return [r.rack_id for r in self.nodes[node].requests if type(r).name == "FetchRequest"]

    def nodes_of(self, tp: TopicPartition) -> list[int]:
        """The nodes that served a partition's records, in order, each turn once."""
        nodes = [node for node, served, _, _ in self.served if served == tp]
        return [node for at, node in enumerate(nodes) if at == 0 or nodes[at - 1] != node]

    def fetch(self, node: int, request: Any) -> Any:
        self._asked_rack = request.rack_id if request.API_VERSION >= 11 else ""
        try:
            return super().fetch(node, request)
        finally:
            self._asked_rack = None

    def _find(self, node: int, name: str | None, index: int) -> tuple[Log | None, int]:
        log, error = super()._find(node, name, index)
        if log is None or error != NOT_LEADER or self._asked_rack is None:
            return log, error
        return self.copy_at(node, TopicPartition(str(name), index)), 0

    def copy_at(self, node: int, tp: TopicPartition) -> Log:
        """A follower's copy of the log."""
        replica = copy.copy(self.log(tp))
        end = self.follower_ends.get((node, tp), replica.end)
        replica.batches = [one for one in replica.batches if one[1] <= end]
        return replica

    def fetch_one(self, node: int, key: tuple[Any, int], asked: Any, version: int) -> Any:
        reply = super().fetch_one(node, key, asked, version)
        tp = self._partition(key)
        if tp is None:
            return reply
        if self.log(tp).leader == node:
            follower = None if reply.error_code else self._follower(node, tp, asked.fetch_offset)
            if follower is not None:
                reply.preferred_read_replica, reply.records = follower, b""
        elif self.follower_errors[tp]:
            reply = Partition(
                version=version,
                partition_index=key[1],
                error_code=self.follower_errors[tp].pop(0),
                high_watermark=-1,
                aborted_transactions=None,
                records=b"",
            )
        if reply.records:
            self.served.append((node, tp, asked.fetch_offset, len(reply.records)))
        return reply

    def _partition(self, key: tuple[Any, int]) -> TopicPartition | None:
        topic, index = key
        name = next((n for n, t in self.topics.items() if topic in (n, t.topic_id)), None)
        if name is None or index >= len(self.topics[name].logs):
            return None
        return TopicPartition(name, index)

    def _follower(self, leader: int, tp: TopicPartition, offset: int) -> int | None:
        """The node that a leader names."""
        if self.always_names not in (None, leader):
            return self.always_names
        for number, node in self.nodes.items():
            has_it = self.offers_anything or self.copy_at(number, tp).end >= offset
            if self.selects and node.rack == self._asked_rack and number != leader and has_it:
                return number
        return None
