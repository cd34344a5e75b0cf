"""The topic: made, and asked for its length."""

from __future__ import annotations

import warnings

__all__ = ["create", "length"]


def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Make the topic, and wait until each partition has a leader that answers."""
    from kafka import KafkaAdminClient

    wanted = {topic: {"num_partitions": partitions, "replication_factor": 1}}
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(wanted, wait_for_metadata=True)
    # The metadata names a leader a moment before that leader knows: the first records would be
    # refused with NOT_LEADER_OR_FOLLOWER. Asking for offsets waits for it.
    length(bootstrap, topic, partitions)


def length(bootstrap: str, topic: str, partitions: int) -> int:
    """The sum of the partitions' end offsets, whatever the producer believes."""
    from kafka import KafkaConsumer, TopicPartition

    parts = [TopicPartition(topic, number) for number in range(partitions)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of kafka-python, about itself
        consumer = KafkaConsumer(bootstrap_servers=bootstrap)
        try:
            return int(sum(consumer.end_offsets(parts).values()))
        finally:
            consumer.close()
