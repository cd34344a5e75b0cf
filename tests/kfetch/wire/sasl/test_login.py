"""Log-ins of a connection: every mechanism, every refusal, and log-ins of limited time."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from kfetch.errors import (
    AuthenticationFailed,
    ConnectionLost,
    TokenUnavailable,
    UnsupportedVersion,
    WrongListener,
)
from kfetch.options.oauth import OauthLogin, StaticToken, TokenFile, TokenProvider
from kfetch.options.sasl import AwsLogin, SaslOptions
from kfetch.options.secret import Secret
from kfetch.wire.connection import Connection
from kfetch.wire.sasl import login as login_module
from kfetch.wire.sasl.aws import KEYS, AwsKeys
from kfetch.wire.sasl.shared import Fetched
from tests.kfetch.wire.helpers import soon
from tests.kfetch.wire.sasl.broker_side import (
    LoginServer,
    alice,
    bearer_server,
    network,
    plain_server,
    scram_server,
)
from tests.kfetch.wire.scripted import Close, ScriptedBroker, Silence

ALL = {
    "PLAIN": plain_server,
    "SCRAM-SHA-256": scram_server,
    "SCRAM-SHA-512": lambda: scram_server("sha512"),
    "OAUTHBEARER": lambda: bearer_server("abc"),
}


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """A broker that answers Metadata."""
    with ScriptedBroker() as running:
        empty = MetadataResponse(brokers=[], cluster_id="c", controller_id=1, topics=[])
        running.always(MetadataRequest, lambda request: empty)
        yield running


def opened(broker: ScriptedBroker, sasl: SaslOptions, seconds: float = 10) -> Connection:
    """A connection to a broker that has logged in."""
    return Connection.open("127.0.0.1", broker.port, network(sasl), soon(seconds))


def bearer(token: str = "abc", *extensions: tuple[str, str]) -> SaslOptions:
    """The options of OAUTHBEARER with a token."""
    source = StaticToken(token=Secret(token))
    return SaslOptions(
        mechanism="OAUTHBEARER", login=OauthLogin(source=source, extensions=extensions)
    )


@pytest.mark.parametrize("versions", [(0, 0), (0, 1), (0, 2)])
@pytest.mark.parametrize("mechanism", ALL)
def test_every_mechanism(mechanism: str, versions: tuple[int, int]) -> None:
    """A log-in is a handshake and the mechanism's messages, in any version of SaslAuthenticate."""
    with ScriptedBroker(versions={SaslAuthenticateRequest: versions}) as broker:
        server = LoginServer(broker, ALL)
        sasl = bearer() if mechanism == "OAUTHBEARER" else alice(mechanism)
        with_login = opened(broker, sasl)

        assert with_login.alive
        assert 1 == server.logins
        assert [mechanism] == [r.mechanism for r in broker.asked(SaslHandshakeRequest)]
        assert {versions[1]} == {r.API_VERSION for r in broker.asked(SaslAuthenticateRequest)}
        with_login.close()


def test_extensions_go_with_the_token(broker: ScriptedBroker) -> None:
    """SASL extensions stand behind the token, as Confluent Cloud needs them (KIP-342)."""
    extensions = "logicalCluster=lkc-1\1identityPoolId=pool-2\1"
    server = LoginServer(broker, {"OAUTHBEARER": lambda: bearer_server("abc", extensions)})
    pairs = [("logicalCluster", "lkc-1"), ("identityPoolId", "pool-2")]
    opened(broker, bearer("abc", *pairs)).close()

    assert 1 == server.logins


def test_keys_of_aws(broker: ScriptedBroker) -> None:
    """AWS_MSK_IAM is one signed message. Without a region there is none."""

    def server() -> Any:
        message = yield b""
        assert b'"x-amz-credential":"AKIA/' in message
        assert b"/eu-west-1/kafka-cluster/aws4_request" in message
        done = True  # noqa: F841
        yield b'{"version":"2020_10_22","request-id":"x"}'

    keys = AwsKeys(access_key="AKIA", secret_key=Secret("hush"))
    login = AwsLogin(region="eu-west-1")
    for each in (login, AwsLogin()):
        value = Fetched(value=(keys, ""), renew_at=2e9, expires_at=2e9)
        KEYS.get(each, lambda _until, value=value: value, soon())
    served = LoginServer(broker, {"AWS_MSK_IAM": server})
    opened(broker, SaslOptions(mechanism="AWS_MSK_IAM", login=login)).close()
    with pytest.raises(AuthenticationFailed, match=r"region of 127.0.0.1 is not known\. Set kfetc"):
        opened(broker, SaslOptions(mechanism="AWS_MSK_IAM", login=AwsLogin()))

    KEYS.clear()
    assert 1 == served.logins


