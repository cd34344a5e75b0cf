"""Stores Spark's results for ``avro_edge_cases``: ``python -m integration.formats.avro_record``.

The unit tests read them from tests/vectors/avro.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from integration.formats.avro_edge_cases import GROUPS, Group
from integration.formats.avro_oracle import avro_answers, prepare
from kfetch_jobs.jvm.spark import session
from tests.kfetch.formats.json.plain import plain

__all__ = ["write"]

_VECTORS = Path(__file__).parents[2] / "tests" / "vectors" / "avro"


def write(number: int, group: Group, rows: list[Any]) -> None:
    """Write the file of vectors of a group."""
    head = {"name": group.name, "writer": group.writer, "reader": group.reader}
    documents = [None if item is None else item.hex() for item in group.documents]
    cases = [json.dumps(list(case)) for case in zip(documents, rows, strict=True)]
    path = _VECTORS / f"{number:03}.jsonl"
    path.write_text("\n".join([json.dumps(head), *cases]) + "\n")


def main() -> None:
    """Write a file of vectors for each group."""
    settings = {"spark.master": "local[1]", "spark.ui.enabled": "false"}
    with (
        tempfile.TemporaryDirectory() as directory,
        session(settings, name="record", log=Path(directory) / "log") as spark,
    ):
        prepare(spark)
        for number, group in enumerate(GROUPS):
            answers = avro_answers(spark, group.writer, group.reader, group.documents)
            write(number, group, plain(answers))
            print(number, group.name, len(group.documents))


if __name__ == "__main__":
    main()
