"""The ways into a secured broker, as options of kfetch, and what they are used for in tests."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from integration.secured import SecuredCluster
from kfetch.spark import worker
from kfetch.spark.options import parse
from kfetch.watch.driver import Driver

VALUES = [f"value-{number}" for number in range(10)]
REAUTHENTICATION_MS = 5000


def options(
    cluster: SecuredCluster, listener: str, user: str = "reader", mechanism: str = "SCRAM-SHA-512"
) -> dict[str, str]:
    """Returns the options ``kafka.*`` of a user at a listener."""
    properties = cluster.client(listener, user, mechanism)
    return {f"kafka.{name}": value for name, value in properties.items()}


def read(kafka: Mapping[str, str], topic: str) -> list[str]:
    """Returns the values of a topic: Spark's calls to the source, without Spark and an agent."""
    asked = {"subscribe": topic, "startingOffsets": "earliest", "kfetch.agent": "inline"}
    parsed = parse({**kafka, **asked})
    # One try: a wrong password stays wrong.
    parsed = replace(parsed, lookups=replace(parsed.lookups, retries=0))
    with closing(Driver(parsed)) as driver:
        start = driver.initial_offsets()
        driver.prepare_available_now()
        end = driver.next_end(start, None)
        assert end is not None
        return [
            value.decode()
            for split in driver.splits(start, end)
            for batch in worker.read(split, parsed)
            for value in batch["value"].to_pylist()
        ]


def pem_values(kafka: Mapping[str, str]) -> dict[str, str]:
    """Returns the same options with PEM text in place of the paths of PEM files."""
    texts = {name: Path(value).read_text() for name, value in kafka.items() if "location" in name}
    changed = {name: text for name, text in kafka.items() if "location" not in name}
    changed["kafka.ssl.truststore.certificates"] = texts["kafka.ssl.truststore.location"]
    if both := texts.get("kafka.ssl.keystore.location"):
        begin = both.index("-----BEGIN PRIVATE KEY")
        changed["kafka.ssl.keystore.certificate.chain"] = both[:begin]
        changed["kafka.ssl.keystore.key"] = both[begin:]
    return changed