REFUSED = (
    "127.0.0.1:{port} refuses the log-in of user alice by PLAIN: SASL_AUTHENTICATION_FAILED (58): "
    "Authentication failed: Invalid username or password. Check the user and the password in "
    "kafka.sasl.*"
)


@pytest.mark.parametrize(
    ("sasl", "secret"),
    [
        (alice(password="hunter2hunter2"), "hunter2hunter2"),
        (bearer("eyJhbGciOi.c2ln"), "eyJhbGciOi.c2ln"),
    ],
    ids=["PLAIN", "OAUTHBEARER"],
)
def test_a_broker_that_repeats_a_secret(
    broker: ScriptedBroker, sasl: SaslOptions, secret: str
) -> None:
    """The error hides it, and has no signs that steer a terminal."""
    LoginServer(broker, ALL)
    message = f"unknown {secret}\x1b]0;owned\x07\nin realm x"
    refusal = SaslAuthenticateResponse(
        error_code=58, error_message=message, auth_bytes=b"", session_lifetime_ms=0
    )
    broker.answer(SaslAuthenticateRequest, refusal)

    with pytest.raises(AuthenticationFailed) as caught:
        opened(broker, sasl)
    assert "SASL_AUTHENTICATION_FAILED (58): unknown [hidden] ]0;owned in r" in caught.value.message
    assert secret not in repr(vars(caught.value))


def test_a_wrong_password(broker: ScriptedBroker) -> None:
    """The error has the broker's own words, the user, and not the password. It is final."""
    LoginServer(broker, ALL)
    with pytest.raises(AuthenticationFailed) as caught:
        opened(broker, alice(password="hush"))

    assert REFUSED.format(port=broker.port) == caught.value.message
    assert (58, False) == (caught.value.code, caught.value.retriable)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_of_scram(broker: ScriptedBroker, mechanism: str) -> None:
    """The broker refuses the proof."""
    LoginServer(broker, ALL)
    with pytest.raises(AuthenticationFailed, match="invalid credentials"):
        opened(broker, alice(mechanism, password="hush"))


def test_a_wrong_token(broker: ScriptedBroker) -> None:
    """The broker names its reason after the client has said that it understood (RFC 7628)."""
    LoginServer(broker, ALL)
    with pytest.raises(AuthenticationFailed, match=r'by OAUTHBEARER: .*"status":"invalid_token"'):
        opened(broker, bearer("hush"))


