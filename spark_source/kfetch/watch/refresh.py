"""Keeping the watch in step with the cluster: metadata when it is due, positions for what is new.

Every ``kafka.metadata.max.age.ms`` the brokers are asked what is new: large topics whether they
have grown, which is a small answer, and every tenth time for all metadata. That is asked for with
back-off too while a partition has no known leader or a broker can't be reached. Log ends are asked
for when a partition is new, when its position is out of range, and when a snapshot wants those of
now.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from kfetch.model import ClusterView, Leader, TopicPartition
from kfetch.offsets import Offsets
from kfetch.options import NetworkOptions
from kfetch.watch.log import Log
from kfetch.watch.watch import Watch
from kfetch.wire.retry import RetryPauses

__all__ = ["MetadataRefresh"]

# Whatever nobody thought of is noticed then: 5 min by default, as in Kafka's own clients.
_ALL_EVERY = 10


class MetadataRefresh:
    """Which partitions a watch has, and where they stand."""

    def __init__(self, network: NetworkOptions, log: Log, watch: Watch) -> None:
        self._network = network
        self._log = log
        self._watch = watch
        self._view: ClusterView | None = None
        self._view_due = 0.0
        self._glances = 0
        """Looks for growth alone since ``_view``."""
        self._retry_due = 0.0
        self._backoff = RetryPauses(network)
        self.begun = False
        """Whether every partition has been given a position once."""

    def catch_up(self, known: Offsets) -> bool:
        """Ask for what is due, or needed. Whether it was time to look what is new."""
        now = time.monotonic()
        unsettled = self._watch.unsettled
        due = now >= self._view_due or (unsettled and now >= self._retry_due)
        if due and not unsettled and self._as_it_was():
            self._glances += 1
            self._view_due = now + self._network.metadata_max_age_s
        elif due:
            self._discover(known)
        if lost := self._watch.out_of_range:
            self.place_anew(lost)
        return due

    def _as_it_was(self) -> bool:
        """Whether a glance is enough, and shows no growth."""
        if self._view is None or self._glances + 1 >= _ALL_EVERY:
            return False
        return not self._log.may_have_changed(self._view)

    def follow(self, view: ClusterView) -> None:
        """Take metadata, and give new partitions a position."""
        new = self._watch.follow(view, self._log.partitions(view))
        if self.begun:  # one without a leader yet must not hold up the others
            new = [tp for tp in new if view.leader(tp) is not None]
        self._place(new, {tp: view.leader(tp) for tp in new})
        self.begun = True
        # A glance does not tell of one that was left out, but metadata does.
        led = all(leader for topic in view.topics.values() for leader in topic.leaders.values())
        self._view, self._glances = view if led else None, 0

    def place_anew(self, partitions: list[TopicPartition]) -> None:
        """Watch partitions that have leaders already from their log ends of now on."""
        self._place(partitions, {tp: self._watch.leader(tp) for tp in partitions})

    def _discover(self, known: Offsets) -> None:
        view = self._log.settled_view(known.positions)
        if not self.begun:
            self._watch.adopt(known.sessions)
        self.follow(view)
        self._view_due = time.monotonic() + self._network.metadata_max_age_s
        if self._watch.unsettled:
            self._retry_due = time.monotonic() + self._backoff.next_pause_s()
        else:
            self._backoff = RetryPauses(self._network)

    def _place(
        self, partitions: list[TopicPartition], leaders: Mapping[TopicPartition, Leader | None]
    ) -> None:
        starts = self._log.starts(partitions)
        self._watch.place(self._log.ends(partitions), leaders, starts)
