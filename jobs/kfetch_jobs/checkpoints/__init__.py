"""Spark's checkpoints on disk: ``checkpoint`` reads them, ``backup`` copies them before a move."""
