"""A server of Kerberos on this machine, for tests: its users, their keys, and the service Kafka.

It needs Debian's packages krb5-kdc, krb5-admin-server and krb5-user.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kfetch.options.sasl import KerberosLogin

INSTALLED = all(map(shutil.which, ("krb5kdc", "kadmin.local", "kinit")))
MISSING = "Kerberos or the library gssapi is not installed: make kerberos installs them"

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
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 EXAMPLE.ORG = {{
  database_name = {directory}/principal
  key_stash_file = {directory}/stash
  acl_file = {directory}/acl
 }}
"""


@dataclass
class Realm:
    """A server of Kerberos."""

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


@contextmanager
def open_realm(directory: Path, principals: Mapping[str, str]) -> Iterator[Realm]:
    """A realm, and this process in it. ``principals``: by the names of their keytabs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (directory / "krb5.conf").write_text(CLIENTS.format(port=port))
    (directory / "kdc.conf").write_text(SERVER.format(port=port, directory=directory))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(directory / "krb5.conf"))
        patch.setenv("KRB5_KDC_PROFILE", str(directory / "kdc.conf"))
        patch.setenv("KRB5CCNAME", f"FILE:{directory / 'tickets'}")
        run("kdb5_util", "create", "-s", "-r", "EXAMPLE.ORG", "-P", "master")
        server = subprocess.Popen(["krb5kdc", "-n"], stdout=subprocess.DEVNULL)
        try:
            made = Realm(directory, server)
            for name, principal in principals.items():
                run("kadmin.local", "-q", f"addprinc -randkey {principal}")
                run("kadmin.local", "-q", f"ktadd -k {made.keytab(name)} {principal}")
            wait_for(port)
            yield made
        finally:
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
