"""A real Apache Kafka on this machine: for the demo, the tests and the benchmarks.

    with Cluster.start(directory, nodes=3) as cluster:
        cluster.bootstrap_servers      "127.0.0.1:23411,127.0.0.1:23412,127.0.0.1:23413"
        cluster.node(2).kill()         SIGKILL, as a machine that loses power
        cluster.node(2).start()        the same port, the same data

Everything listens on 127.0.0.1 alone. There is no TLS and no password: never put data here that
other users of the machine must not read.

    settings.py   what a node is told: server.properties, logging, JVM flags   (pure)
    state.py      what a directory remembers: nodes, ports, processes
    java.py       which Java
    process.py    starting a JVM and signalling it, and never another process
    ready.py      when a node answers
    node.py       one node           cluster.py    all of them
    cli.py        kfetch broker
"""

from kfetch_jobs.kafka.cluster import Cluster
from kfetch_jobs.kafka.node import Node

__all__ = ["Cluster", "Node"]
