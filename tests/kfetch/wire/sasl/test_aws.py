"""Keys of AWS by botocore itself: from the environment, a profile or a role, and its errors."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from botocore.credentials import AssumeRoleCredentialFetcher
from botocore.exceptions import ClientError, EndpointConnectionError

from kfetch.errors import AuthenticationFailed, TokenUnavailable
from kfetch.options.sasl import AwsLogin
from kfetch.options.secret import Secret
from kfetch.wire.sasl.aws import KEYS, aws_keys, aws_msk_iam, forget, source_of

HOST = "b-1.x.kafka.eu-west-1.amazonaws.com"
PROFILES = """
[default]
aws_access_key_id = AKIADEFAULT
aws_secret_access_key = hush1
[other]
aws_access_key_id = AKIAOTHER
aws_secret_access_key = hush2
region = eu-west-3
"""


@pytest.fixture(autouse=True)
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Profiles in a file of the test, and no machine that could answer for a role."""
    file = tmp_path / "credentials"
    file.write_text(PROFILES)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    KEYS.clear()
    source_of.cache_clear()
    yield
    KEYS.clear()
    source_of.cache_clear()


def message(login: AwsLogin, host: str = HOST) -> str:
    """The message for a broker."""
    found = aws_keys(login, time.monotonic() + 60)
    return next(aws_msk_iam(login, host, found)).decode()


def test_a_profile() -> None:
    """The default profile, or the one that the options name."""
    assert '"x-amz-credential":"AKIADEFAULT/' in message(AwsLogin())
    assert '"x-amz-credential":"AKIAOTHER/' in message(AwsLogin(profile="other"))


@pytest.mark.parametrize(
    ("login", "host", "region"),
    [
        (AwsLogin(profile="other"), HOST, "eu-west-1"),
        (AwsLogin(profile="other"), "broker.example", "eu-west-3"),
        (AwsLogin(profile="other", region="eu-west-2"), HOST, "eu-west-2"),
    ],
)
def test_the_region(login: AwsLogin, host: str, region: str) -> None:
    """It is the option's, else that of the broker's name, else that of AWS's configuration."""
    assert f"/{region}/kafka-cluster/" in message(login, host)


def test_a_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of a role come from AWS's token service, with the session's name."""
    calls = []

    def fetch(self: Any) -> dict[str, str]:
        calls.append((self._role_arn, self._assume_kwargs))
        return {
            "access_key": "AKIAROLE",
            "secret_key": "hush3",
            "token": "session",
            "expiry_time": "2099-01-01T00:00:00Z",
        }

    monkeypatch.setattr(AssumeRoleCredentialFetcher, "fetch_credentials", fetch)
    login = AwsLogin(role_arn="arn:aws:iam::1:role/r", role_external_id=Secret("hush4"))
    sent = message(login)

    assert '"x-amz-credential":"AKIAROLE/' in sent
    assert '"x-amz-security-token":"session"' in sent
    ((arn, arguments),) = calls
    assert ("arn:aws:iam::1:role/r", "kfetch", "hush4") == (
        arn,
        arguments["RoleSessionName"],
        arguments["ExternalId"],
    )


def client_error(code: str, status: int) -> ClientError:
    """An answer of AWS's token service."""
    response: Any = {
        "Error": {"Code": code, "Message": "hush"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(response, "AssumeRole")


@pytest.mark.parametrize(
    ("cause", "kind", "text"),
    [
        (client_error("AccessDenied", 403), AuthenticationFailed, "ClientError (AccessDenied)"),
        (client_error("Throttling", 400), TokenUnavailable, "ClientError (Throttling)"),
        (client_error("InternalFailure", 500), TokenUnavailable, "(InternalFailure)"),
        (EndpointConnectionError(endpoint_url="x"), TokenUnavailable, "EndpointConnectionError"),
        (
            RuntimeError("hush: refreshed credentials are still expired"),
            TokenUnavailable,
            "keys: R",
        ),
    ],
)
def test_errors(
    monkeypatch: pytest.MonkeyPatch, cause: Exception, kind: type[Exception], text: str
) -> None:
    """A refusal is final, and a fault may pass. Only the error's name and code are shown."""

    def fail(_self: Any) -> Any:
        raise cause

    monkeypatch.setattr(AssumeRoleCredentialFetcher, "fetch_credentials", fail)
    with pytest.raises(kind) as caught:
        message(AwsLogin(role_arn="arn:aws:iam::1:role/r"))

    assert text in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_web_identity_without_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a Kubernetes token that is not there yet may come. The path is not shown."""
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "absent"))
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "hush"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with pytest.raises(TokenUnavailable, match="AWS gives no keys: FileNotFoundError") as caught:
        message(AwsLogin())

    assert "hush" not in str(caught.value)


def test_no_such_profile() -> None:
    """A profile that does not exist is final."""
    with pytest.raises(AuthenticationFailed, match="AWS gives no keys: ProfileNotFound"):
        message(AwsLogin(profile="absent"))


def test_no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any credentials, the error says where AWS looks for them."""
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "absent"))
    with pytest.raises(AuthenticationFailed, match="AWS has no credentials here"):
        message(AwsLogin())


