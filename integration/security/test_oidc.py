"""OAUTHBEARER as in production: a token endpoint with TLS, and a broker that checks signatures.

The broker has Kafka's own validator (KIP-768), with the public key in a file of JWKS (RFC 7517).
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from integration.conftest import TopicFactory
from integration.records import write
from integration.secured import SecuredCluster
from integration.secured.listeners import jaas
from integration.security.access import VALUES, options, read
from kfetch.errors import KfetchError

pytestmark = [pytest.mark.integration, pytest.mark.long]
CLIENT, SECRET = "clicks", "client-s3cret"
AUDIENCE, ISSUER = "kafka", "https://test.example"
_JAAS = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"


def encoded(content: bytes) -> str:
    """Base64 as in tokens."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class Provider:
    """An OIDC provider: its key, its tokens, and how often it was asked."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.asked = 0
        self.audience = AUDIENCE

    def jwks(self) -> str:
        """The public key as JWKS."""
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256"}
        key |= {
            name: encoded(number.to_bytes((number.bit_length() + 7) // 8, "big"))
            for name, number in (("n", numbers.n), ("e", numbers.e))
        }
        return json.dumps({"keys": [key]})

    def token(self) -> str:
        """A signed token of the user ``reader`` for ten minutes."""
        now = int(time.time())
        header = {"alg": "RS256", "kid": "one", "typ": "JWT"}
        claims = {"sub": "reader", "aud": self.audience, "iss": ISSUER}
        claims |= {"iat": now, "exp": now + 600, "scope": "kafka"}
        parts = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
        signature = self._key.sign(parts.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{parts}.{encoded(signature)}"

    def answer(self, authorization: str) -> tuple[int, dict[str, Any]]:
        """The answer to a client with this header."""
        self.asked += 1
        expected = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if authorization != f"Basic {expected}":
            return 401, {"error": "invalid_client"}
        return 200, {"access_token": self.token(), "token_type": "Bearer", "expires_in": 600}


@contextmanager
def endpoint(provider: Provider, certificate: Path) -> Iterator[str]:
    """The provider's token endpoint with TLS; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, answer = provider.answer(self.headers.get("Authorization", ""))
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_address[1]}/token"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def provider() -> Provider:
    """The provider that the broker trusts."""
    return Provider()


@pytest.fixture(scope="module")
def checked(
    provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredCluster]:
    """A broker that takes only tokens of the provider."""
    jwks = tmp_path_factory.mktemp("jwks") / "jwks.json"
    jwks.write_text(provider.jwks())
    prefix = "listener.name.sasl_ssl.oauthbearer."
    properties = {
        f"{prefix}sasl.server.callback.handler.class": f"{_JAAS}ValidatorCallbackHandler",
        f"{prefix}sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
        f"{prefix}sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{prefix}sasl.oauthbearer.expected.issuer": ISSUER,
    }
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks.as_uri()}"
    java = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {allowed}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", java.strip())
        directory = tmp_path_factory.mktemp("oidc")
        with SecuredCluster.start_secured(directory, ["SASL_SSL"], properties) as cluster:
            yield cluster


def login(cluster: SecuredCluster, url: str, secret: str) -> dict[str, str]:
    """The options of a client with client credentials."""
    kafka = options(cluster, "SASL_SSL", mechanism="OAUTHBEARER")
    # As in Java, the endpoint's authority is an option of the log-in module.
    trust = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(cluster.credentials.path("ca.pem")),
    }
    own = "kafka.sasl.oauthbearer."
    return kafka | {
        "kafka.sasl.jaas.config": jaas("oauthbearer.OAuthBearerLoginModule", trust),
        f"{own}token.endpoint.url": url,
        f"{own}client.credentials.client.id": CLIENT,
        f"{own}client.credentials.client.secret": secret,
        f"{own}scope": "kafka",
    }


def test_client_credentials(
    checked: SecuredCluster, provider: Provider, topic: TopicFactory
) -> None:
    """A query reads with tokens of the endpoint, and asks once for all of its connections."""
    name = topic(cluster=checked)
    write(checked, name, VALUES)
    with endpoint(provider, checked.credentials.path("broker.pem")) as url:
        before = provider.asked
        assert VALUES == read(login(checked, url, SECRET), name)
        assert 1 == provider.asked - before


def test_a_wrong_client_secret(
    checked: SecuredCluster, provider: Provider, topic: TopicFactory
) -> None:
    """The endpoint's refusal is the error, in time, and without the secret."""
    name, began = topic(cluster=checked), time.monotonic()
    with (
        endpoint(provider, checked.credentials.path("broker.pem")) as url,
        pytest.raises(KfetchError) as refused,
    ):
        read(login(checked, url, "wr0ng-secret"), name)

    assert "401" in refused.value.message
    assert "invalid_client" in refused.value.message
    assert "wr0ng-secret" not in f"{refused.value!r}{refused.value.where}"
    assert time.monotonic() - began < 10


def test_a_token_for_another_audience(
    checked: SecuredCluster,
    provider: Provider,
    topic: TopicFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker's refusal of a token is the error."""
    name = topic(cluster=checked)
    monkeypatch.setattr(provider, "audience", "elsewhere")
    with (
        endpoint(provider, checked.credentials.path("broker.pem")) as url,
        pytest.raises(KfetchError, match="refuses the log-in by OAUTHBEARER"),
    ):
        read(login(checked, url, SECRET), name)
