"""Kafka brokers of other versions than the project's own, for tests alone.

    versions.py       the versions, and the table of docs/reference/broker-versions.md  (pure)
    configuration.py  configuration files of brokers, controllers and ZooKeeper  (pure)
    cluster.py        downloads, starts, kills and upgrades them
    fetch_log.py      fetch requests in the brokers' own logs, of every version
    contract.py       what a broker of any version must give
    sending.py        a producer that outlives its brokers
    reading.py        a query without Spark: Kafka's records by kfetch's driver and worker

`make brokers` runs the tests of this folder. A short one for each of two versions is in CI.
"""
