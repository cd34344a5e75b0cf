"""Azurite, Azure's own emulator of its storage of blobs: a program for Node, from npm."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

import pytest

from integration.streams import wait_until
from kfetch_jobs.jvm.maven import cache_directory
from kfetch_jobs.kafka.ready import free_ports
from kfetch_jobs.util.files import wait_for_lock
from tests.store import ACCOUNT, BUCKET, KEY, Azurite

_VERSION = "3.35.0"
_API = "2021-08-06"


def program() -> Path:
    """Returns the program, which npm installs once. Skips the test where Node is missing."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("Azurite is a program for Node, and there is no npm on the PATH")
    home = cache_directory() / f"azurite-{_VERSION}"
    installed = home / "node_modules" / ".bin" / "azurite-blob"
    home.mkdir(parents=True, exist_ok=True)
    with wait_for_lock(home / "lock"):
        if not installed.exists():
            command = [npm, "install", "--no-audit", "--no-fund", f"azurite@{_VERSION}"]
            subprocess.run(command, cwd=home, check=True, capture_output=True, timeout=250)
    return installed


@contextmanager
def running_azurite() -> Iterator[Azurite]:
    """Start it with an empty container, and stop it behind the block."""
    (port,) = free_ports(1)
    options = ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    command = [str(program()), "--blobHost", "127.0.0.1", "--blobPort", str(port), *options]
    store = Azurite(f"http://127.0.0.1:{port}")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ}) as process:
        try:
            wait_until(lambda: _has_container(store), what="Azurite", pause_s=0.1)
            yield store
        finally:
            process.terminate()


def _has_container(store: Azurite) -> bool:
    """Returns whether it has made the container: it answers."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _API}
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    path = f"/{ACCOUNT}/{BUCKET}"
    signed = "PUT" + "\n" * 12 + f"{lines}/{ACCOUNT}{path}\nrestype:container"
    digest = hmac.digest(base64.b64decode(KEY), signed.encode(), hashlib.sha256)
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    headers["Content-Length"] = "0"
    url = f"{store.endpoint}{path}?restype=container"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers, method="PUT")):
            return True
    except ConnectionError:
        return False
    except OSError as cause:
        if isinstance(getattr(cause, "reason", None), ConnectionError):
            return False
        raise
