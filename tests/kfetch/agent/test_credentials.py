"""Queries with different credentials share nothing in an agent or a worker."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from kfetch.agent import client, inline
from kfetch.agent.budget import Budget
from kfetch.agent.channel import ReadRequest
from kfetch.agent.home import AgentFiles, ProcessIdentity
from kfetch.agent.server import OpenQueries
from kfetch.agent.shared_query import SharedQuery
from kfetch.errors import AgentError
from kfetch.model import Split
from kfetch.options import SourceOptions
from kfetch.options.oauth import (
    ClientCredentials,
    OauthLogin,
    StaticToken,
    TokenProvider,
    TokenSource,
)
from kfetch.options.sasl import KerberosLogin, PasswordLogin, SaslOptions
from kfetch.options.secret import Secret
from kfetch.options.security import SecurityOptions
from kfetch.options.tls import Store, TlsOptions
from tests.kfetch.agent.helpers import T0, options, part, read
from tests.kfetch.wire.little import LittleKafka


def of_user(kafka: LittleKafka, user: str, password: str = "p") -> SourceOptions:
    """Options of a user's query."""
    plain = options(kafka)
    login = PasswordLogin(user=user, password=Secret(password))
    security = SecurityOptions(sasl=SaslOptions(mechanism="PLAIN", login=login))
    return replace(plain, network=replace(plain.network, security=security))


@pytest.mark.parametrize(("user", "password"), [("eve", "p"), ("ann", "other")])
def test_a_request_with_other_credentials_is_refused(
    kafka: LittleKafka, budget: Budget, user: str, password: str
) -> None:
    """The agent lends a query's sessions only to tasks with the query's user and password."""
    queries = OpenQueries(budget)
    first = ReadRequest(query="q", options=of_user(kafka, "ann"), ranges=())
    with queries.reading(first) as query:
        with queries.reading(first) as same:
            assert query is same
        other = ReadRequest(query="q", options=of_user(kafka, user, password), ranges=())
        with pytest.raises(AgentError, match="another user"), queries.reading(other):
            pass
        assert [query.status()] == [*queries.status()]
    queries.close()


def test_two_queries_share_no_connection(kafka: LittleKafka, budget: Budget) -> None:
    """Each query has its own connection, session and metadata, even with equal options."""
    item = part(kafka, T0)
    with (
        closing(SharedQuery("one", options(kafka), budget)) as one,
        closing(SharedQuery("two", options(kafka), budget)) as two,
    ):
        assert read(one, item) == read(two, item)
        assert 2 == len(kafka.sessions())
        assert one.metadata is not two.metadata
        assert (1, 1) == (one.stats().connections_opened, two.stats().connections_opened)


def test_a_worker_opens_new_sessions_for_other_credentials(kafka: LittleKafka) -> None:
    """Without an agent, a query of the same name and another user starts anew."""
    split = Split(query="q", ranges=(part(kafka, T0),))
    try:
        for _ in range(2):
            list(inline.read(split, options(kafka)))
        assert 1 == kafka.nodes[1].connections
        inline.read(split, of_user(kafka, "eve"))
        assert [] == kafka.sessions()
    finally:
        inline.close_all()


def tls(truststore: str = "", keystore: str = "") -> TlsOptions:
    """TLS with stores in files."""
    stores = [Store(location=path) if path else None for path in (truststore, keystore)]
    return TlsOptions(truststore=stores[0], keystore=stores[1])


def oauth(source: TokenSource) -> SecurityOptions:
    """A log-in with tokens."""
    return SecurityOptions(
        sasl=SaslOptions(mechanism="OAUTHBEARER", login=OauthLogin(source=source))
    )


def kerberos(keytab: str = "", cache: str = "") -> SecurityOptions:
    """A log-in with tickets."""
    login = KerberosLogin(service_name="kafka", keytab=keytab, ticket_cache=cache)
    return SecurityOptions(sasl=SaslOptions(mechanism="GSSAPI", login=login))


def endpoint(stores: TlsOptions) -> SecurityOptions:
    """A log-in with tokens of an endpoint."""
    secret = Secret("s")
    return oauth(
        ClientCredentials(url="https://idp", client_id="c", client_secret=secret, tls=stores)
    )


@pytest.mark.parametrize(
    ("security", "shared"),
    [
        (oauth(TokenProvider(module="tokens", function="get")), False),
        (oauth(StaticToken(token=Secret("t"))), True),
        (SecurityOptions(), True),
        (SecurityOptions(tls=tls()), True),
        (SecurityOptions(tls=tls("/etc/ca.pem", "/etc/own.pem")), True),
        (SecurityOptions(tls=tls("ca.pem", "/etc/own.pem")), False),
        (SecurityOptions(tls=tls("/etc/ca.pem", "own.pem")), False),
        (endpoint(tls("/etc/ca.pem")), True),
        (endpoint(tls("ca.pem")), False),
        (kerberos("/etc/own.keytab"), True),
        (kerberos("own.keytab"), False),
        (kerberos(cache="FILE:/tmp/tickets"), True),
        (kerberos(cache="tickets"), False),
    ],
)
def test_sessions_share_neither_modules_nor_files(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch, security: SecurityOptions, shared: bool
) -> None:
    """Two users of Spark Connect may send modules and files of one name. Each reads with its own,
    so their sessions have two agents. Other log-ins are equal only if their secrets are."""
    monkeypatch.setattr(client, "find_owner", lambda: ProcessIdentity(pid=7, started=1))
    sockets = []

    def note(files: AgentFiles, *_: object, **__: object) -> None:
        sockets.append(files.socket)
        raise AgentError("noted")

    monkeypatch.setattr(client, "connect", note)
    plain = options(kafka)
    secured = replace(plain, network=replace(plain.network, security=security))
    for session in ("ann's", "eve's", "ann's"):
        monkeypatch.setenv("SPARK_JOB_ARTIFACT_UUID", session)
        with pytest.raises(AgentError, match="noted"):
            next(client.read(Split(query="q", ranges=()), secured))

    assert sockets[0] == sockets[2]
    assert shared == (sockets[0] == sockets[1])
