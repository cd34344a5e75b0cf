"""The choice between the decoders, and the promises of ``decode``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kfetch import compiled, decoding, records
from kfetch.compiled import native
from kfetch.errors import KfetchError
from tests.kfetch.decoders import rows_of
from tests.kfetch.records.batch_builder import T0, batch, make_slice, record


@pytest.mark.parametrize("headers", [False, True])
@pytest.mark.parametrize("name", ["reference", "kernel"])
def test_decode_uses_the_chosen_decoder(
    name: str, headers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``decode`` is the decoder that IMPLEMENTATION names."""
    monkeypatch.setattr(decoding, "IMPLEMENTATION", name)
    decoded = decoding.decode(
        [make_slice(batch(record()))], columns=records.Columns(headers=headers)
    )

    assert decoded is not None
    assert rows_of(decoded) == [(None, b"v", "clicks", 3, 0, T0 * 1000, 0, None)]


@pytest.mark.parametrize("headers", [False, True])
def test_no_rows_no_batch(headers: bool) -> None:
    """No row at all is None, not an empty batch: without slices, bytes, or offsets in range."""
    nothing = [
        [],
        [make_slice(b"")],
        [make_slice(batch(record()), start=1)],
        [make_slice(batch(record()), end=0)],
    ]

    assert [
        decoding.decode(slices, columns=records.Columns(headers=headers)) for slices in nothing
    ] == [None] * 4


def test_result_owns_its_bytes() -> None:
    """The reply's buffer may be used again as soon as ``decode`` has returned."""
    data = bytearray(batch(record(value=b"hello", headers=[(b"k", b"v")])))
    decoded = decoding.decode([make_slice(data)], columns=records.Columns(headers=True))
    data[:] = bytes(len(data))

    assert decoded is not None
    assert rows_of(decoded) == [(None, b"hello", "clicks", 3, 0, T0 * 1000, 0, [("k", b"v")])]


def _python(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False
    )


def test_import_is_light() -> None:
    """Importing the package loads neither compiled code nor Spark nor a socket client."""
    code = "import sys, kfetch.decoding as d; print(d.IMPLEMENTATION)\n"
    code += "print(sorted({'numba', 'llvmlite', 'pyspark', 'kafka'} & set(sys.modules)))"

    assert _python(code).stdout == "kernel\n[]\n"


def test_reference_needs_no_numba() -> None:
    """KFETCH_RECORDS=reference decodes where numba is missing."""
    code = "import sys; sys.modules['numba'] = None\nfrom kfetch import decoding as d, records\n"
    code += "print(d.IMPLEMENTATION, d.decoder(d.IMPLEMENTATION)([], columns=records.Columns()))"

    assert _python(code, KFETCH_RECORDS="reference").stdout == "reference None\n"


def test_unknown_decoder() -> None:
    """A wrong KFETCH_RECORDS is refused at once, with what would be right."""
    failed = _python("import kfetch.decoding", KFETCH_RECORDS="fast")

    expected = "OptionError: KFETCH_RECORDS=fast: must be reference or kernel"
    assert expected in failed.stderr


def test_no_silent_fallback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without numba, and without code that was compiled before, the error names the way out."""
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(native, "load", native.load.__wrapped__)
    monkeypatch.setenv("KFETCH_CACHE", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    for module in ("kernel", "table", "loops"):
        monkeypatch.delitem(sys.modules, f"kfetch.compiled.{module}", raising=False)
        monkeypatch.delattr(compiled, module, raising=False)

    with pytest.raises(KfetchError, match="KFETCH_RECORDS=reference"):
        decoding.decoder("kernel")
