"""A real schema registry for tests: Apicurio, which speaks Confluent's REST API (ccompat).

It keeps everything in memory, and listens on 127.0.0.1. It stops at the end of the ``with`` block.
The first use downloads 110 MB to kfetch's cache.
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
import ssl
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kfetch_jobs.jvm.maven import cache_directory

__all__ = ["Apicurio", "apicurio"]

VERSION = "3.0.9"
"""The newest version that runs with Java 17."""
_COORDINATES = {
    "groupId": "io.apicurio",
    "artifactId": "apicurio-registry-app",
    "version": VERSION,
    "classifier": "all",
    "packaging": "tar.gz",
}
_PATIENCE_S = 180.0
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


class Apicurio:
    """A running registry."""

    def __init__(self, url: str, context: ssl.SSLContext | None) -> None:
        self.url = url
        self._context = context

    def add(
        self,
        subject: str,
        schema: Any,
        *,
        kind: str = "AVRO",
        references: Sequence[tuple[str, str, int]] = (),
    ) -> int:
        """Registers a schema, and returns its id.

        ``schema``: JSON, text, or the bytes of a FileDescriptorProto. ``references``: name, subject
        and version of each.
        """
        text = schema if isinstance(schema, str) else ""
        if isinstance(schema, bytes):
            text = base64.b64encode(schema).decode()
        listed = [{"name": name, "subject": s, "version": v} for name, s, v in references]
        body = {"schemaType": kind, "schema": text or json.dumps(schema), "references": listed}
        answer: dict[str, int] = self.ask(f"/subjects/{quote(subject, safe='')}/versions", body)
        return answer["id"]

    def ask(self, path: str, body: Any = None) -> Any:
        """Sends a request and returns the answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": _CONTENT_TYPE})
        with urllib.request.urlopen(request, timeout=30, context=self._context) as answer:
            return json.load(answer)


@contextmanager
def apicurio(
    directory: Path, *, pem: Path | None = None, authority: str = ""
) -> Iterator[Apicurio]:
    """Runs a registry.

    ``pem``: a file with its certificate and key, for https. ``authority``: the certificate of the
    authority that issued it, as PEM text.
    """
    http_port, https_port = _free_ports()
    settings = {"quarkus.http.host": "127.0.0.1", "quarkus.http.port": http_port}
    if pem is not None:
        settings |= {
            "quarkus.http.ssl-port": https_port,
            "quarkus.http.ssl.certificate.files": pem,
            "quarkus.http.ssl.certificate.key-files": pem,
            "quarkus.http.insecure-requests": "disabled",
        }
    url = f"https://127.0.0.1:{https_port}" if pem else f"http://127.0.0.1:{http_port}"
    context = ssl.create_default_context(cadata=authority) if pem else None
    flags = [f"-D{name}={value}" for name, value in settings.items()]
    log = directory / "apicurio.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["java", "-Xmx512m", *flags, "-jar", str(_jar())],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
        )
    try:
        registry = Apicurio(f"{url}/apis/ccompat/v7", context)
        _wait(registry, process, log)
        yield registry
    finally:
        process.terminate()
        process.wait(60)


def _wait(registry: Apicurio, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            registry.ask("/subjects")
            return
        except OSError:
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.2)


def _free_ports() -> tuple[int, int]:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        return one.getsockname()[1], two.getsockname()[1]


def _jar() -> Path:
    """Returns the registry's jar, which it downloads and unpacks once."""
    target = cache_directory() / f"apicurio-{VERSION}"
    if not target.exists():
        partial = target.with_name(f"{target.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        with tarfile.open(_downloaded()) as archive:
            archive.extractall(partial, filter="data")
        partial.rename(target)
    return target / f"apicurio-registry-app-{VERSION}-runner.jar"


def _downloaded() -> Path:
    from jgo.maven import MavenContext, PythonResolver
    from jgo.parse import Coordinate

    context = MavenContext(
        resolver=PythonResolver(),
        repo_cache=cache_directory() / "maven" / "repository",
        timeout=600,
    )
    dependency = context.create_dependency(Coordinate(**_COORDINATES, scope="compile", raw=True))
    return Path(dependency.artifact.resolve())
