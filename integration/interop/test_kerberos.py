"""GSSAPI against a real server of Kerberos, with the library's other side in the broker's place.

It needs Debian's packages krb5-kdc, krb5-admin-server and krb5-user, and the Python library gssapi.
Without them the tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kfetch.errors import AuthenticationFailed, KfetchError, TokenUnavailable
from kfetch.options.sasl import KerberosLogin
from kfetch.wire.sasl.kerberos import gssapi_exchange

gssapi = pytest.importorskip("gssapi")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("krb5kdc") is None, reason="there is no krb5kdc"),
]

CLIENTS = """\
[libdefaults]
 default_realm = EXAMPLE.ORG
 dns_lookup_kdc = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 EXAMPLE.ORG = {{
  kdc = 127.0.0.1:{port}
 }}
[domain_realm]
 localhost = EXAMPLE.ORG
"""
SERVER = """\
[kdcdefaults]
 kdc_ports = {port}
 kdc_tcp_ports = {port}
[realms]
 EXAMPLE.ORG = {{
  database_name = {directory}/principal
  key_stash_file = {directory}/stash
  acl_file = {directory}/acl
 }}
"""


@dataclass
class Realm:
    """A server of Kerberos with the users alice and bob, and the service kafka/localhost."""

    directory: Path
    server: subprocess.Popen[bytes]

    def keytab(self, name: str) -> str:
        """The file with a principal's keys."""
        return str(self.directory / f"{name}.keytab")

    def login(self, user: str = "alice", keys_of: str = "alice") -> KerberosLogin:
        """The settings of a user with somebody's keys."""
        return KerberosLogin(
            service_name="kafka", principal=f"{user}@EXAMPLE.ORG", keytab=self.keytab(keys_of)
        )


@pytest.fixture
def realm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Realm]:
    """A realm for one test, and this process in it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "krb5.conf").write_text(CLIENTS.format(port=port))
    (tmp_path / "kdc.conf").write_text(SERVER.format(port=port, directory=tmp_path))
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    monkeypatch.setenv("KRB5_KDC_PROFILE", str(tmp_path / "kdc.conf"))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    run("kdb5_util", "create", "-s", "-r", "EXAMPLE.ORG", "-P", "master")
    server = subprocess.Popen(["krb5kdc", "-n"])
    made = Realm(tmp_path, server)
    for name, principal in (("alice", "alice"), ("bob", "bob"), ("kafka", "kafka/localhost")):
        run("kadmin.local", "-q", f"addprinc -randkey {principal}")
        run("kadmin.local", "-q", f"ktadd -k {made.keytab(name)} {principal}")
    wait_for(port)
    yield made
    server.kill()
    server.wait()


def run(*command: str) -> None:
    """Run a program of Kerberos."""
    subprocess.run(command, check=True, capture_output=True, env=dict(os.environ))


def wait_for(port: int) -> None:
    """Wait until the server listens."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("krb5kdc does not listen")


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
