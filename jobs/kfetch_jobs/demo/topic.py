"""Makes the topic of the demo, and counts its records."""

from __future__ import annotations

import warnings


def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Make the topic, and wait until the leader of each partition answers."""
    from kafka import KafkaAdminClient

    topics = {topic: {"num_partitions": partitions, "replication_factor": 1}}
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(topics, wait_for_metadata=True)
    # Metadata names a leader a moment before that broker knows it. Until then the broker refuses
    # records with NOT_LEADER_OR_FOLLOWER. A request for offsets waits for the leader.
    length(bootstrap, topic, partitions)


def length(bootstrap: str, topic: str, partitions: int) -> int:
    """Returns the sum of the partitions' log ends, from the broker."""
    from kafka import KafkaConsumer, TopicPartition

    parts = [TopicPartition(topic, number) for number in range(partitions)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kafka-python warns about itself
        consumer = KafkaConsumer(bootstrap_servers=bootstrap)
        try:
            return int(sum(consumer.end_offsets(parts).values()))
        finally:
            consumer.close()
