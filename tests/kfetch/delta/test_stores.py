"""Tables in a store that speaks S3: files are whole or not there, and each commit is there once."""

from __future__ import annotations

import itertools
import json
import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kfetch.delta.copying import Letter, _example
from kfetch.delta.files import TaskFiles, written_files
from kfetch.delta.log import TableLog, WrittenFile
from kfetch.delta.places import address
from kfetch.delta.source import PLANS, SETTINGS
from kfetch.errors import TableRefused
from kfetch.storage.objects import ObjectPath
from kfetch.storage.open import stored_path
from kfetch.storage.transfer import KEPT_BYTES, PART_BYTES, Upload, opened
from kfetch_jobs.jvm.spark import REDACTION
from tests.kfetch.delta.tables import MIB, column, field, plan_of
from tests.kfetch.delta.test_copying import Copy
from tests.store import BUCKET, Store, encryptions, unfinished_uploads
from tests.store_proxy import Fault, Proxy, proxied

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

QUERY = "75a0c3a1-0000-4000-8000-000000000000"
_NUMBERS = itertools.count()


@pytest.fixture
def proxy(store: Store) -> Iterator[Proxy]:
    with proxied(store) as running:
        yield running


@pytest.fixture
def place(proxy: Proxy) -> ObjectPath:
    """A place without a table. Hadoop takes such a path as it is."""
    return proxy.store.path(f"a b/größe:{next(_NUMBERS)}")


def log_of(place: ObjectPath) -> TableLog:
    """The log of a table with one column, which exists."""
    log = TableLog(place, [field("n")], [])
    log.open(merge_schema=False)
    return log


def files_of(place: ObjectPath, proxy: Proxy, *numbers: int, **settings: Any) -> list[WrittenFile]:
    """Write a file as a task does, which knows Spark's settings and the place's URI."""
    plan = plan_of(str(place), ["n"], upload_bytes=KEPT_BYTES, **settings)
    batch = pa.record_batch({"n": pa.array(numbers, pa.int64())})
    rows = [
        row
        for one in written_files([batch], [plan], proxy.store.settings)
        for row in one.to_pylist()
    ]
    assert all(row.pop("table") == str(place) for row in rows)
    return [WrittenFile(**row | {"partitions": json.loads(row["partitions"])}) for row in rows]


def numbers_in(place: ObjectPath) -> list[int]:
    """What delta-rs reads."""
    rows = DeltaTable(**address(place)).to_pyarrow_table().to_pylist()
    return sorted(row["n"] for row in rows)


def big(mebibytes: int) -> pa.RecordBatch:
    """A batch of a KiB in each row, which Parquet can't make smaller."""
    data = random.Random(31).randbytes(mebibytes * MIB)
    rows = pa.array([data[begin : begin + 1024] for begin in range(0, len(data), 1024)])
    return pa.record_batch({"n": rows, "day": ["1"] * len(rows)})


def test_a_table_in_a_store(place: ObjectPath, proxy: Proxy) -> None:
    """It is made, gets columns, and has each micro-batch once, also if another one repeats it."""
    log = log_of(place)

    assert log.commit(QUERY, 0, files_of(place, proxy, 1, 2), lambda: None)
    assert not log.commit(QUERY, 0, files_of(place, proxy, 3), lambda: None)
    assert not log_of(place).commit(QUERY, 0, files_of(place, proxy, 4), lambda: None)
    assert log.commit(QUERY, 1, files_of(place, proxy, 5), lambda: None)
    assert [1, 2, 5] == numbers_in(place)

    wider = TableLog(place, [field("n"), field("m")], [])
    with pytest.raises(TableRefused, match=f"{re.escape(str(place))} has no column m"):
        wider.open(merge_schema=False)
    assert ["n", "m"] == [one["name"] for one in wider.open(merge_schema=True).fields]


@pytest.mark.s3
def test_an_encrypted_table(place: ObjectPath, proxy: Proxy) -> None:
    """All files of the table and of its log have the encryption that S3A's settings ask for."""
    settings = {"spark.hadoop.fs.s3a.encryption.algorithm": "SSE-KMS"}
    settings["spark.hadoop.fs.s3a.encryption.key"] = "arn:aws:kms:eu-west-1:1:key/a"
    encrypted = stored_path(str(place), proxy.store.settings | settings)
    assert isinstance(encrypted, ObjectPath)
    log_of(encrypted)
    for size in (1, 11 * MIB):
        upload = Upload(encrypted / str(size))
        upload.write(bytes(size))
        upload.complete()
    assert (encrypted / "lease").write_if(b"", None)
    encrypted.copy_tree(encrypted / "copy")

    found = encryptions(place.key)
    assert 8 == len(found)
    assert {("aws:kms", "arn:aws:kms:eu-west-1:1:key/a")} == set(found.values())


