"""Protobuf to struct columns, as Spark's ``from_protobuf`` does."""
