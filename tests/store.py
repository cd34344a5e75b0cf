"""A store that speaks S3, in a thread of the test: moto's server. It is not obstore's own work.

``python -m tests.store`` is one in a process of its own. It prints its endpoint, and ends with its
input. If ``KFETCH_STORE`` names an emulator of Azure or a namenode, the tests use that in its
place. If it is ``gs``, they speak to moto as to Google's store.
``integration/storage/test_other_stores.py`` runs them so.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from kfetch.storage.objects import ObjectPath
from kfetch.storage.open import stored_path

BUCKET = "lake"


@dataclass
class Store:
    """A running store with one bucket."""

    endpoint: str
    uri: str = f"s3a://{BUCKET}"
    """The URI of the bucket."""
    secret: str = "pa55word"
    """What nobody may see."""
    part_request: str = "partNumber="
    """In the path of a request that brings a part of an upload."""
    end_request: str = "?uploadId="
    """In the path of a request that completes an upload."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings for S3A."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": "user",
            "spark.hadoop.fs.s3a.secret.key": self.secret,
        }

    def upload(self, directory: Path, prefix: str = "") -> ObjectPath:
        """Copy the files below a directory into the store, and return the path of the copy."""
        prefix = prefix or f"copy-{next(self._numbers)}"
        for file in directory.rglob("*"):
            if file.is_file():
                self.put(f"{prefix}/{file.relative_to(directory)}", file.read_bytes())
        return self.path(prefix)

    def put(self, key: str, content: bytes) -> None:
        """Write one object, without a request. The store must be in this process."""
        _kept().put_object(BUCKET, key, content)

    def path(self, key: str) -> ObjectPath:
        """Returns kfetch's path of a name."""
        path = stored_path(f"{self.uri}/{key}", self.settings)
        assert isinstance(path, ObjectPath)
        return path


ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account of each Azurite, and its key, as its documentation has them."""


@dataclass
class Hdfs(Store):
    """A running HDFS. Its endpoint is its URI."""

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings: there are none."""
        return {"spark.hadoop.dfs.replication": "1"}

    def put(self, key: str, content: bytes) -> None:
        """Write one file."""
        path = self.path(key)
        path.store.put(path.key, content)


@dataclass
class Azurite(Store):
    """A running emulator of Azure's storage of blobs, with one container."""

    uri: str = f"abfs://{BUCKET}@{ACCOUNT}.dfs.core.windows.net"
    secret: str = KEY
    part_request: str = "comp=block&"
    end_request: str = "comp=blocklist"

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings for ABFS."""
        return {
            f"spark.hadoop.fs.azure.account.key.{ACCOUNT}.dfs.core.windows.net": KEY,
            "spark.hadoop.fs.azure.abfs.endpoint": self.endpoint.removeprefix("http://"),
            "spark.hadoop.fs.azure.always.use.https": "false",
        }

    def put(self, key: str, content: bytes) -> None:
        """Write one object."""
        path = self.path(key)
        path.store.put(path.key, content)


@dataclass
class Gcs(Store):
    """moto, with Google's rule for conditions. No emulator of Google's knows the XML API."""

    uri: str = f"gs://{BUCKET}"
    secret: str = "kfetch-gcs-key.json"

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings. With such a key, the client wants no token."""
        key = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
        file = Path(tempfile.gettempdir()) / self.secret
        file.write_text(json.dumps(key))
        return {
            "spark.hadoop.fs.gs.storage.root.url": self.endpoint,
            "spark.hadoop.fs.gs.auth.service.account.json.keyfile": str(file),
        }


class _Generations:
    """Turns ``x-goog-if-generation-match`` into S3's conditions, and ETags into generations."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._numbers = itertools.count(1700000000000001)
        self._of: dict[tuple[str, str], int] = {}
        """The generation of an object, by its path and ETag."""

    def __call__(self, environ: dict[str, Any], start: Any) -> Any:
        path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
        environ.setdefault("HTTP_AUTHORIZATION", "AWS4-HMAC-SHA256 Credential=user/1/r/s3/x")
        if (wanted := environ.get("HTTP_X_GOOG_IF_GENERATION_MATCH")) == "0":
            environ["HTTP_IF_NONE_MATCH"] = "*"
        elif wanted is not None:
            tags = {str(number): tag for (at, tag), number in self._of.items() if at == path}
            environ["HTTP_IF_MATCH"] = tags.get(wanted, '"none"')

        def answer(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            tag = {name.lower(): text for name, text in headers}.get("etag")
            if tag and status.startswith("200") and "partNumber" not in query:
                if environ["REQUEST_METHOD"] == "PUT" or (path, tag) not in self._of:
                    self._of[path, tag] = next(self._numbers)
                headers.append(("x-goog-generation", str(self._of[path, tag])))
            return start(status, headers, *rest)

        return self._app(environ, answer)


def _kept() -> Any:
    """Returns what the store has: moto keeps it in this process."""
    from moto.s3.models import s3_backends

    return s3_backends["123456789012"]["aws"]


def unfinished_uploads(prefix: str) -> list[str]:
    """Returns the names of uploads that are neither complete nor given up."""
    uploads = _kept().buckets[BUCKET].multiparts.values()
    return [one.key_name for one in uploads if one.key_name.startswith(prefix)]


def encryptions(prefix: str) -> dict[str, tuple[str, str]]:
    """Returns how the store encrypts the objects of such names: by which algorithm and key."""
    objects = _kept().buckets[BUCKET].keys.items()
    return {name: (one.encryption, one.kms_key_id) for name, one in objects if prefix in name}


@contextmanager
def running_store() -> Iterator[Store]:
    """Start a store, and stop it behind the block."""
    other = os.environ.get("KFETCH_STORE", "")
    if other not in ("", "gs"):
        yield Hdfs(other, uri=other) if other.startswith("hdfs:") else Azurite(other)
        return
    # Only a few tests start a store, and all tests of ``make test`` would wait for moto's imports.
    from moto.moto_server.werkzeug_app import create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing."""

    # moto's own server asks for each request which of AWS' services is meant: half of the time.
    app, turn = create_backend_app("s3"), Lock()
    if other == "gs":
        app = _Generations(app)

    def one_at_a_time(*request: Any) -> Any:
        """moto looks at a condition, and writes later. A store does both at once."""
        with turn:
            return app(*request)

    server = make_server("127.0.0.1", 0, one_at_a_time, threaded=True, request_handler=Handler)
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        _kept().create_bucket(BUCKET, "us-east-1")
        yield (Gcs if other else Store)(f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)


@contextmanager
def store_process() -> Iterator[Store]:
    """Start a store in a process of its own. delta-rs holds the lock of Python while it asks."""
    command = [sys.executable, "-m", "tests.store"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Store(process.stdout.readline().strip())
        finally:
            process.stdin.close()


if __name__ == "__main__":
    with running_store() as own:
        print(own.endpoint, flush=True)
        sys.stdin.read()
