"""Settings of Google's connector mean the same for kfetch, and the lease compares generations."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from kfetch.errors import OptionError
from kfetch.storage.gcs import gcs_config
from kfetch.storage.open import stored_path, versioned
from kfetch.storage.versions import Version, VersionedFile

FILE = {"auth.service.account.json.keyfile": "/etc/key.json"}
TYPE = {"auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE"}


def config(settings: dict[str, str], prefix: str = "fs.gs.") -> dict[str, Any]:
    return gcs_config("lake", {f"spark.hadoop.{prefix}{name}": settings[name] for name in settings})


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {}),
        ({"auth.type": "COMPUTE_ENGINE"}, {}),
        ({"auth.type": "APPLICATION_DEFAULT"}, {}),
        ({"auth.type": "UNAUTHENTICATED", **FILE}, {"skip_signature": True}),
        ({**TYPE, **FILE}, {"service_account": "/etc/key.json"}),
        (FILE, {"service_account": "/etc/key.json"}),
        ({"storage.root.url": "https://gcs.example/"}, {"base_url": "https://gcs.example"}),
        (
            {"storage.root.url": "http://127.0.0.1:1"},
            {"base_url": "http://127.0.0.1:1", "client_options": {"allow_http": True}},
        ),
        ({"project.id": "p", "encryption.key": ""}, {}),
    ],
)
@pytest.mark.parametrize("prefix", ["fs.gs.", "google.cloud."])
def test_settings(settings: dict[str, str], expected: dict[str, Any], prefix: str) -> None:
    """Each setting has its counterpart, by its name of today and by that of earlier versions."""
    assert {"bucket": "lake", **expected} == config(settings, prefix)


def test_the_name_of_today_wins() -> None:
    """The connectors look for it first."""
    settings = {
        "spark.hadoop.fs.gs.auth.service.account.json.keyfile": "/new",
        "spark.hadoop.google.cloud.auth.service.account.json.keyfile": "/old",
    }
    assert "/new" == gcs_config("lake", settings)["service_account"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (TYPE, r"fs\.gs\.auth\.service\.account\.json\.keyfile is missing"),
        (
            {"auth.type": "USER_CREDENTIALS"},
            "type USER_CREDENTIALS of spark.hadoop.fs.gs.auth.type",
        ),
        ({"auth.service.account.private.key": "pa55"}, "follow .*account.private.key"),
        ({"auth.service.account.keyfile": "/pa55.p12"}, "follow .*service.account.keyfile"),
        ({"auth.impersonation.service.account.for.user.x": "pa55"}, "follow .*impersonation"),
        ({"auth.access.token.provider.impl": "com.pa55"}, "follow .*auth.access.token.provider"),
        ({"encryption.key": "pa55"}, "follow .*encryption.key"),
        ({"storage.root.url": "ftp://pa55"}, r"storage\.root\.url is no address of a store"),
    ],
)
def test_settings_that_cannot_be_followed(settings: dict[str, str], sentence: str) -> None:
    """kfetch would see other objects than Spark, or none. The error names the setting, no value."""
    with pytest.raises(OptionError, match=sentence) as told:
        config(settings)
    assert "pa55" not in str(told.value)


@pytest.mark.parametrize("bucket", ["La ke", "a:b@lake", ""])
def test_what_is_no_bucket(bucket: str) -> None:
    """The error says so before anybody asks a store."""
    with pytest.raises(OptionError, match="name of a bucket"):
        gcs_config(bucket, {})


def test_a_file_without_a_key(tmp_path: Path) -> None:
    """The error says what to correct, and shows nothing of the file."""
    (tmp_path / "key.json").write_text("pa55word")
    name = "spark.hadoop.fs.gs.auth.service.account.json.keyfile"
    with pytest.raises(OptionError, match="no complete keys for gs://lake/ck: correct the") as told:
        stored_path("gs://lake/ck", {name: str(tmp_path / "key.json")})
    assert "pa55word" not in str(told.value)


class Generations(BaseHTTPRequestHandler):
    """One object, whose writes obey Google's rule: ``x-goog-if-generation-match``, 0 for none."""

    generation, content = 0, b""
    numbers = itertools.count(1700000000000001)

    def do_PUT(self) -> None:
        kind = type(self)
        wanted = self.headers.get("x-goog-if-generation-match")
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if wanted is not None and int(wanted) != kind.generation:
            self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        kind.generation, kind.content = next(self.numbers), content
        self._answer(200, b"")

    def do_GET(self) -> None:
        if self.generation:
            self._answer(200, self.content)
        else:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", self.date_time_string())
        self.send_header("ETag", '"the same for the same bytes"')
        self.send_header("x-goog-generation", str(self.generation))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[VersionedFile]:
    """A lease that does not exist yet. Its store wants no token."""
    key = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    (tmp_path / "key.json").write_text(json.dumps(key))
    handler = type("Handler", (Generations,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        settings = {
            "storage.root.url": f"http://127.0.0.1:{server.server_port}",
            "auth.service.account.json.keyfile": str(tmp_path / "key.json"),
        }
        full = {f"spark.hadoop.fs.gs.{name}": value for name, value in settings.items()}
        path = stored_path("gs://lake/ck.lease", full)
        assert path is not None
        yield versioned(path)
        server.shutdown()


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_generations(file: VersionedFile) -> None:
    """A version replaces only the one that its writer names, and the store's rule is found out."""
    assert file.read() is None
    first = file.write(b"one", None)
    assert file.write(b"other", None) is None
    assert file.is_conditional()
    second = file.write(b"two", first)
    assert second not in (None, first)
    assert file.write(b"late", first) is None
    assert Version(str(second), b"two") == file.read()


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_a_store_that_ignores_generations(
    file: VersionedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is recognised: it carries out a write that it must refuse."""
    file.write(b"one", None)
    monkeypatch.setattr(Generations, "do_PUT", _overwrite)
    assert not file.is_conditional()


def _overwrite(request: Generations) -> None:
    request.rfile.read(int(request.headers["Content-Length"]))
    request._answer(200, b"")
