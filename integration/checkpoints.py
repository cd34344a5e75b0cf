"""Spark's checkpoint directory, read and rewritten by tests.

``offsets/<batch>`` holds a version line, a line of metadata, and one line of JSON per source;
``commits/<batch>`` exists once the batch is done.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def logged(checkpoint: Path, batch: int) -> dict[str, Any]:
    """The end offset of a micro-batch of a query with one source."""
    return json.loads(_offsets(checkpoint, batch).read_text().splitlines()[-1])


def rewrite(checkpoint: Path, batch: int, end: dict[str, Any]) -> None:
    """Replace it, compact, as Spark's connector writes it."""
    file = _offsets(checkpoint, batch)
    *head, _ = file.read_text().splitlines()
    file.write_text("\n".join([*head, json.dumps(end, separators=(",", ":"))]))
    file.with_name(f".{batch}.crc").unlink(missing_ok=True)


def forget_commit(checkpoint: Path, batch: int) -> None:
    """Leave a micro-batch as a crash between its log entry and its commit would."""
    commits = checkpoint / "commits"
    (commits / str(batch)).unlink()
    (commits / f".{batch}.crc").unlink(missing_ok=True)


def batches(checkpoint: Path, log: str) -> list[int]:
    """The ids of the micro-batches in ``offsets`` or ``commits``."""
    directory = checkpoint / log
    names = [file.name for file in directory.iterdir()] if directory.exists() else []
    return sorted(int(name) for name in names if name.isdigit())


def _offsets(checkpoint: Path, batch: int) -> Path:
    return checkpoint / "offsets" / str(batch)
