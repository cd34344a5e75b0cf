"""Spark's checkpoints on disk: ``files`` reads them, ``backup`` copies them before a move."""
