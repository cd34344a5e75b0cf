"""Keeps the watch in step with the cluster: periodic metadata, and log ends for new partitions.

Every ``kafka.metadata.max.age.ms`` the driver asks for changes. Large topics get a small question
about growth, and every tenth time all metadata. The driver asks for metadata earlier, with
back-off, while a partition has no known leader or a broker is unreachable. It looks up log ends for
new partitions, for the ends of an AvailableNow query and, with back-off, for positions out of
range.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from kfetch import losses
from kfetch.model import NO_TOPIC_ID, ClusterView, Leader, TopicPartition
from kfetch.offsets import Offsets
from kfetch.options import NetworkOptions
from kfetch.watch.lookups import OffsetLookup
from kfetch.watch.missing_partitions import MissingPartitions
from kfetch.watch.watch import Watch
from kfetch.wire.retry import PacedRepair

log = logging.getLogger(__name__)

# Metadata also shows every change that a question about growth can't show. The default period of
# ten refreshes is 5 min, as in Kafka's own clients.
_FULL_METADATA_EVERY = 10


class MetadataRefresh:
    """Tells a watch its partitions, their leaders and their log ends."""

    def __init__(self, network: NetworkOptions, lookup: OffsetLookup, watch: Watch) -> None:
        self._network = network
        self._lookup = lookup
        self._watch = watch
        self._view: ClusterView | None = None
        """The last metadata, None if a partition in it has no leader."""
        self._refresh_due = 0.0
        self._growth_checks = 0
        """Number of growth checks since ``_view``."""
        self._missing = MissingPartitions(lookup)
        self._offsets = Offsets(positions={})
        """The query's offsets: their partitions should exist."""
        self._leader_repair = PacedRepair(network)
        self._range_repair = PacedRepair(network)
        self.initialized = False
        """Whether every partition has had a position once."""

    def refresh_if_due(self, offsets: Offsets) -> bool:
        """Ask for metadata and log ends if they are due or needed.

        ``offsets`` are the query's: their partitions should exist. Returns whether a refresh was
        due.
        """
        now = time.monotonic()
        self._offsets = offsets
        needed = self._watch.needs_metadata or bool(self._missing.hidden)
        repair_due = self._leader_repair.is_due(now, ["leaders"] if needed else [])
        due = repair_due or now >= self._refresh_due
        if due and not needed and self._growth_check_suffices():
            self._growth_checks += 1
            self._refresh_due = now + self._network.metadata_max_age_s
        elif due:
            self._refresh_metadata()
            self._leader_repair.ended(time.monotonic())
        partitions = self._watch.out_of_range
        if self._range_repair.is_due(time.monotonic(), partitions):
            self.refresh_log_ends(partitions)
            self._range_repair.ended(time.monotonic())
        return due

    def apply(self, view: ClusterView) -> None:
        """Give metadata to the watch, and look up the log ends of new partitions.

        A partition that the watch has not seen yet may be hidden, as after a restart. Then this
        method waits until it shows or is gone.
        """
        watched = set(self._watch.state.partitions)
        view = self._look(view, watched)
        while not self._missing.hidden <= watched:
            self._missing.pause()
            view = self._look(self._lookup.cluster_view(), watched)
        subscribed = self._lookup.subscribed_partitions(view)
        new = self._watch.update_metadata(view, subscribed, self._missing.hidden)
        if self.initialized:  # a new partition without a leader must not delay the others
            new = [tp for tp in new if view.leader(tp) is not None]
        self._watch_from_log_ends(new, {tp: view.leader(tp) for tp in new})
        ids = [topic.topic_id for topic in view.topics.values()]
        if not self.initialized and NO_TOPIC_ID in ids:
            log.warning("kfetch: %s", losses.NO_TOPIC_IDS)
        self.initialized = True
        # A growth check says nothing of a partition without a leader, but metadata does.
        led = all(leader for topic in view.topics.values() for leader in topic.leaders.values())
        self._view, self._growth_checks = view if led else None, 0

    def refresh_log_ends(self, partitions: list[TopicPartition]) -> None:
        """Look up the log ends of watched partitions again."""
        leaders = {tp: self._watch.state.leader(tp) for tp in partitions}
        self._watch_from_log_ends(partitions, leaders)

    def _growth_check_suffices(self) -> bool:
        """Returns whether a growth check may replace metadata now and finds no change."""
        if self._view is None or self._growth_checks + 1 >= _FULL_METADATA_EVERY:
            return False
        return not self._lookup.may_have_changed(self._view)

    def _look(self, view: ClusterView, watched: set[TopicPartition]) -> ClusterView:
        expected = watched.union(self._offsets.positions)
        return self._missing.look(
            view, expected, {**self._offsets.topic_ids, **self._watch.state.topic_ids}
        )

    def _refresh_metadata(self) -> None:
        self.apply(self._lookup.cluster_view())
        self._refresh_due = time.monotonic() + self._network.metadata_max_age_s

    def _watch_from_log_ends(
        self, partitions: list[TopicPartition], leaders: Mapping[TopicPartition, Leader | None]
    ) -> None:
        log_starts = self._lookup.log_starts(partitions)
        log_ends = self._lookup.log_ends(log_starts)  # one that was gone is new the next time
        self._watch.watch_from(log_ends, leaders, log_starts)
