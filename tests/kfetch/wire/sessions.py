"""The fetch sessions of ``little`` (KIP-227)."""

from __future__ import annotations

from typing import Any


class Session:
    """A fetch session: the partitions, by the key that requests use."""

    def __init__(self, session_id: int, epoch: int) -> None:
        self.id = session_id
        self.epoch = epoch
        self.partitions: dict[tuple[Any, int], Any] = {}
        self.marks: dict[tuple[Any, int], tuple[int, int]] = {}
        """High watermark and log start as the last reply had them."""

    def update(self, request: Any) -> None:
        for topic in request.topics:
            for partition in topic.partitions:
                self.partitions[_key(topic, request), partition.partition] = partition
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                self.partitions.pop((_key(topic, request), index), None)
                self.marks.pop((_key(topic, request), index), None)


def _key(topic: Any, request: Any) -> Any:
    return topic.topic_id if request.API_VERSION >= 13 else topic.topic
