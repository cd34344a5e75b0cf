"""Lanes that tasks share: threads over a little Kafka, without Spark and without processes."""
