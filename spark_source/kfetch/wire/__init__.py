"""The connections to brokers: messages, versions, retries. Only this package has broker sockets.

``connection`` is one blocking connection for every API. ``transport`` opens its socket, and ``tls``
secures it with the certificates that ``stores`` reads. ``tls_errors`` explains its failures.
``messages`` has the small requests (Metadata, ListOffsets, OffsetsForLeaderEpoch). ``fetch``
encodes and decodes Fetch, the one big message, without a copy of the record bytes. ``cluster`` is
the client for all questions about metadata, offsets and epochs. ``servers`` chooses whom it asks,
and ``retry`` has the policies by which it asks again. ``probes`` ask what listens at an address
whose first connection fails, and ``diagnosis`` judges the answers. ``lean`` imports kafka-python's
messages without its clients.

``addresses`` connects to a name with several addresses. ``frames`` has a connection's memory, and
``reader`` reads primitive types there. ``groups`` reads and commits offsets of consumer groups, and
``http_request`` asks services beside Kafka.
"""
