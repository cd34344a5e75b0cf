"""Starts a node of a local Kafka again. The product starts and stops all nodes together."""

from __future__ import annotations

import time

from kfetch_jobs.kafka import Cluster

_READY_S = 60.0


def start_node(cluster: Cluster, node_id: int) -> None:
    """Start a node with the same data on the same ports.

    Waits until it answers and knows the nodes that run.
    """
    node = cluster.nodes[node_id - 1]
    node.prepare()
    node.launch()
    living = {node_id, *(one.node_id for one in cluster.running)}
    node.wait_ready(living, time.monotonic() + _READY_S)