def test_requests_of_a_micro_batch(place: ObjectPath, proxy: Proxy) -> None:
    """They do not grow with the number of commits behind the log's last checkpoint."""
    log, requests = log_of(place), []
    for number in range(6):
        files = files_of(place, proxy, number)
        proxy.heal()
        assert not log.has_batch(QUERY, number)
        assert log.commit(QUERY, number, files, lambda: None)
        requests.append(len(proxy.requests))

    assert requests[2:] == [17] * 4


def test_a_name_that_delta_rs_misreads(proxy: Proxy) -> None:
    """A percent sign before two digits is an escape to delta-rs, and none to Hadoop."""
    with pytest.raises(TableRefused, match="percent sign before two digits"):
        log_of(proxy.store.path("50%20"))


def test_an_upload_appears_when_it_is_complete(place: ObjectPath) -> None:
    """Parts leave before the end. Until then, no reader sees the object."""
    upload = Upload(place / "f")
    for _ in range(11):
        upload.write(bytes(MIB))
        assert upload.kept_bytes <= KEPT_BYTES
    assert 2 * PART_BYTES < upload.tell() == 11 * MIB
    with pytest.raises(FileNotFoundError):
        (place / "f").head()
    upload.complete()

    assert bytes(11 * MIB) == bytes(opened(place / "f").read())


@pytest.mark.s3
@pytest.mark.parametrize("size", [1, 11 * MIB])
def test_an_upload_that_is_given_up(place: ObjectPath, store: Store, size: int) -> None:
    """The store forgets its parts, and there is no object."""
    upload = Upload(place / "f")
    upload.write(bytes(size))
    upload.discard()

    assert [] == unfinished_uploads(place.key)
    with pytest.raises(FileNotFoundError):
        (place / "f").head()


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        pytest.param("begin", Fault.BUSY, marks=pytest.mark.s3),
        ("part", Fault.CUT),
        ("part", Fault.HALF_ANSWER),
        ("part", Fault.LOST_ANSWER),
        ("end", Fault.CUT),
        ("end", Fault.LOST_ANSWER),
        ("end", Fault.HALF_ANSWER),
    ],
)
def test_a_store_that_cuts_uploads(
    place: ObjectPath, proxy: Proxy, step: str, fault: Fault
) -> None:
    """A request that fails is sent again, and the file is whole. Its end may have no answer."""
    store = proxy.store
    parts = {"begin": "uploads=", "part": store.part_request, "end": store.end_request}
    proxy.fault("", parts[step], fault)
    upload = Upload(place / "f")
    upload.write(bytes(11 * MIB))
    upload.complete()

    assert 1 == proxy.faults
    assert bytes(11 * MIB) == bytes(opened(place / "f").read())


def test_a_store_that_does_not_come_back(place: ObjectPath, proxy: Proxy) -> None:
    """The task fails with an error that names the file, and shows no part of a request."""
    proxy.fault("PUT", "", Fault.BUSY, 100)
    with pytest.raises(OSError, match="503 Service Unavailable") as caught:
        files_of(place, proxy, 1)

    assert caught.value.filename.startswith(f"{place}/part-")
    assert proxy.store.endpoint not in str(caught.value)


