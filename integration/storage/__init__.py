"""Checkpoints in an object store: Spark writes them through S3A, and kfetch reads them."""
