"""The promises of ``decode``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kfetch import compiled, decoding, records
from kfetch.compiled import native
from kfetch.errors import KfetchError
from tests.kfetch.decoders import decode, rows_of
from tests.kfetch.records.batch_builder import T0, batch, make_slice, record


@pytest.mark.parametrize("headers", [False, True])
def test_no_rows_no_batch(headers: bool) -> None:
    """No row at all is None, not an empty batch: without slices, bytes, or offsets in range."""
    nothing = [
        [],
        [make_slice(b"")],
        [make_slice(batch(record()), start=1)],
        [make_slice(batch(record()), end=0)],
    ]

    assert [decode(slices, columns=records.Columns(headers=headers)) for slices in nothing] == [
        None
    ] * 4


def test_result_owns_its_bytes() -> None:
    """The reply's buffer may be used again as soon as ``decode`` has returned."""
    data = bytearray(batch(record(value=b"hello", headers=[(b"k", b"v")])))
    decoded = decode([make_slice(data)], columns=records.Columns(headers=True))
    data[:] = bytes(len(data))

    assert decoded is not None
    assert rows_of(decoded) == [(None, b"hello", "clicks", 3, 0, T0 * 1000, 0, [("k", b"v")])]


def test_import_is_light() -> None:
    """Importing the package loads neither compiled code nor Spark nor a socket client."""
    code = "import sys, kfetch.decoding\n"
    code += "print(sorted({'numba', 'llvmlite', 'pyspark', 'kafka'} & set(sys.modules)))"

    assert subprocess.check_output([sys.executable, "-c", code], env={}) == b"[]\n"


def test_without_numba(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without numba, and without code that was compiled before, the error names the way out."""
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(native, "load", native.load.__wrapped__)
    monkeypatch.setenv("KFETCH_CACHE", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    for module in ("kernel", "table", "loops"):
        monkeypatch.delitem(sys.modules, f"kfetch.compiled.{module}", raising=False)
        monkeypatch.delattr(compiled, module, raising=False)

    with pytest.raises(KfetchError, match="reinstall numba"):
        decoding.kernel()
