"""GSSAPI against a real server of Kerberos, with the library's other side in the broker's place.

``make kerberos`` installs what it needs. Without that, the tests are skipped.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.interop import realm as kerberos
from integration.interop.realm import Realm, open_realm, run
from kfetch.errors import AuthenticationFailed, KfetchError, TokenUnavailable
from kfetch.options.sasl import KerberosLogin
from kfetch.wire.sasl.kerberos import gssapi_exchange

gssapi = pytest.importorskip("gssapi", reason=kerberos.MISSING)
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not kerberos.INSTALLED, reason=kerberos.MISSING),
]


@pytest.fixture
def realm(tmp_path: Path) -> Iterator[Realm]:
    """A realm for one test, with the users alice and bob, and the service kafka/localhost."""
    principals = {"alice": "alice", "bob": "bob", "kafka": "kafka/localhost"}
    with open_realm(tmp_path, principals) as made:
        yield made


def broker(realm: Realm) -> Any:
    """The broker's part, as Java's GssKrb5Server plays it. Returns the user at its end."""
    name = gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service)
    keys = gssapi.Credentials(name=name, usage="accept", store={"keytab": realm.keytab("kafka")})
    context = gssapi.SecurityContext(creds=keys, usage="accept")
    answer = context.step((yield b""))
    assert context.complete
    assert b"" == (yield answer)
    choice = context.unwrap((yield context.wrap(struct.pack(">I", 1 << 24 | 65536), False).message))
    assert b"\1\0\0\0" == choice.message
    return str(context.initiator_name)


def user_after(realm: Realm, login: KerberosLogin) -> str:
    """Log in at the broker; the user that it sees."""
    client, server = gssapi_exchange(login, "localhost", time.monotonic() + 10), broker(realm)
    next(server)
    message = next(client)
    while True:
        try:
            answer = server.send(message)
        except StopIteration as end:
            with pytest.raises(StopIteration):
                client.send(b"")
            return str(end.value)
        message = client.send(answer)


def test_a_keytab_and_a_ticket(realm: Realm) -> None:
    """A user logs in with a keytab, and with a ticket of the cache. Two users do not mix."""
    assert "alice@EXAMPLE.ORG" == user_after(realm, realm.login())
    assert "bob@EXAMPLE.ORG" == user_after(realm, realm.login("bob", "bob"))
    assert "alice@EXAMPLE.ORG" == user_after(realm, realm.login())
    run("kinit", "-k", "-t", realm.keytab("bob"), "bob")

    assert "bob@EXAMPLE.ORG" == user_after(realm, KerberosLogin(service_name="kafka"))


def refusal(realm: Realm, login: KerberosLogin) -> KfetchError:
    """The error of a log-in."""
    with pytest.raises(KfetchError) as caught:
        user_after(realm, login)
    return caught.value


def test_refusals(realm: Realm) -> None:
    """Somebody else's keys, no keys, no ticket and an unknown service are final."""
    run("kinit", "-k", "-t", realm.keytab("alice"), "alice")
    wrong = [
        realm.login("alice", "bob"),
        realm.login("alice", "nobody"),
        KerberosLogin(service_name="kafka", ticket_cache=str(realm.directory / "none")),
        KerberosLogin(service_name="bus"),
    ]
    for login in wrong:
        error = refusal(realm, login)
        assert isinstance(error, AuthenticationFailed), error
        assert "Kerberos can't log in at " in error.message


def test_a_server_that_is_away(realm: Realm) -> None:
    """Without the server a keytab gets no ticket, and that may pass."""
    realm.server.kill()
    realm.server.wait()
    error = refusal(realm, realm.login())

    assert isinstance(error, TokenUnavailable), error
