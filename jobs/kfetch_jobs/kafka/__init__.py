"""A real Apache Kafka on this machine: for the demo, the tests and the benchmarks.

    with Cluster.start(directory, nodes=3) as cluster:
        cluster.bootstrap_servers      "127.0.0.1:23411,127.0.0.1:23412,127.0.0.1:23413"
        cluster.nodes[1].kill()        SIGKILL, like a power failure

All nodes listen on 127.0.0.1 only, without TLS and passwords: other users of the machine can read
all data.

    settings.py   configuration of a node: server.properties, logging, JVM flags   (pure)
    state.py      the state file of a directory: nodes, ports, processes
    ready.py      whether a node answers, and which ports are free
    node.py       one node           cluster.py    all nodes
"""

from kfetch_jobs.kafka.cluster import Cluster
from kfetch_jobs.kafka.node import Node

__all__ = ["Cluster", "Node"]
