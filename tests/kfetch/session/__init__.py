"""The fetch session against its table, against a model of the broker, and by hand."""
