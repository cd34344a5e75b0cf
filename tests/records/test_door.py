"""The door: the schema, the switch between the decoders, the cache of compiled kernels."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_source import records
from spark_source.errors import KfetchError
from spark_source.records import loops, numba_cache
from spark_source.records.faults import Fault

from .build import T0, batch, part, record
from .conftest import rows_of

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
SPARK = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)


def test_schema_is_sparks() -> None:
    """The Arrow schema is what pyspark makes of the Kafka source's schema."""

    assert to_arrow_schema(SPARK, timezone="UTC").equals(records.SCHEMA, check_metadata=True)


def test_schema_with_headers_is_sparks() -> None:
    """The same with ``includeHeaders=true``."""
    spark = StructType([*SPARK, StructField("headers", HEADERS)])

    expected = to_arrow_schema(spark, timezone="UTC")
    assert expected.equals(records.SCHEMA_WITH_HEADERS, check_metadata=True)


@pytest.mark.parametrize("headers", [False, True])
@pytest.mark.parametrize("name", ["reference", "kernel"])
def test_decode_uses_the_chosen_decoder(
    name: str, headers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``decode`` is the decoder that IMPLEMENTATION names."""
    monkeypatch.setattr(records, "IMPLEMENTATION", name)
    found = records.decode([part(batch(record()))], columns=records.Columns(headers=headers))

    assert found is not None
    assert rows_of(found) == [(None, b"v", "clicks", 3, 0, T0 * 1000, 0, None)]


@pytest.mark.parametrize("headers", [False, True])
def test_no_rows_no_batch(headers: bool) -> None:
    """No row at all is None, not an empty batch: without slices, bytes, or wanted offsets."""
    nothing = [[], [part(b"")], [part(batch(record()), start=1)], [part(batch(record()), end=0)]]

    assert [
        records.decode(slices, columns=records.Columns(headers=headers)) for slices in nothing
    ] == [None] * 4


def test_result_owns_its_bytes() -> None:
    """The reply's buffer may be used again as soon as ``decode`` has returned."""
    data = bytearray(batch(record(value=b"hello", headers=[(b"k", b"v")])))
    found = records.decode([part(data)], columns=records.Columns(headers=True))
    data[:] = bytes(len(data))

    assert found is not None
    assert rows_of(found) == [(None, b"hello", "clicks", 3, 0, T0 * 1000, 0, [("k", b"v")])]


def _python(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False
    )


def test_import_is_light() -> None:
    """Importing the package loads neither numba nor Spark nor a socket client."""
    code = "import sys, spark_source.records as r; print(r.IMPLEMENTATION)\n"
    code += "print(sorted({'numba', 'pyspark', 'kafka'} & set(sys.modules)))"

    assert _python(code).stdout == "kernel\n[]\n"


def test_reference_needs_no_numba() -> None:
    """KFETCH_RECORDS=reference decodes where numba is missing."""
    code = "import sys; sys.modules['numba'] = None\nimport spark_source.records as r\n"
    code += "print(r.IMPLEMENTATION, r.decoder(r.IMPLEMENTATION)([], columns=r.Columns()))"

    assert _python(code, KFETCH_RECORDS="reference").stdout == "reference None\n"


def test_unknown_decoder() -> None:
    """A wrong KFETCH_RECORDS is refused at once, with what would be right."""
    failed = _python("import spark_source.records", KFETCH_RECORDS="fast")

    expected = "OptionError: KFETCH_RECORDS=fast: must be reference or kernel"
    assert expected in failed.stderr


def test_no_silent_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without numba the kernel is an error that names the way out."""
    monkeypatch.setitem(sys.modules, "numba", None)
    for module in ("kernel", "loops"):
        monkeypatch.delitem(sys.modules, f"spark_source.records.{module}", raising=False)
        monkeypatch.delattr(records, module, raising=False)

    with pytest.raises(KfetchError, match="KFETCH_RECORDS=reference"):
        records.decoder("kernel")


def test_loops_repeat_the_fault_numbers() -> None:
    """The constants of ``loops``, which must stand in its own file, are Fault's."""
    expected = {fault.name: fault.value for fault in Fault if fault <= Fault.TIMESTAMP}

    assert expected == {name: getattr(loops, name) for name in expected}


def test_cache_place_in_order(tmp_path: Path) -> None:
    """KFETCH_CACHE comes before XDG_CACHE_HOME, and that before HOME."""
    environ = {name: str(tmp_path / name) for name in ("KFETCH_CACHE", "XDG_CACHE_HOME", "HOME")}
    found = []
    for name in list(environ):
        assert numba_cache.prepare(environ)
        found.append(environ.pop("NUMBA_CACHE_DIR"))
        del environ[name]

    expected = ["KFETCH_CACHE/numba", "XDG_CACHE_HOME/kfetch/numba", "HOME/.cache/kfetch/numba"]
    assert [str(tmp_path / each) for each in expected] == found
    assert all(Path(each).stat().st_mode & 0o777 == 0o700 for each in found)


def test_cache_place_of_the_user_stays() -> None:
    """A NUMBA_CACHE_DIR that is set already is not touched."""
    environ = {"NUMBA_CACHE_DIR": "/given", "KFETCH_CACHE": "/other"}

    assert numba_cache.prepare(environ)
    assert environ["NUMBA_CACHE_DIR"] == "/given"


@pytest.mark.parametrize("flaw", ["a file", "writable by others", "a link"])
def test_cache_place_must_be_private(
    tmp_path: Path, flaw: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """numba unpickles its cache: a place that others can write is passed over."""
    place, other = tmp_path / "place", tmp_path / "other"
    if flaw == "a file":
        place.write_text("")
    elif flaw == "a link":
        place.symlink_to(tmp_path)
    else:
        place.mkdir()
        place.chmod(0o777)
    environ = {"KFETCH_CACHE": str(place), "HOME": str(place)}
    if flaw == "a file":
        monkeypatch.setattr(tempfile, "gettempdir", lambda: str(place))
        assert not numba_cache.prepare(environ)
        assert "NUMBA_CACHE_DIR" not in environ
    else:
        environ["HOME"] = str(other)
        assert numba_cache.prepare(environ)
        assert str(other / ".cache" / "kfetch" / "numba") == environ["NUMBA_CACHE_DIR"]
