"""Spark's checkpoints on disk.

``checkpoint`` reads them. ``backup`` copies them before ``kfetch offsets`` moves a job's offsets.
"""