def test_a_token_that_was_good_before(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a broker refuses a token of an earlier log-in, the next log-in has a fresh one. If the
    broker refuses that one, too, this is final."""
    provider: Any = ModuleType("kfetch_test_keys")
    tokens = iter(["abc", "new", "hush"])
    provider.bearer = lambda: (next(tokens), time.time() + 3600)
    monkeypatch.setitem(sys.modules, provider.__name__, provider)
    source = TokenProvider(module=provider.__name__, function="bearer")
    sasl = SaslOptions(mechanism="OAUTHBEARER", login=OauthLogin(source=source))
    LoginServer(broker, ALL)
    opened(broker, sasl).close()
    LoginServer(broker, {"OAUTHBEARER": lambda: bearer_server("new")})
    with pytest.raises(
        ConnectionLost, match=r'refuses the log-in by OAUTHBEARER: .*"invalid_token"'
    ):
        opened(broker, sasl)
    opened(broker, sasl).close()
    LoginServer(broker, ALL)
    with pytest.raises(ConnectionLost):
        opened(broker, sasl)
    with pytest.raises(AuthenticationFailed):
        opened(broker, sasl)


def test_a_broker_that_does_not_know_the_password(broker: ScriptedBroker) -> None:
    """With SCRAM a false broker does not get a request, although it accepts the proof."""

    def false() -> Any:
        nonce = (yield b"").decode().partition("r=")[2]
        yield f"r={nonce}x,s=c2FsdA==,i=4096".encode()
        done = True  # noqa: F841
        yield b"v=c2FsdA=="

    LoginServer(broker, {"SCRAM-SHA-256": false})
    with pytest.raises(AuthenticationFailed, match="does not prove that it knows the password"):
        opened(broker, alice("SCRAM-SHA-256"))


def test_a_mechanism_that_is_not_enabled(broker: ScriptedBroker) -> None:
    """The error lists the broker's mechanisms, as far as they are names."""
    LoginServer(
        broker, {"SCRAM-SHA-256": scram_server, "GSSAPI": scram_server, "x\n": plain_server}
    )
    with pytest.raises(AuthenticationFailed) as caught:
        opened(broker, alice())

    assert caught.value.message == (
        f"127.0.0.1:{broker.port} offers no log-in by PLAIN, but by SCRAM-SHA-256, GSSAPI. Set "
        "kafka.sasl.mechanism to one of them, or name another listener"
    )


def test_a_listener_without_sasl(broker: ScriptedBroker) -> None:
    """A PLAINTEXT listener answers ILLEGAL_SASL_STATE. The error names the option to change."""
    with pytest.raises(WrongListener) as caught:
        opened(broker, alice())

    assert caught.value.message == (
        f"127.0.0.1:{broker.port} is a listener without SASL, but kafka.security.protocol asks for "
        "a log-in. Set kafka.security.protocol=PLAINTEXT or SSL, or name a listener with SASL in "
        "kafka.bootstrap.servers"
    )
    assert "no SASL" == caught.value.listener
    assert 1 == broker.connections


@pytest.mark.parametrize("api", [SaslHandshakeRequest, SaslAuthenticateRequest])
def test_a_broker_that_closes(broker: ScriptedBroker, api: Any) -> None:
    """A broker that closes instead of answering may be ill, so this is no final refusal."""
    LoginServer(broker, ALL)
    broker.answer(api, Close())
    with pytest.raises(ConnectionLost) as caught:
        opened(broker, alice())

    assert caught.value.message == (
        f"logging in of user alice by PLAIN: the connection to 127.0.0.1:{broker.port} is lost: "
        "the broker closed it"
    )


@pytest.mark.parametrize("api", [SaslHandshakeRequest, SaslAuthenticateRequest])
def test_a_broker_that_is_silent(broker: ScriptedBroker, api: Any) -> None:
    """A log-in has the deadline of opening the connection."""
    LoginServer(broker, ALL)
    broker.answer(api, Silence())
    with pytest.raises(ConnectionLost, match="no reply within the deadline"):
        opened(broker, alice(), seconds=0.2)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(-1, ConnectionLost), (7, ConnectionLost), (9999, ConnectionLost), (34, AuthenticationFailed)],
)
def test_other_codes(broker: ScriptedBroker, code: int, kind: type[Exception]) -> None:
    """As in Kafka's client, 33, 34 and 58 are final, and after any other code it connects again."""
    LoginServer(broker, ALL)
    refusal = SaslAuthenticateResponse(
        error_code=code, error_message=None, auth_bytes=b"", session_lifetime_ms=0
    )
    broker.answer(SaslAuthenticateRequest, refusal)
    with pytest.raises(kind):
        opened(broker, alice())


def test_an_endless_exchange(broker: ScriptedBroker) -> None:
    """A mechanism that never ends is ended here."""

    def endless() -> Any:
        while True:
            yield b"x"

    LoginServer(broker, {"OAUTHBEARER": endless})
    with pytest.raises(AuthenticationFailed, match="refuses the token and then accepts it"):
        opened(broker, bearer())


def test_a_broker_that_is_too_old() -> None:
    """SaslHandshake v1 came with Kafka 1.0."""
    with (
        ScriptedBroker(versions={SaslHandshakeRequest: (0, 0)}) as broker,
        pytest.raises(UnsupportedVersion, match="speaks SaslHandshakeRequest v0 to v0, kfetch v1"),
    ):
        opened(broker, alice())


def test_no_token_now(broker: ScriptedBroker) -> None:
    """A token server that is away is a passing fault: the caller connects again."""
    LoginServer(broker, ALL)
    source = TokenFile(path="/no/such/file")
    with pytest.raises(TokenUnavailable):
        opened(broker, SaslOptions(mechanism="OAUTHBEARER", login=OauthLogin(source=source)))


