"""The driver's view of the log: existing partitions, their log ends, and lost records.

``state`` holds the known log ends and is pure. ``poller`` polls one broker through one incremental
session, and ``poll_pause`` limits what the polls cost. ``watch`` owns the threads and the lock.
``metadata_refresh`` keeps the watch in step with the cluster's metadata. ``lookups`` asks the
brokers for everything that a session does not tell. ``position_check`` finds data loss.
``initial_positions`` and ``available_now`` tell where queries start and end. ``broker_report``
lists brokers that do not answer, and ``backlog`` counts the records that wait. ``group_commits``
commits progress for a consumer group. ``driver`` turns all of it into offsets and splits.
``batch_planning`` plans a batch read, which has no watch.
"""
