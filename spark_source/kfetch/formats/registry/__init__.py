"""Schema registries: the headers of values, the client, the reader's schemas."""
