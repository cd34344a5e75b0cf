"""Talking to brokers: connections, messages, versions. The only place with broker sockets.

``connection`` is one blocking connection for every API; ``messages`` asks the small questions
(Metadata, ListOffsets, OffsetsForLeaderEpoch); ``fetch`` encodes and decodes Fetch, the one big
message, without copying record bytes; ``cluster`` knows which broker to ask and tries again;
``lean`` imports kafka-python's messages without its clients.
"""
