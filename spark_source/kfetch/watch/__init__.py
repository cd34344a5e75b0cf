"""The driver's view of the log: existing partitions, their log ends, and lost records.

``state`` holds the known log ends and is pure. ``poller`` polls one broker through one incremental
session, and ``poll_pause`` limits what the polls cost. ``watch`` owns the threads and the lock.
``metadata_refresh`` keeps the watch in step with the cluster's metadata, and ``missing_partitions``
says which partitions are gone. ``lookups`` asks the brokers for everything that a session does not
tell. ``position_check`` finds data loss. ``initial_positions`` and ``available_now`` tell where
queries start and end. ``broker_report`` lists brokers that do not answer, and ``backlog`` counts
the records that wait. ``driver`` turns all of it into offsets and splits: ``candidates`` are the
partitions that it looks at, and ``split_planning`` makes the splits. ``group_commits`` commits
offsets for tools that show lag. ``batch_planning`` plans batch reads.
"""
