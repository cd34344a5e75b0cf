"""GSSAPI at a real broker: tickets of a real server of Kerberos, by keytabs and by a ticket cache.

``make kerberos`` installs what it needs. Without that, the tests are skipped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from integration.agent.reader import Reader
from integration.conftest import TopicFactory
from integration.interop import realm as kerberos
from integration.interop.realm import Realm, open_realm, run
from integration.records import write
from integration.secured import SecuredCluster
from integration.security.access import VALUES, read
from kfetch.errors import AccessRefused, AuthenticationFailed, KfetchError

pytest.importorskip("gssapi", reason=kerberos.MISSING)
pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not kerberos.INSTALLED, reason=kerberos.MISSING),
]

MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
PRINCIPALS = {"reader": "reader", "denied": "denied", "kafka": "kafka/127.0.0.1"}
"""The broker's ACLs let ``reader`` read, and ``denied`` describe. Its address is its name."""
WITHIN_S = 10.0


@dataclass(frozen=True)
class Secured:
    """A broker whose users come from a realm."""

    cluster: SecuredCluster
    realm: Realm

    def options(self, user: str = "", keys_of: str = "") -> dict[str, str]:
        """The options of a user with a keytab; without a user, of the ticket cache."""
        own = {
            "kafka.bootstrap.servers": self.cluster.secure_listeners["SASL_PLAINTEXT"],
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "GSSAPI",
            "kafka.sasl.kerberos.service.name": "kafka",
        }
        if user:
            own["kafka.sasl.jaas.config"] = login(self.realm, user, keys_of or user)
        return own


def login(realm: Realm, principal: str, keys_of: str, more: str = "") -> str:
    """The JAAS of a principal with somebody's keytab."""
    keytab = realm.keytab(keys_of)
    return f'{MODULE}{more} keyTab="{keytab}" principal="{principal}@EXAMPLE.ORG";'


@pytest.fixture(scope="module")
def secured_by_tickets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A realm, and a broker that takes its tickets and nothing else."""
    prefix = "listener.name.sasl_plaintext."
    with open_realm(tmp_path_factory.mktemp("realm"), PRINCIPALS) as realm:
        properties = {
            f"{prefix}sasl.enabled.mechanisms": "GSSAPI",
            f"{prefix}sasl.kerberos.service.name": "kafka",
            f"{prefix}gssapi.sasl.jaas.config": login(
                realm, PRINCIPALS["kafka"], "kafka", " storeKey=true"
            ),
        }
        java = f"-Djava.security.krb5.conf={realm.directory}/krb5.conf"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JAVA_TOOL_OPTIONS", f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {java}")
            cluster = SecuredCluster.start_secured(
                tmp_path_factory.mktemp("broker"), ["SASL_PLAINTEXT"], properties
            )
        with cluster:
            yield Secured(cluster, realm)


def test_a_keytab_and_a_ticket(secured_by_tickets: Secured, topic: TopicFactory) -> None:
    """A keytab reads every record, and so does a ticket of the cache."""
    name = topic(cluster=secured_by_tickets.cluster)
    write(secured_by_tickets.cluster, name, VALUES)
    assert VALUES == read(secured_by_tickets.options("reader"), name)

    run("kinit", "-k", "-t", secured_by_tickets.realm.keytab("reader"), "reader")
    try:
        assert VALUES == read(secured_by_tickets.options(), name)
    finally:
        run("kdestroy")


def test_an_agent_reads(secured_by_tickets: Secured, topic: TopicFactory, tmp_path: Path) -> None:
    """The agent's threads log in with the keytab too."""
    cluster = secured_by_tickets.cluster
    name = topic(cluster=cluster)
    write(cluster, name, VALUES)
    reader = Reader(cluster, name, "process", tmp_path, **secured_by_tickets.options("reader"))
    try:
        assert len(VALUES) == len(reader.read())
    finally:
        reader.close()


def test_refusals(secured_by_tickets: Secured, topic: TopicFactory) -> None:
    """Each has its sentence in time: no ticket, other keys, another service, a denied topic."""
    name = topic(cluster=secured_by_tickets.cluster)
    write(secured_by_tickets.cluster, name, VALUES)
    right = secured_by_tickets.options("reader")
    for wrong in (
        secured_by_tickets.options(),
        secured_by_tickets.options("reader", keys_of="denied"),
        right | {"kafka.sasl.kerberos.service.name": "bus"},
    ):
        error = refusal(wrong, name)
        assert isinstance(error, AuthenticationFailed), error
        assert "Kerberos can't log in at " in error.message

    error = refusal(secured_by_tickets.options("denied"), name)
    assert isinstance(error, AccessRefused), error
    assert "User:denied" in error.message


def refusal(kafka: dict[str, str], topic: str) -> KfetchError:
    """The error of a read, which comes in time."""
    began = time.monotonic()
    with pytest.raises(KfetchError) as refused:
        read(kafka, topic)
    assert time.monotonic() - began < WITHIN_S
    return refused.value
