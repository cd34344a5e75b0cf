"""Schema registries: the headers of values, the client, and what decoders of such values share."""
