"""Avro to struct columns, as Spark's ``from_avro`` does."""
