"""The driver half against a little Kafka: offsets, losses, splits."""
