"""Checkpoints of the job ``clicks`` as Spark writes them, below this process's directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kfetch.model import TopicPartition
from kfetch_jobs.checkpoints import checkpoint
from tests.kfetch.wire.little import LittleKafka

CHECKPOINT = Path("data/clicks/checkpoint")


def offset(kafka: LittleKafka, *positions: int, epoch: int = 0, **more: Any) -> dict[str, Any]:
    """kfetch's offset of clicks."""
    partitions = {str(n): [position, epoch] for n, position in enumerate(positions)}
    topic = {"id": kafka.topics["clicks"].topic_id.hex, "partitions": partitions}
    return {"version": 1, "topics": {"clicks": topic}, **more}


def planned(number: int, *ends: dict[str, Any] | None, version: str = "v1") -> None:
    """Write a micro-batch's plan as Spark does."""
    lines = ["-" if end is None else json.dumps(end) for end in ends]
    text = "\n".join([version, json.dumps({"batchTimestampMs": 1_700_000_000_000}), *lines])
    write("offsets", number, text)


def committed(number: int) -> None:
    """Write a micro-batch's commit."""
    write("commits", number, 'v1\n{"nextBatchWatermarkMs":0}')


def write(log_name: str, number: int, text: str) -> None:
    directory = CHECKPOINT / log_name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / str(number)).write_text(text)


def job(text: str, name: str = "clicks") -> None:
    (Path("conf/jobs") / f"{name}.yml").write_text(text)


def stands() -> dict[TopicPartition, tuple[int, int]]:
    """Where the next run goes on."""
    read = checkpoint.read_checkpoint(CHECKPOINT)
    assert not read.pending
    start = read.start(0)
    return {tp: (at.offset, at.leader_epoch) for tp, at in start.positions.items()} if start else {}


def files() -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in CHECKPOINT.rglob("*") if file.is_file()}
