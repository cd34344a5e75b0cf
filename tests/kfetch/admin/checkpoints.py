"""Checkpoints as Spark 4.2 writes them, in a directory of the test."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

METADATA = (
    '{"batchWatermarkMs":0,"batchTimestampMs":1795335036000,'
    '"conf":{"spark.sql.shuffle.partitions":"2"}}'
)
QUERY = "5c3f0d52-7d64-44a2-9a3e-2a8d1f0b6c11"
ID = "00000000000000000000000000000007"


def ours(*offsets: int, topic: str = "clicks", epoch: int = 3, **more: Any) -> str:
    """kfetch's offset of a topic: one number for each partition."""
    partitions = {str(n): [offset, epoch] for n, offset in enumerate(offsets)}
    topics = {topic: {"id": ID, "partitions": partitions}}
    return json.dumps({"version": 1, "topics": topics, **more})


def theirs(*offsets: int, topic: str = "clicks") -> str:
    """The same offset as Spark's connector writes it."""
    partitions = {str(n): offset for n, offset in enumerate(offsets)}
    return json.dumps({topic: partitions}, separators=(",", ":"))


def plan(path: Path, number: int, *lines: str, version: str = "v1", text: str = "") -> Path:
    """Write ``offsets/<number>`` with its checksum, long ago."""
    return write(path / "offsets" / str(number), text or "\n".join([version, METADATA, *lines]))


def commit(path: Path, *numbers: int) -> None:
    """Write ``commits/<number>``."""
    for number in numbers:
        write(path / "commits" / str(number), 'v1\n{"nextBatchWatermarkMs":0}')


def initial(path: Path, source: str, offsets: str) -> Path:
    """Write the connector's ``sources/<source>/0``."""
    return write(path / "sources" / source / "0", f"\x00v1\n{offsets}")


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    (file.parents[0] / f".{file.name}.crc").write_bytes(b"crc\x00\x00\x00\x02\x00abcd")
    file.write_text(text)
    long_ago = time.time() - 3600
    for each in (file, file.with_name(f".{file.name}.crc")):
        os.utime(each, (long_ago, long_ago))
    query = file.parents[1] / "metadata"
    if file.parent.name == "offsets" and not query.exists():
        query.write_text(json.dumps({"id": QUERY}))
    return file


def contents(path: Path) -> dict[str, str]:
    """Every file of a checkpoint."""
    files = (file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes().decode() for file in files}
