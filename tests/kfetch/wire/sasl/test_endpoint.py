"""Token endpoints: what is sent, what counts as a token, which errors are final, and limits."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kfetch.errors import AuthenticationFailed, TokenUnavailable
from kfetch.options.oauth import ClientCredentials
from kfetch.options.secret import Secret
from kfetch.options.tls import Store, TlsOptions
from kfetch.wire.sasl import endpoint
from kfetch.wire.sasl.endpoint import request_token
from tests.kfetch.wire.certificates import PASSWORD, Authority, server_context

SECRET = "s3cr:et/ü"


def token_of(expires_at: float) -> str:
    """A token that expires at a time."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires_at}).encode()).decode()
    return f"e30.{claims.rstrip('=')}.c2ln"


class Endpoint:
    """An HTTP server that gives the answers of ``answers`` in turn, and then the last one."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.requests: list[tuple[str, dict[str, str], str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.requests.append((self.path, headers, body))
                status, answer = outer.answers.pop(0) if outer.answers[1:] else outer.answers[0]
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # ``server_close`` joins the threads: no socket of theirs outlives the test.
        self.server.daemon_threads = False
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def source(self) -> ClientCredentials:
        """Client credentials for this endpoint."""
        return ClientCredentials(
            url=f"http://127.0.0.1:{self.server.server_port}/token?tenant=hush",
            client_id="me",
            client_secret=Secret(SECRET),
            scope="read all",
            backoff_s=0.001,
            backoff_max_s=0.002,
        )


@pytest.fixture
def oidc() -> Iterator[Endpoint]:
    """A token endpoint on this machine."""
    made = Endpoint()
    yield made
    made.server.shutdown()
    made.server.server_close()


def soon(seconds: float = 60.0) -> float:
    """A deadline."""
    return time.monotonic() + seconds


def test_the_request(oidc: Endpoint) -> None:
    """A form with the grant and the scope; id and secret in the header alone."""
    oidc.answers = [(200, {"access_token": token_of(2e9), "expires_in": 5})]
    assert (token_of(2e9), 2e9) == request_token(oidc.source, soon())

    path, headers, body = oidc.requests[0]
    assert ("/token?tenant=hush", "grant_type=client_credentials&scope=read+all") == (path, body)
    assert "application/x-www-form-urlencoded" == headers["content-type"]
    assert f"me:{SECRET}" == base64.b64decode(headers["authorization"][6:]).decode()


def test_encoded_credentials(oidc: Endpoint) -> None:
    """With header.urlencode, id and secret are encoded before Base64 (RFC 6749, 2.3.1)."""
    oidc.answers = [(200, {"access_token": "t", "expires_in": 5})]
    request_token(replace(oidc.source, urlencode=True, client_id="m e"), soon())

    sent = base64.b64decode(oidc.requests[0][1]["authorization"][6:]).decode()
    assert "m+e:s3cr%3Aet%2F%C3%BC" == sent


@pytest.mark.parametrize(
    ("answer", "token", "lifetime_s"),
    [
        ({"access_token": "opaque", "expires_in": 60}, "opaque", 60),
        ({"id_token": "opaque", "expires_in": 60.5}, "opaque", 60.5),
        ({"access_token": "opaque"}, "opaque", 300),
        ({"access_token": "opaque", "expires_in": "soon"}, "opaque", 300),
        ({"access_token": "opaque", "expires_in": -1}, "opaque", 300),
        ({"access_token": "a.b.c", "expires_in": 60}, "a.b.c", 60),
    ],
)
def test_tokens(oidc: Endpoint, answer: Any, token: str, lifetime_s: float) -> None:
    """A token lives as long as its claim exp says, else as expires_in says, else five minutes."""
    oidc.answers = [(200, answer)]
    text, expires_at = request_token(oidc.source, soon())

    assert token == text
    assert expires_at == pytest.approx(time.time() + lifetime_s, abs=5)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "answers without a token"),
        (b"<html>", "answers without a token"),
        (b"[" * 100_000, "answers without a token"),
        ({"access_token": 5}, "answers without a token"),
        ({"access_token": "a\r\nb"}, "answers without a token"),
        ({"access_token": ""}, "answers without a token"),
        ({"access_token": token_of(5)}, "answers with an expired token"),
        (b"\0" * (3 << 20), "answers without a token"),
    ],
)
def test_answers_without_a_token(oidc: Endpoint, body: Any, problem: str) -> None:
    """Anything else is no token. The answer is read up to a mebibyte."""
    oidc.answers = [(200, body)]
    once = replace(oidc.source, backoff_s=60, backoff_max_s=60)
    with pytest.raises(TokenUnavailable, match=problem):
        request_token(once, soon(10))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 302, 501])
def test_final_refusals(oidc: Endpoint, status: int) -> None:
    """The endpoint refuses the client: one question, and its reason, without the secret."""
    reason = f"no client {SECRET} here\x1b[2J"
    oidc.answers = [(status, {"error": "invalid_client", "error_description": reason})]
    with pytest.raises(AuthenticationFailed) as caught:
        request_token(oidc.source, soon())

    assert 1 == len(oidc.requests)
    assert caught.value.message == (
        f"the token endpoint {oidc.source.url.partition('?')[0]} answers with status {status}: "
        "invalid_client, no client [hidden] here [2J. Check the client id, the client secret, the "
        "scope and the URL"
    )


def test_an_endpoint_that_echoes_the_request(oidc: Endpoint) -> None:
    """The error hides the header, the query, and the secret in each form that a server may use."""
    answers: list[str] = []
    for urlencode in (False, True):
        source = replace(oidc.source, urlencode=urlencode)
        oidc.answers = [(503, b"")]
        with pytest.raises(TokenUnavailable):
            request_token(source, soon(1))
        header = oidc.requests[-1][1]["authorization"]
        echoes = [header, base64.b64decode(header[6:]).decode(), SECRET]
        echoes += ["s3cr%3Aet%2F%C3%BC", "s3cr%3aet/%c3%bc", "tenant=hush", "s3cr:et/\xc3\xbc"]
        oidc.answers = [(401, {"error": echo}) for echo in echoes]
        for _ in echoes:
            with pytest.raises(AuthenticationFailed) as caught:
                request_token(source, soon())
            answers.append(caught.value.message)

    assert all("[hidden]" in answer for answer in answers)
    assert all(part not in str(answers) for part in ("s3cr", "bWU6", "hush", "%3A"))


def test_passing_faults_are_retried(oidc: Endpoint) -> None:
    """An endpoint that is overloaded or restarts is asked again, with a back-off."""
    good = (200, {"access_token": "t", "expires_in": 5})
    oidc.answers = [(503, b""), (500, {"error": "x"}), (429, b""), (200, b""), good]

    assert "t" == request_token(oidc.source, soon())[0]
    assert 5 == len(oidc.requests)


def test_retries_end_at_the_deadline(oidc: Endpoint) -> None:
    """Then the error is the first one: the last try may have had no time."""
    oidc.answers = [(503, b""), (500, b"")]
    with pytest.raises(TokenUnavailable, match="answers with status 503"):
        request_token(oidc.source, soon(0.2))


def test_nobody_listens(closed_port: int) -> None:
    """A refused connection is retried, and the error names the endpoint without its query."""
    source = ClientCredentials(
        url=f"http://127.0.0.1:{closed_port}/token?tenant=hush",
        client_id="me",
        client_secret=Secret(SECRET),
        backoff_s=0.01,
    )
    with pytest.raises(TokenUnavailable) as caught:
        request_token(source, soon(0.05))

    assert f"the token endpoint http://127.0.0.1:{closed_port}/token gives no answer" in str(
        caught.value
    )
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n{"])
def test_an_endpoint_that_drips(head: bytes) -> None:
    """A byte now and then does not extend the time of an answer."""
    stop = threading.Event()

    def drip(listener: socket.socket) -> None:
        stream, _ = listener.accept()
        with stream:
            stream.sendall(head)
            while not stop.wait(0.01):
                try:
                    stream.sendall(b"x")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,), daemon=True)
        thread.start()
        source = ClientCredentials(
            url=f"http://127.0.0.1:{listener.getsockname()[1]}/",
            client_id="me",
            client_secret=Secret(SECRET),
            read_timeout_s=0.1,
        )
        began = time.monotonic()
        with pytest.raises(TokenUnavailable, match="gives no answer: timed out"):
            request_token(source, soon(0.12))
        took_s = time.monotonic() - began
        stop.set()
        thread.join(60)  # its socket must not outlive the test

    assert took_s < 30


def test_a_certificate_that_is_not_trusted_is_final(
    oidc: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No retry makes a certificate valid."""
    import ssl

    def fail(*_: Any) -> Any:
        cause = ssl.SSLCertVerificationError()
        cause.verify_message = "self-signed certificate"
        raise cause

    monkeypatch.setattr(endpoint, "_post", fail)
    with pytest.raises(AuthenticationFailed, match="is not valid here: self-signed certificate"):
        request_token(oidc.source, soon())


