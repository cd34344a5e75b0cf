"""A local Kafka with TLS, log-ins, users and ACLs, for the tests and the benchmarks.

with SecuredCluster.start_secured(directory, ["SASL_SSL"]) as cluster:
    cluster.bootstrap_servers       the PLAINTEXT listener, whose user may do everything
    cluster.client("SASL_SSL")      the properties of a client

listeners.py     the secured listeners: properties of brokers and of clients   (pure)
credentials.py   their certificates, passwords and users
certificates.py  a certificate authority of its own
cluster.py       one node with these listeners
"""

from integration.secured.cluster import SecuredCluster

__all__ = ["SecuredCluster"]
