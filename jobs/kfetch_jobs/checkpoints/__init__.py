"""Spark's checkpoints on disk.

``checkpoint`` reads them. ``backup`` copies them before ``kfetch offsets`` moves a job's offsets.
``origin`` notes their environment and Kafka clusters, and ``location`` tells where they are.
``log_starts`` looks whether Kafka still has records that a job must read again.
"""
