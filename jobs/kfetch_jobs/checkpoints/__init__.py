"""Spark's checkpoints on disk.

``checkpoint`` reads them. ``backup`` copies them before ``kfetch offsets`` moves a job's offsets.
``origin`` notes their environment, Kafka clusters and topic ids, and ``location`` tells where they
are. ``fresh_start`` refuses to start a job anew that has run before: ``former_job`` looks for a
renamed job. ``location`` also reads the logs of tables. ``topic_history`` collects topic ids.
``lease_note`` notes the leases that a waiting supervisor has seen. ``log_starts`` looks whether
Kafka still has records that a job must read again. ``half_written`` removes what a run before has
not finished.
"""
