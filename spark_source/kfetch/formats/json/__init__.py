"""JSON to struct columns, as Spark's ``from_json`` does."""
