"""A model of a Kafka cluster, without time or chance of its own: both are arguments.

    cluster = Cluster(3, random.Random(seed), release=KAFKA_4_3, listener=account)
    cluster.create_topic("clicks", 10, now_ms)
    cluster.produce("clicks", 0, [b"value"], now_ms)
    cluster.brokers[1].handle(request, now_ms)     a reply, or a ``Fetch`` that waits

cluster.py    topics, elections, replication, retention
broker.py     one broker: metadata, replicas, life
fetching.py   Fetch: sessions, long polls, limits
sessions.py   the cache of fetch sessions (KIP-227)
answers.py    every other request
log.py        a replica's log
batches.py    record batches as bytes
image.py      metadata
releases.py   versions of Kafka
chaos.py      what may happen to a cluster
"""
