"""The directory ``secure/`` of a local Kafka: certificates, passwords, properties of clients.

    ca.pem                     whom clients trust
    reader.pem, denied.pem     certificates of the users, with their keys
    passwords.properties       the users' passwords, ``name=password``
    sasl_ssl.properties, …     what a client needs for a listener, as user ``reader``

The directory has mode 0700, and its files 0600.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from integration.secured.certificates import Authority
from integration.secured.listeners import (
    LISTENERS,
    USERS,
    Access,
    client_properties,
    listener_properties,
    shared_properties,
)
from kfetch_jobs.errors import BrokerToolError
from kfetch_jobs.util.files import write_private

__all__ = ["SAMPLE_MECHANISM", "Credentials", "add_users"]

_PASSWORD_BYTES = 18
_HOSTS = {"broker": ("127.0.0.1", "localhost"), "expired": ("127.0.0.1", "localhost")}
_ELSEWHERE = ("kafka.example",)
"""The host of a certificate that is another machine's."""
SAMPLE_MECHANISM = "SCRAM-SHA-512"


class Credentials:
    """The files of the secured listeners. ``provide`` makes them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, name: str) -> Path:
        """Returns the path of one file."""
        return self.directory / name

    @property
    def passwords(self) -> dict[str, str]:
        """The password of each user."""
        lines = self.path("passwords.properties").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def provide(self, listeners: Mapping[str, str]) -> None:
        """Make the files that are missing. ``listeners`` are addresses by names of LISTENERS.

        Existing certificates and passwords stay as they are. The clients' properties are written
        anew, because ports may change.
        """
        self.directory.mkdir(mode=0o700, exist_ok=True)
        authority = Authority.open(self.directory)
        for listener in (LISTENERS[name] for name in listeners):
            kind = listener.certificate
            authority.provide(kind, hosts=_HOSTS.get(kind, _ELSEWHERE), expired=kind == "expired")
        for user in USERS:
            authority.provide(user)
        if not self.path("passwords.properties").exists():
            self._write("passwords.properties", _new_passwords())
        for name, servers in listeners.items():
            self._write(f"{name.lower()}.properties", self.client(name, servers))

    def client(
        self, listener: str, servers: str, user: str = "reader", mechanism: str = SAMPLE_MECHANISM
    ) -> dict[str, str]:
        """Returns the properties with which a client of Kafka uses a listener as a user."""
        return client_properties(
            listener,
            servers,
            self.directory,
            user=user,
            password=self.passwords[user],
            mechanism=mechanism,
        )

    def server_properties(self, listeners: Iterable[str]) -> dict[str, str]:
        """Returns the properties of a broker with these listeners; none without a listener."""
        values: dict[str, str] = {}
        for name in listeners:
            values |= shared_properties()
            values |= listener_properties(name, self.directory, self.passwords)
        return values

    def _write(self, name: str, values: Mapping[str, str]) -> None:
        write_private(self.path(name), "".join(f"{k}={v}\n" for k, v in values.items()))


def _new_passwords() -> dict[str, str]:
    return {user: secrets.token_urlsafe(_PASSWORD_BYTES) for user in USERS}


def add_users(addresses: Sequence[str], credentials: Credentials, deadline: float) -> None:
    """Give the cluster its users for SCRAM and their access, and wait until brokers know them.

    ``addresses`` are PLAINTEXT listeners, whose user may do this. ``deadline`` is a time of
    ``time.monotonic``. Raises BrokerToolError after it.
    """
    from kafka import KafkaAdminClient
    from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

    with KafkaAdminClient(bootstrap_servers=list(addresses)) as admin:
        # One request for each mechanism: Kafka refuses a user who is in a request twice.
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            passwords = credentials.passwords.items()
            users = [
                UserScramCredentialUpsertion(name, mechanism, text) for name, text in passwords
            ]
            refused = [*filter(None, admin.alter_user_scram_credentials(users).values())]
            if refused:
                raise BrokerToolError(f"{addresses[0]} refuses users: {refused[0]}")
        admin.create_acls(_access_lists())
    for address in addresses:
        _await_access_lists(address, deadline)


def _access_lists() -> list[object]:
    from kafka.admin import (
        ACL,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ResourcePattern,
        ResourceType,
    )

    topics = ResourcePattern(ResourceType.TOPIC, "*", ACLResourcePatternType.LITERAL)
    operations = {Access.READ: ACLOperation.READ, Access.DESCRIBE: ACLOperation.DESCRIBE}
    return [
        ACL(f"User:{user}", "*", operations[access], ACLPermissionType.ALLOW, topics)
        for user, access in USERS.items()
    ]


def _await_access_lists(address: str, deadline: float) -> None:
    """Wait until a broker has the last of the users' settings: it gets them in their order."""
    from kafka import KafkaAdminClient
    from kafka.admin import (
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ResourcePatternFilter,
        ResourceType,
    )

    topics = ResourcePatternFilter(ResourceType.TOPIC, "*", ACLResourcePatternType.LITERAL)
    every = ACLFilter(None, "*", ACLOperation.ANY, ACLPermissionType.ANY, topics)
    with KafkaAdminClient(bootstrap_servers=[address]) as admin:
        while len(admin.describe_acls(every)[0]) < len(USERS):
            if time.monotonic() > deadline:
                raise BrokerToolError(f"{address} does not know the users in time")
            time.sleep(0.05)
