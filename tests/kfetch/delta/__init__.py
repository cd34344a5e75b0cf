"""kfetch.delta without Spark's JVM: delta-rs and DuckDB read what it writes."""
