"""The secured Kafka of the tests: properties of brokers and clients, certificates. No broker."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest

from integration.secured.credentials import Credentials
from integration.secured.listeners import LISTENERS, MECHANISMS, USERS, network_properties
from kfetch_jobs.kafka.settings import NodePorts, server_properties

SERVERS = {name: f"127.0.0.1:{9093 + turn}" for turn, name in enumerate(LISTENERS)}


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    """Certificates, passwords and properties for all listeners."""
    provided = Credentials(tmp_path / "secure")
    provided.provide(SERVERS)
    return provided


def handshake(credentials: Credentials, server: str, *, host: str, user: str = "") -> str:
    """Let a client meet a server that has a certificate. Returns the client's name for the server.

    Raises ssl.SSLError as the client or the server does.
    """
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(credentials.path(f"{server}.pem"))
    serving.load_verify_locations(credentials.path("ca.pem"))
    serving.verify_mode = ssl.CERT_REQUIRED if user else ssl.CERT_NONE
    asking = ssl.create_default_context(cafile=str(credentials.path("ca.pem")))
    if user:
        asking.load_cert_chain(credentials.path(f"{user}.pem"))
    ends = [ssl.MemoryBIO() for _ in range(2)]
    client = asking.wrap_bio(ends[0], ends[1], server_hostname=host)
    service = serving.wrap_bio(ends[1], ends[0], server_side=True)
    for _ in range(3):
        for side in (client, service):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    certificate = service.getpeercert() if user else client.getpeercert()
    return dict(pair[0] for pair in (certificate or {})["subject"])["commonName"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_brokers_certificate_is_this_machines(credentials: Credentials, host: str) -> None:
    """A client that trusts ca.pem accepts the broker by address and by name."""
    assert "broker" == handshake(credentials, "broker", host=host)


@pytest.mark.parametrize("user", USERS)
def test_a_users_certificate_has_the_users_name(credentials: Credentials, user: str) -> None:
    """A broker that trusts ca.pem learns the user from the CN."""
    assert user == handshake(credentials, "broker", host="localhost", user=user)


@pytest.mark.parametrize(
    ("server", "reason"),
    [("expired", "certificate has expired"), ("elsewhere", "IP address mismatch")],
)
def test_bad_certificates_are_refused(credentials: Credentials, server: str, reason: str) -> None:
    """The certificates for tests of errors have one fault each."""
    with pytest.raises(ssl.SSLCertVerificationError, match=reason):
        handshake(credentials, server, host="127.0.0.1")


def test_all_files_are_private(credentials: Credentials) -> None:
    """Only the owner may read the files and enter their directory."""
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in credentials.directory.iterdir()}

    assert 0o700 == stat.S_IMODE(credentials.directory.stat().st_mode)
    assert {0o600} == set(modes.values())


def test_a_second_start_keeps_certificates_and_passwords(credentials: Credentials) -> None:
    """Clients go on with their files. Only the properties have the new ports."""
    before = {path.name: path.read_text() for path in credentials.directory.iterdir()}
    credentials.provide(dict.fromkeys(SERVERS, "127.0.0.1:1"))
    after = {path.name: path.read_text() for path in credentials.directory.iterdir()}

    changed = {name for name, text in after.items() if before[name] != text}
    assert {f"{name.lower()}.properties" for name in LISTENERS} == changed


def test_a_certificate_that_ends_is_renewed(credentials: Credentials) -> None:
    """A start after a year works: the same authority signs new certificates."""
    stale = credentials.path("expired.pem").read_text()
    credentials.path("broker.pem").write_text(stale)
    credentials.provide(SERVERS)

    assert "broker" == handshake(credentials, "broker", host="localhost")
    assert stale == credentials.path("expired.pem").read_text()


def test_each_start_has_its_own_passwords(tmp_path: Path) -> None:
    """No password is in the code: two directories have different ones, for all users."""
    made = [Credentials(tmp_path / name) for name in "ab"]
    for one in made:
        one.provide(SERVERS)

    assert USERS.keys() == made[0].passwords.keys()
    assert 4 == len({password for one in made for password in one.passwords.values()})


@pytest.mark.parametrize(
    ("listener", "names"),
    [
        ("SSL", {"ssl.truststore.type", "ssl.truststore.location"}),
        ("SASL_PLAINTEXT", {"sasl.mechanism", "sasl.jaas.config"}),
    ],
)
def test_a_client_gets_what_its_listener_needs(
    credentials: Credentials, listener: str, names: set[str]
) -> None:
    """The properties have the address, the protocol, and nothing that the listener ignores."""
    properties = credentials.client(listener, "h:1")

    assert {"bootstrap.servers", "security.protocol"} | names == properties.keys()
    assert ("h:1", listener) == (properties["bootstrap.servers"], properties["security.protocol"])


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_login_names_its_user(credentials: Credentials, mechanism: str) -> None:
    """Each mechanism has the user. All but the token have the password."""
    login = credentials.client("SASL_SSL", "h:1", "denied", mechanism)["sasl.jaas.config"]

    assert '"denied"' in login
    assert (credentials.passwords["denied"] in login) is (mechanism != "OAUTHBEARER")
    assert credentials.passwords["reader"] not in login


def test_a_node_has_its_secured_listeners(credentials: Credentials) -> None:
    """The listeners are advertised with their protocols, beside the broker's own."""
    secured = network_properties(101, 201, {"SSL": 102, "MTLS": 103})
    secured |= credentials.server_properties(["SSL", "MTLS"])
    node = NodePorts(node_id=1, port=101, controller_port=201)
    text = server_properties(1, [node], Path("/data"), secured)
    values = dict(line.split("=", 1) for line in text.splitlines())

    assert (
        "BROKER://127.0.0.1:101,SSL://127.0.0.1:102,MTLS://127.0.0.1:103"
        == values["advertised.listeners"]
    )
    assert f"{values['advertised.listeners']},CONTROLLER://127.0.0.1:201" == values["listeners"]
    assert (
        "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,MTLS:SSL"
        == values["listener.security.protocol.map"]
    )
    assert "none" == values["listener.name.ssl.ssl.client.auth"]
    assert "required" == values["listener.name.mtls.ssl.client.auth"]
    assert "User:ANONYMOUS" == values["super.users"]


def test_without_secured_listeners_there_is_no_authorizer(tmp_path: Path) -> None:
    """A broker without a secured listener needs no properties and no file."""
    assert {} == Credentials(tmp_path / "secure").server_properties({})
    assert [] == list(tmp_path.iterdir())