def test_a_large_reply_before_the_log_in(broker: ScriptedBroker) -> None:
    """Until the log-in is done, a reply of more than a mebibyte is refused."""
    LoginServer(broker, ALL)
    many = SaslHandshakeResponse(error_code=0, mechanisms=["x" * 1000] * 2000)
    broker.answer(SaslHandshakeRequest, many)
    with pytest.raises(ConnectionLost, match="a reply claims"):
        opened(broker, alice())


class Clock:
    """The clock of log-ins."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that the test moves. Log-ins are renewed after 90 % of their time."""
    made = Clock()
    init = login_module.Login.__init__
    monkeypatch.setattr(
        login_module.Login,
        "__init__",
        lambda self, options, host: init(self, options, host, made.monotonic),
    )
    monkeypatch.setattr(random, "uniform", lambda low, high: (low + high) / 2)
    return made


def ask(connection: Connection) -> None:
    """Ask a small question."""
    connection.call(MetadataRequest[9](topics=[]), soon())


def test_a_limited_log_in_is_renewed(broker: ScriptedBroker, clock: Clock) -> None:
    """After 90 % of its time, and before the next request, on the same connection (KIP-368)."""
    server = LoginServer(broker, ALL, lifetime_ms=100_000)
    connection = opened(broker, alice("SCRAM-SHA-256"))
    logins = []
    for _ in range(3):
        ask(connection)
        clock.now += 89
        ask(connection)
        logins.append(server.logins)
        clock.now += 1

    assert ([1, 2, 3], 1) == (logins, broker.connections)
    connection.close()


def test_an_unlimited_log_in_is_not_renewed(broker: ScriptedBroker, clock: Clock) -> None:
    """Without connections.max.reauth.ms, one log-in lasts for ever."""
    server = LoginServer(broker, ALL)
    connection = opened(broker, alice())
    clock.now += 1e9
    ask(connection)

    assert 1 == server.logins
    connection.close()


def test_a_request_in_flight_goes_first(broker: ScriptedBroker, clock: Clock) -> None:
    """A log-in waits until no reply is due; when its time is over, the caller connects again."""
    server = LoginServer(broker, ALL, lifetime_ms=100_000)
    connection = opened(broker, alice())
    connection.send(MetadataRequest[9](topics=[]))
    clock.now += 95
    connection.send(MetadataRequest[9](topics=[]))
    assert 1 == server.logins
    connection.receive(soon())
    clock.now += 10
    with pytest.raises(ConnectionLost, match="has ended while a request was in flight"):
        connection.send(MetadataRequest[9](topics=[]))

    assert not connection.alive


def test_a_second_log_in_that_is_refused(broker: ScriptedBroker, clock: Clock) -> None:
    """A password that was changed meanwhile is final: every later call raises it, too."""
    LoginServer(broker, ALL, lifetime_ms=100_000)
    connection = opened(broker, alice())
    LoginServer(broker, {"PLAIN": lambda: plain_server(password="new")})
    clock.now += 91
    for _ in range(2):
        with pytest.raises(AuthenticationFailed, match="refuses the log-in of user alice"):
            ask(connection)

    assert "dead: 127.0.0.1" in repr(connection)


def test_a_second_log_in_that_comes_too_soon(broker: ScriptedBroker, clock: Clock) -> None:
    """A broker refuses one within a second, and one that it does not know: connect again."""
    LoginServer(broker, ALL, lifetime_ms=100)
    connection = opened(broker, alice())
    clock.now += 1.0
    ask(connection)
    broker.answer(SaslHandshakeRequest, SaslHandshakeResponse(error_code=34, mechanisms=[]))
    clock.now += 0.2
    with pytest.raises(ConnectionLost, match="can't log in a user now: ILLEGAL_SASL_STATE"):
        ask(connection)


def test_the_point_of_renewal_varies(broker: ScriptedBroker) -> None:
    """It lies between 85 and 95 % of the time, so connections do not log in all at once."""
    LoginServer(broker, ALL, lifetime_ms=100_000)
    connections = [opened(broker, alice()) for _ in range(10)]
    now = time.monotonic()
    left = [c._login._again_at - now for c in connections if c._login]
    for connection in connections:
        connection.close()

    assert len(set(left)) > 5
    assert all(80 < seconds < 96 for seconds in left)


def test_options_have_a_user() -> None:
    """Errors of ACLs name the user that logs in."""
    assert "alice" == network(alice()).security.user
    assert "" == replace(network(alice()), security=type(network(alice()).security)()).security.user
