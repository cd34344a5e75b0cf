"""A store that speaks S3, in a thread of the test: moto's server. It is not obstore's own work.

``python -m tests.store`` is one in a process of its own. It prints its endpoint, and ends with its
input.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kfetch.storage.objects import ObjectPath
from kfetch.storage.open import stored_path

BUCKET = "lake"


@dataclass
class Store:
    """A running store with one bucket."""

    endpoint: str
    _client: Any
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings for S3A."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": "user",
            "spark.hadoop.fs.s3a.secret.key": "pa55word",
        }

    def upload(self, directory: Path, prefix: str = "") -> ObjectPath:
        """Copy the files below a directory into the store, and return the path of the copy."""
        prefix = prefix or f"copy-{next(self._numbers)}"
        for file in directory.rglob("*"):
            if file.is_file():
                self.put(f"{prefix}/{file.relative_to(directory)}", file.read_bytes())
        return self.path(prefix)

    def put(self, key: str, content: bytes) -> None:
        """Write one object."""
        self._client.put_object(Bucket=BUCKET, Key=key, Body=content)

    def fill(self, key: str, content: bytes) -> None:
        """Write one object without a request, which takes a tenth of a millisecond."""
        from moto.s3.models import s3_backends

        s3_backends["123456789012"]["aws"].put_object(BUCKET, key, content)

    def path(self, key: str, **settings: str) -> ObjectPath:
        """Returns kfetch's path of a name. ``settings`` replace others, such as ``secret_key``."""
        own = {f"spark.hadoop.fs.s3a.{name.replace('_', '.')}": settings[name] for name in settings}
        path = stored_path(f"s3a://{BUCKET}/{key}", self.settings | own)
        assert isinstance(path, ObjectPath)
        return path


@contextmanager
def running_store() -> Iterator[Store]:
    """Start a store, and stop it behind the block."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id="user",
            aws_secret_access_key="pa55word",
        )
        client.create_bucket(Bucket=BUCKET)
        yield Store(endpoint, client)
    finally:
        server.stop()


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
            yield Store(process.stdout.readline().strip(), None)
        finally:
            process.stdin.close()


if __name__ == "__main__":
    with running_store() as own:
        print(own.endpoint, flush=True)
        sys.stdin.read()