@pytest.mark.parametrize(
    ("store", "problem"),
    [
        (Store(location="/no/such/file"), "option ssl.truststore.location: /no/such/file can't be"),
        (Store(pem=Secret("none")), "option ssl.truststore.certificates has no certificate"),
    ],
)
def test_authorities_that_cant_be_read(oidc: Endpoint, store: Store, problem: str) -> None:
    """A store that can't be used here is final, and kfetch asks nobody."""
    tls = TlsOptions(truststore=store)
    source = replace(oidc.source, url="https://127.0.0.1:1/", tls=tls)
    with pytest.raises(AuthenticationFailed) as refused:
        request_token(source, soon())

    where = "TLS of the token endpoint https://127.0.0.1:1/, in kafka.sasl.jaas.config: "
    assert where + problem in refused.value.message
    assert "kafka.ssl" not in refused.value.message


def test_stores_of_pkcs12(oidc: Endpoint, tmp_path: Path) -> None:
    """The endpoint's authority and the client's own certificate may be PKCS12 files, as in Java."""
    authority = Authority()
    context = server_context(authority.issue("127.0.0.1"), tmp_path, clients=authority)
    oidc.server.socket = context.wrap_socket(oidc.server.socket, server_side=True)
    oidc.answers = [(200, {"access_token": token_of(2e9)})]
    (tmp_path / "ca.p12").write_bytes(authority.truststore_p12())
    (tmp_path / "me.p12").write_bytes(authority.issue("me").p12())
    trusted, own = (
        Store(location=str(tmp_path / name), password=Secret(PASSWORD))
        for name in ("ca.p12", "me.p12")
    )
    source = replace(oidc.source, url=oidc.source.url.replace("http:", "https:"))

    tls = TlsOptions(truststore=trusted, keystore=own)
    assert (token_of(2e9), 2e9) == request_token(replace(source, tls=tls), soon())
    with pytest.raises(AuthenticationFailed, match="Name its authority in"):
        request_token(source, soon())
