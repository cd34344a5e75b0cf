"""The network between the product and the simulated cluster.

    network = Network(kernel, cluster)
    with network.installed(modules_of("kfetch")):     the product uses simulated connections
        kernel.run(until=60.0)
    network.links[1].slow_s = 0.5                     what may happen to a broker's connections

network.py      latency, links to brokers, what reaches a broker and when
connection.py   stands in for ``kfetch.wire.connection.Connection``
"""

from simulation.network.network import Link, Network

__all__ = ["Link", "Network"]
