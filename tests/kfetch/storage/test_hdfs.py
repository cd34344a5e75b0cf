"""HDFS as a store: Spark's settings, and a namenode that does not answer. The rest needs one."""

from __future__ import annotations

import builtins
import socket
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from obstore.exceptions import BaseError

from kfetch.errors import OptionError
from kfetch.storage import hdfs
from kfetch.storage.hdfs import hdfs_config
from kfetch.storage.objects import ObjectPath
from kfetch.storage.open import stored_path, versioned
from kfetch.storage.versions import VersionedDirectory


def test_settings() -> None:
    """The client gets Hadoop's settings by their own names, such as those of several namenodes."""
    settings = {"spark.hadoop.dfs.ha.namenodes.lake": "a,b", "spark.master": "local"}

    expected = {"authority": "lake", "config": {"dfs.ha.namenodes.lake": "a,b"}}
    assert expected == hdfs_config("lake", settings)


@pytest.mark.parametrize("authority", ["127.0.0.1:1", "127.0.0.1"])
def test_a_lease(authority: str) -> None:
    """It is a directory of versions, as on a disk. A URI without a port is that of a namenode."""
    path = stored_path(f"hdfs://{authority}/a/../ck.lease", {})
    assert isinstance(path, ObjectPath)

    assert f"hdfs://{authority}/ck.lease" == str(path)
    assert isinstance(versioned(path), VersionedDirectory)


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_a_namenode_that_does_not_answer() -> None:
    """A request is given up in time. The error names the file."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"hdfs://127.0.0.1:{silent.getsockname()[1]}/ck.lease"
        path = stored_path(uri, {}, request_s=0.2)
        assert isinstance(path, ObjectPath)
        began = time.monotonic()
        for request in (path.read_bytes, versioned(path).read, lambda: path.write_if(b"x", None)):
            with pytest.raises(OSError, match=rf"the store fails \(no answer\): '{uri}"):
                request()
        assert time.monotonic() - began < 5


def test_what_is_no_namenode() -> None:
    """The error says what to correct, before anybody asks."""
    with pytest.raises(OptionError, match="knows no namenode of hdfs://a b/ck: correct the name"):
        stored_path("hdfs://a b/ck", {})


def test_a_client_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra to install."""
    original = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("hdfs_native"):
            raise ModuleNotFoundError(name=name)
        return original(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)

    with pytest.raises(OptionError, match=r"package hdfs_native.*pip install 'kfetch\[hdfs\]'"):
        stored_path("hdfs://name:8020/ck", {})


def test_requests_that_hang_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too many of them, a further one fails at once, and starts no thread. Now and then one
    goes through. Once one is answered, all go through, while the others still hang."""

    class Namenode:
        def __init__(self, *_: object) -> None: ...

        def get_file_info(self, _: str) -> Any:
            asked.append(1)
            if not answers.is_set():
                ended.wait(60)
            return SimpleNamespace(modification_time=1000, length=3)

    asked: list[int] = []
    answers, ended = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, "hdfs_native", SimpleNamespace(Client=Namenode))
    monkeypatch.setattr(hdfs, "_HANGING_MAX", 2)
    monkeypatch.setattr(hdfs, "_hanging", [])
    monkeypatch.setattr(hdfs, "_retry_at", None)
    store = hdfs.HdfsStore("namenode:8020", {}, 0.05)
    try:
        for tries in (1, 2, 2, 2):
            with pytest.raises(BaseError):
                store.head("x")
            assert tries == len(asked)
        answers.set()
        with pytest.raises(BaseError):
            store.head("x")
        monkeypatch.setattr(hdfs, "_RETRY_S", 0.0)
        monkeypatch.setattr(hdfs, "_retry_at", time.monotonic())
        assert [3, 3] == [store.head("x")["size"] for _ in range(2)]
        assert 4 == len(asked)
    finally:
        ended.set()


def test_a_uri_without_a_namenode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to the default file system of Spark's settings, or of ``HADOOP_CONF_DIR``."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(OptionError, match="knows no namenode of hdfs:///ck"):
        stored_path("hdfs:///ck", {})
    settings = {"spark.hadoop.fs.defaultFS": "hdfs://127.0.0.1:1"}
    assert "hdfs://127.0.0.1:1/ck" == str(stored_path("hdfs:///ck", settings))

    name, value = "<name>fs.defaultFS</name>", "<value>hdfs://127.0.0.1:1</value>"
    text = f"<configuration><property>{name}{value}</property></configuration>"
    (tmp_path / "core-site.xml").write_text(text)
    assert "hdfs:///ck" == str(stored_path("hdfs:///ck", {}))