class MetadataService:
    """The service of a machine of AWS that gives its role's keys: AKIA1, then AKIA2, …"""

    def __init__(self) -> None:
        self.status = 200
        self.failures = 0
        """So many of the next answers have the status 503."""
        self.answers = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                self.answer("token")

            def do_GET(self) -> None:
                self.answer(outer.keys() if self.path.endswith("/reader") else "reader")

            def answer(self, text: str) -> None:
                outer.failures -= 1
                self.send_response(503 if outer.failures >= 0 else outer.status)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = False
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def keys(self) -> str:
        """The next answer with keys."""
        self.answers += self.status == 200
        names = {"AccessKeyId": f"AKIA{self.answers}", "SecretAccessKey": "hush", "Token": "t"}
        return json.dumps({**names, "Expiration": "2099-01-01T00:00:00Z"})


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MetadataService]:
    """A machine whose role has the keys."""
    made = MetadataService()
    url = f"http://127.0.0.1:{made.server.server_port}/"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "absent"))
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url)
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    yield made
    made.server.shutdown()
    made.thread.join()
    made.server.server_close()


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let so many seconds of Unix time pass."""
    now = time.time() + seconds
    monkeypatch.setattr(time, "time", lambda: now)


def test_a_metadata_service_that_fails(
    machine: MetadataService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """botocore keeps the keys of a role until they expire. A failed answer costs nothing."""
    assert "AKIA1/" in message(AwsLogin())
    machine.status = 503
    for _ in range(10):
        later(monkeypatch, 301)
        assert "AKIA1/" in message(AwsLogin())


@pytest.mark.parametrize("failures", [1, 2])
def test_a_first_answer_that_fails(machine: MetadataService, failures: int) -> None:
    """A new agent asks again, because it has no keys yet."""
    machine.failures = failures

    assert "AKIA" in message(AwsLogin())


def test_no_keys_after_there_were_some(machine: MetadataService) -> None:
    """A machine that gave keys gives some again. So a log-in without them is tried again."""
    found = aws_keys(AwsLogin(), time.monotonic() + 60)
    machine.status = 503
    forget(AwsLogin(), found, time.monotonic())  # the broker has refused them
    with pytest.raises(TokenUnavailable, match="AWS has no credentials here now"):
        message(AwsLogin())
    machine.status = 200

    assert "AKIA2/" in message(AwsLogin())


def test_keys_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every five minutes kfetch reads them anew. The old ones serve if that fails for a while."""
    file = tmp_path / "credentials"
    assert "AKIADEFAULT/" in message(AwsLogin())
    file.write_text(PROFILES.replace("AKIADEFAULT", "AKIANEW"))
    later(monkeypatch, 301)
    assert "AKIANEW/" in message(AwsLogin())
    file.write_text("")
    later(monkeypatch, 301)
    assert "AKIANEW/" in message(AwsLogin())
    later(monkeypatch, 300)
    with pytest.raises(TokenUnavailable):
        message(AwsLogin())