@pytest.mark.s3
def test_a_failed_task_leaves_no_parts(place: ObjectPath, proxy: Proxy) -> None:
    """Its uploads are given up, so the store keeps nothing of them."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield big(6)
        raise ConnectionError("the broker is gone")

    plan = plan_of(str(place), ["n"], row_group_bytes=MIB, upload_bytes=KEPT_BYTES)
    with pytest.raises(ConnectionError, match="the broker is gone"):
        list(written_files(batches(), [plan], proxy.store.settings))

    assert any("partNumber" in path for _, path in proxy.requests)
    assert [] == unfinished_uploads(place.key)
    assert not (place / "_").parent.page_behind("").names


def test_uploads_in_memory_have_a_limit(place: ObjectPath) -> None:
    """Each open file keeps up to two parts. Files are completed before all keep more than that."""
    by_day = (column("day"),)
    plan = plan_of(str(place), ["n"], by_day, row_group_bytes=2 * MIB, upload_bytes=KEPT_BYTES)
    most, found = 0, []
    with TaskFiles(plan, place) as files:
        batch = big(4)
        for day in range(6):
            found += files.add(batch.set_column(1, "day", pa.array([str(day)] * len(batch))))
            most = max(most, files.uploading_bytes)
        found += files.complete()

    assert KEPT_BYTES // 2 < most <= KEPT_BYTES
    assert 6 * 4 * 1024 == sum(row["rows"][0].as_py() for row in found)


@pytest.mark.parametrize("fault", [f for f in Fault if f is not Fault.SILENT])
def test_a_commit_with_one_fault(place: ObjectPath, proxy: Proxy, fault: Fault) -> None:
    """The client repeats the request. If the first one was carried out, the log tells it."""
    log = log_of(place)
    proxy.fault("PUT", "_delta_log/", fault)

    assert log.commit(QUERY, 0, files_of(place, proxy, 1), lambda: None)
    assert 1 == proxy.faults
    assert [1] == numbers_in(place)


@pytest.mark.parametrize(
    ("fault", "is_there"), [(Fault.BUSY, False), (Fault.CUT, False), (Fault.LOST_ANSWER, True)]
)
def test_a_commit_that_gets_no_answer(
    place: ObjectPath, proxy: Proxy, fault: Fault, is_there: bool
) -> None:
    """The log tells whether the commit is there. If it is not, the micro-batch is repeated."""
    log = log_of(place)
    proxy.fault("PUT", "_delta_log/", fault, 100)
    if is_there:
        assert log.commit(QUERY, 0, files_of(place, proxy, 1), lambda: None)
    else:
        with pytest.raises(OSError, match=r"the store fails \((503 .*SlowDown|no answer)\)"):
            log.commit(QUERY, 0, files_of(place, proxy, 1), lambda: None)
    proxy.heal()

    assert is_there != log.commit(QUERY, 0, files_of(place, proxy, 1), lambda: None)
    assert [1] == numbers_in(place)


def test_two_committers_at_once(place: ObjectPath, proxy: Proxy) -> None:
    """Two drivers append to one table as fast as they can. No commit replaces another one."""
    log_of(place)
    logs = {name: log_of(place) for name in ("one", "two")}
    files = {name: files_of(place, proxy, 1) for name in logs}

    def commit(name: str) -> None:
        for number in range(10):
            assert logs[name].commit(name, number, files[name], lambda: None)

    threads = [threading.Thread(target=commit, args=(name,)) for name in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert 1 + 2 * 10 == len((place / "_delta_log").page_behind("").names)
    assert {9} == {DeltaTable(**address(place)).transaction_version(name) for name in logs}


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.LOST_ANSWER, Fault.BUSY])
def test_a_store_that_fails_at_the_start(
    place: ObjectPath, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    """Its conditions are tried again. The client repeats no conditional write by itself."""
    monkeypatch.setattr("kfetch.delta.log._PROBE_PAUSE_S", 0.01)
    log_of(place)
    proxy.fault("PUT", "_delta_log/", fault, 3)
    log_of(place)

    assert 3 == proxy.faults


@pytest.mark.parametrize("large", [False, True])
def test_a_store_that_ignores_conditions(
    place: ObjectPath, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    """It is refused before the first file, because nobody would notice a lost commit. If the newest
    commit is large, an earlier one shows it."""
    if large:
        many = [file for number in range(9) for file in files_of(place, proxy, number)]
        log_of(place).commit(QUERY, 0, many, lambda: None)
        sizes = [(place / "_delta_log" / f"{number:020}.json").head()[1] for number in (0, 1)]
        assert sizes[0] < sizes[1]
        monkeypatch.setattr("kfetch.delta.log._PROBE_MAX", sizes[0])

    def unconditional(path: ObjectPath, content: bytes, _: str | None) -> str:
        return str(path.store.put(path.key, content)["e_tag"])

    monkeypatch.setattr(ObjectPath, "write_if", unconditional)
    with pytest.raises(TableRefused, match="ignores conditional writes"):
        log_of(place)


def test_one_micro_batch_of_two_drivers(place: ObjectPath, proxy: Proxy) -> None:
    """Both have looked before either commits. One wins, and the other one commits nothing."""
    first, second = log_of(place), log_of(place)
    looked = second.has_batch
    won: list[bool] = []

    def race(query: str, batch: int) -> bool:
        found = looked(query, batch)
        if not won:
            won.append(first.commit(QUERY, 0, files_of(place, proxy, 1), lambda: None))
        return found

    second.has_batch = race  # type: ignore[method-assign]

    assert not second.commit(QUERY, 0, files_of(place, proxy, 2), lambda: None)
    assert [True] == won
    assert [1] == numbers_in(place)


def test_a_table_that_is_made_anew(place: ObjectPath, proxy: Proxy) -> None:
    """The driver notices it, because the last commit it knows is another object now."""
    log = log_of(place)
    log.commit(QUERY, 0, files_of(place, proxy, 1), lambda: None)
    place.remove_tree()
    log_of(place)

    with pytest.raises(TableRefused, match="was removed and made anew"):
        log.commit(QUERY, 1, files_of(place, proxy, 1), lambda: None)


def test_a_copy_with_dead_letters(place: ObjectPath, proxy: Proxy) -> None:
    """Both tables are in the store, and the driver reads an example from there."""
    copy = Copy(place, proxy.store.settings)
    written = copy.write(0, (1, None), (2, "no JSON"))

    assert Letter("t", 0, 2, "no JSON") == written.example
    assert ([2], [1]) == (copy.of("dead"), copy.of("rows"))


def test_keys_are_hidden(place: ObjectPath, proxy: Proxy) -> None:
    """Executors get the keys by an option whose name tells Spark to hide its value."""
    settings = proxy.store.settings | {"spark.other.password": "oth3r"}
    given = Copy(place, settings).reader.given

    (name,) = (name for name, text in given.items() if proxy.store.secret in text)
    assert SETTINGS == name
    for pattern in ("(?i)secret|password|token|access[.]?key", REDACTION):  # Spark's, and kfetch's
        assert re.search(pattern, name)
    assert "oth3r" not in str(given)
    assert f"{place}/rows" == json.loads(given[PLANS])[0]["directory"]
    assert proxy.store.secret not in repr(place)


def test_a_place_on_a_disk_gets_no_keys(tmp_path: Path) -> None:
    """Tasks need no settings there."""
    assert SETTINGS not in Copy(tmp_path, {"spark.hadoop.fs.s3a.secret.key": "k3y"}).reader.given


@pytest.mark.parametrize(
    ("uri", "settings", "address_", "options"),
    [
        (
            "abfss://lake@shop.dfs.core.windows.net/a b",
            {"fs.azure.account.auth.type": "SAS", "fs.azure.sas.fixed.token": "sig=x"},
            "abfss://lake@shop.dfs.core.windows.net/a%20b",
            {"account_name": "shop", "sas_key": "sig=x", "container_name": "lake"},
        ),
        (
            "gs://lake/t",
            {"fs.gs.auth.type": "UNAUTHENTICATED"},
            "gs://lake/t",
            {"bucket": "lake", "skip_signature": "True", "timeout": "10000ms"},
        ),
        ("s3n://lake/t", {}, "s3://lake/t", {"bucket": "lake", "max_retries": "5"}),
        (
            "hdfs://127.0.0.1/t",
            {"dfs.replication": "1"},
            "hdfs://127.0.0.1:8020/t",
            {"dfs.replication": "1"},
        ),
    ],
)
def test_addresses(
    uri: str, settings: dict[str, str], address_: str, options: dict[str, str]
) -> None:
    """delta-rs gets the settings that kfetch's own client has. None of them is shown."""
    place = stored_path(uri, {f"spark.hadoop.{name}": text for name, text in settings.items()})
    assert place is not None
    given = address(place)

    assert address_ == given["table_uri"]
    assert options.items() <= given["storage_options"].items()
    assert "sig=x" not in repr(place)


