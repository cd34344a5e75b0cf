"""The wire layer against a scripted broker, and kafka-python as the oracle of bytes."""
