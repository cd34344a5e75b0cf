"""Stores Spark's results for ``protobuf_edge_cases`` in tests/vectors/protobuf, for unit tests.

``python -m integration.formats.protobuf_record``
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from integration.formats.protobuf_edge_cases import GROUPS
from integration.formats.protobuf_oracle import answers, protobuf_session
from tests.kfetch.formats.json.plain import plain
from tests.kfetch.formats.protobuf.proto_text import descriptor_set

_VECTORS = Path(__file__).parents[2] / "tests" / "vectors" / "protobuf"


def main() -> None:
    """Write a file of vectors for each group."""
    _VECTORS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, protobuf_session(Path(directory)) as spark:
        for index, group in enumerate(GROUPS):
            rows = plain(answers(spark, descriptor_set(group.file), "t.M", group.values))
            head = json.dumps({"name": group.name, "file": group.file})
            cases = zip(group.values, rows, strict=True)
            lines = [json.dumps([value.hex(), row]) for value, row in cases]
            (_VECTORS / f"{index:02}.jsonl").write_text("\n".join([head, *lines]) + "\n")
            print(group.name, len(lines))


if __name__ == "__main__":
    main()
