"""A query that watches a little Kafka with its threads."""

from __future__ import annotations

import time
from collections.abc import Callable

from kfetch.model import Broker, TopicPartition
from kfetch.spark import options as parsing
from kfetch.watch.lookups import OffsetLookup
from kfetch.watch.poller import Poller
from kfetch.watch.watch import Watch
from tests.kfetch.wire.little import LittleKafka

PATIENCE_S = 60.0


class Query:
    """A watch over all of t, from the current log ends on."""

    def __init__(self, kafka: LittleKafka, **options: str):
        chosen = {
            "kafka.bootstrap.servers": kafka.bootstrap,
            "subscribe": "t",
            "kafka.request.timeout.ms": "60000",
            "kafka.retry.backoff.ms": "1",
            "kafka.retry.backoff.max.ms": "2",
            "fetchOffset.numRetries": "0",
        }
        chosen |= {n.replace("__", "."): v for n, v in options.items()}
        parsed = parsing.parse(chosen)
        self.lookup = OffsetLookup(parsed)
        self.watch = Watch(parsed)
        self.changed: set[TopicPartition] = set()
        self.refresh_metadata()
        self.changed.clear()

    def refresh_metadata(self) -> None:
        """Apply metadata, and watch new partitions from their log ends on."""
        view = self.lookup.cluster_view()
        new = self.watch.update_metadata(view, self.lookup.subscribed_partitions(view))
        leaders = {tp: view.leader(tp) for tp in new}
        self.watch.watch_from(self.lookup.log_ends(new), leaders, self.lookup.log_starts(new))
        self.changed |= self.watch.take_changed()

    def until(self, condition: Callable[[], object]) -> None:
        """Take changes until a condition is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline
            self.watch.wait_for_change(0.01)
            self.changed |= self.watch.take_changed()

    @property
    def pollers(self) -> dict[Broker, Poller]:
        """The pollers of the watch, by their brokers."""
        return self.watch._pollers

    def close(self) -> None:
        """Close the sessions and connections."""
        self.watch.close()
        self.lookup.close()
