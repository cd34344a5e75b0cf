"""kfetch.delta with a real Kafka and a real Spark: Spark, delta-rs and DuckDB read its tables."""