def test_a_name_that_delta_rs_misreads_in_hdfs() -> None:
    """There it encodes a name as in a URI, and never decodes it."""
    with pytest.raises(TableRefused, match="in HDFS a blank"):
        log_of(cast("ObjectPath", stored_path("hdfs://127.0.0.1:1/a b", {})))


@pytest.mark.s3
def test_the_bucket_stands_in_the_address(proxy: Proxy) -> None:
    """delta-rs gets what kfetch's own client has."""
    given = address(proxy.store.path("t"))

    assert f"s3://{BUCKET}/t" == given["table_uri"]
    assert proxy.store.endpoint == given["storage_options"]["endpoint"]
    assert "etag" == given["storage_options"]["conditional_put"]


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.CUT])
def test_a_log_that_can_not_be_read(place: ObjectPath, proxy: Proxy, fault: Fault) -> None:
    """A store that fails is no table that kfetch can't write. So a job does not change its way."""
    log_of(place).commit(QUERY, 0, files_of(place, proxy, 1), lambda: None)
    proxy.fault("GET", "_delta_log", fault, times=10**6)

    with pytest.raises(OSError, match="the store fails"):
        log_of(place)
    proxy.heal()
    log_of(place)


def test_an_example_that_can_not_be_read(place: ObjectPath, proxy: Proxy) -> None:
    """A store that fails while the first dead letter is read has one error, without a request."""
    (file,) = files_of(place, proxy, 1)
    proxy.fault("GET", ".parquet", Fault.BUSY, times=10**6)

    with pytest.raises(OSError, match="the store fails"):
        _example(place / file.path)
