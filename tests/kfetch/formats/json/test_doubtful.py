"""Which documents the compiled loops leave to Python: the table in docs/how-to/json.md, "Speed"."""

from __future__ import annotations

import pytest

from kfetch.formats.json import reference
from tests.kfetch.formats.vectors import decode, decoder

_FAST = [
    ("a INT", '{"a":1,"b":2,"b":3}'),
    ("a INT", '{"a":"x"}'),
    ("a INT", '{"a":1} x'),
    ("a INT", "[1]"),
    ("a STRUCT<b: INT>", '{"a":{"b":"x"}}'),
    ("a MAP<STRING, INT>", '{"a":{"k\\n":1,"k\\n":2}}'),
    ("a MAP<STRING, INT>", f'{{"a":{{"{"k" * 50_000}":1}}}}'),
    ("a INT", f'{{"b":{"[" * 62}{"]" * 62}}}'),
    ("a INT", f'{{"b":{"1" * 499}}}'),
    ("a BIGINT", f'{{"a":{"9" * 19}}}'),
    ("a DOUBLE", '{"a":0.1234567890123456789}'),
    ("a DECIMAL(38,0)", f'{{"a":{"9" * 18}}}'),
    ("a DECIMAL(38,2)", '{"a":"1.25"}'),
    ("a DATE", '{"a":"2024-01-02"}'),
    ("a TIMESTAMP", '{"a":"2024-01-02"}'),
    ("a TIMESTAMP", '{"a":"2024-01-02 03:04:05.123"}'),
    ("a TIMESTAMP", '{"a":"2024-01-02T03:04:05+02:00"}'),
    ("a STRING", '{"a":{"x":[1,"y",0.5]}}'),
    ("a STRING", '{"a":"\\ud83d\\ude00 \U0001f600"}'),
]
_SLOW = [
    ("a INT", "{'a':1}"),
    ("a INT", '{"a":1'),
    ("a INT", '{"b":NaN}'),
    ("a INT", '\ufeff{"a":1}'),
    ("a STRING", b'{"a":"\xff"}'),
    ("a STRING", '{"a":"\\ud83d"}'),
    ("a INT", f'{{"b":{"[" * 63}{"]" * 63}}}'),
    ("a INT", '{"a":1,"a":2}'),
    ("a INT", '{"\\u0062":1}'),
    ("a INT", f'{{"{"n" * 50_001}":1}}'),
    ("a ARRAY<INT>", '{"a":["x"]}'),
    ("a MAP<STRING, INT>", '{"a":{"k":"x"}}'),
    ("a MAP<STRING, INT>", f'{{"a":{{"{"k" * 50_001}":1,"{"k" * 40_000}":1}}}}'),
    ("a DATE", '{"a":"x"}'),
    ("a TIMESTAMP", '{"a":""}'),
    ("a BINARY", '{"a":"%%%%"}'),
    ("a BIGINT", f'{{"a":{"9" * 20}}}'),
    ("a INT", f'{{"b":{"1" * 500}}}'),
    ("a DOUBLE", '{"a":"NaN"}'),
    ("a DOUBLE", '{"a":1e-310}'),
    ("a FLOAT", '{"a":16777217}'),
    ("a DECIMAL(38,0)", f'{{"a":{"9" * 19}}}'),
    ("a DECIMAL(38,0)", '{"a":1e30}'),
    ("a DECIMAL(38,2)", '{"a":"1,125"}'),
    ("a DATE", '{"a":"2024-1-2"}'),
    ("a TIMESTAMP", '{"a":"2024-01-02 03:04:05 Europe/Berlin"}'),
    ("a TIMESTAMP_NTZ", '{"a":"2024-01-02T03:04:05Z"}'),
    ("a STRING", '{"a":1e5}'),
    ("a STRING", '{"a":1.50}'),
    ("a STRING", '{"a":-0}'),
    ("a STRING", f'{{"a":{"9" * 19}}}'),
    ("a STRING", '{"a":["\\u00e9"]}'),
    ("a STRING", '{"a":["\U0001f600"]}'),
]


@pytest.mark.parametrize(
    ("schema", "document", "slow"),
    [(*case, False) for case in _FAST] + [(*case, True) for case in _SLOW],
)
def test_what_python_decides(
    schema: str, document: str | bytes, slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The documents that the table names go to Python. Those next to them do not."""
    decided = []
    real = reference.decode
    monkeypatch.setattr(reference, "decode", lambda *a, **k: (decided.append(a), real(*a, **k))[1])
    data = document if isinstance(document, bytes) else document.encode()
    decode(decoder(schema), [data, b"{}" + b" " * 64])
    assert slow == bool(decided)
