"""Stores Spark's results for ``edge_cases``: ``python -m integration.formats.record``.

The unit tests read them from tests/vectors/json.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from integration.formats.edge_cases import GROUPS, Group
from integration.formats.oracle import CORRUPT, answers
from kfetch_jobs.jvm.spark import session
from tests.kfetch.formats.json.plain import plain

_VECTORS = Path(__file__).parents[2] / "tests" / "vectors" / "json"


def _record(spark: object, group: Group) -> dict[str, object]:
    documents = [d.encode() if isinstance(d, str) else d for d in group.documents]
    schema = f"{group.schema}, {CORRUPT} STRING"
    rows = plain(answers(spark, schema, documents, zone=group.zone))
    cases = []
    for document, row in zip(group.documents, rows, strict=True):
        corrupt = row is not None and row.pop(CORRUPT) is not None
        shown = document if isinstance(document, str) else {"bytes": document.hex()}
        cases.append([shown, row, corrupt])
    about = {"name": group.name, "schema": group.schema, "zone": group.zone}
    return about | {"cases": cases}


def main() -> None:
    """Write a file of vectors for each group."""
    settings = {"spark.master": "local[1]", "spark.ui.enabled": "false"}
    with (
        tempfile.TemporaryDirectory() as directory,
        session(settings, name="record", log=Path(directory) / "log") as spark,
    ):
        for number, group in enumerate(GROUPS):
            recorded = _record(spark, group)
            head = json.dumps({k: v for k, v in recorded.items() if k != "cases"})
            lines = [json.dumps(case) for case in recorded["cases"]]
            path = _VECTORS / f"{number:02}.jsonl"
            path.write_text("\n".join([head, *lines]) + "\n")
            print(path.name, group.name, len(lines))


if __name__ == "__main__":
    main()
