"""A path in a store behaves as a path of this machine does, and its errors name the object."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import pytest

from kfetch.errors import OptionError
from kfetch.storage.objects import ObjectPath
from kfetch.storage.open import _Patience, stored_path
from tests.store import Store

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])


def test_a_directory(store: Store) -> None:
    """It lists what is right below it, sorted, and over a thousand names in several requests."""
    names = [str(number) for number in range(1003)]
    for name in names:
        store.put(f"many/offsets/{name}", b"x")
    store.put("many/metadata", b"m")

    assert ["metadata", "offsets"] == [child.name for child in store.path("many").iterdir()]
    listed = [child.name for child in (store.path("many") / "offsets").iterdir()]
    assert sorted(names) == listed


@pytest.mark.s3
def test_the_mark_of_a_directory(store: Store) -> None:
    """S3A marks a directory by an object whose name ends in a slash. It is no child of itself."""
    store.put("marked/", b"")
    store.put("marked/sources/", b"")
    store.put("marked/sources/0/", b"")

    assert ["sources"] == [child.name for child in store.path("marked").iterdir()]
    assert [] == list((store.path("marked") / "sources" / "0").iterdir())


def test_a_file(store: Store) -> None:
    """Its text, its name, its parent, and its URI as the user wrote it."""
    store.put("a b/file", "Zoë".encode())
    file = store.path("a b") / "file"

    assert ("Zoë", "file", "a b") == (file.read_text(), file.name, file.parent.name)
    assert f"{store.uri}/a b/file" == str(file)


@pytest.mark.parametrize("text", ["/ck//a/", "ck/./a", "ck/x/../a", "//ck/a", "../ck/a"])
def test_names_as_hadoop_reads_them(store: Store, text: str) -> None:
    """Doubled slashes and dots are resolved before the store is asked. Spark wrote there, too."""
    store.put("ck/a/metadata", b"m")

    assert ["metadata"] == [child.name for child in store.path(text).iterdir()]
    assert b"m" == (store.path(text) / "metadata").read_bytes()


def test_names_that_no_object_has(store: Store) -> None:
    """They are errors of pathlib's kind."""
    for name in ("a\nb", "a\udc80"):
        with pytest.raises(OSError, match="no object has such a name"):
            store.path(name).read_bytes()
        with pytest.raises(OSError, match="no object has such a name"):
            list(store.path(name).iterdir())


def test_percent_signs_and_other_characters(store: Store) -> None:
    """They stay as they are: Hadoop decodes nothing."""
    for name in ("odd/a%20b", "odd/a b", "odd/a+b", "odd/a?b#c*", "odd/\u00fc"):
        store.put(f"{name}/metadata", name.encode())

        assert name == (store.path(name) / "metadata").read_text()
        assert ["metadata"] == [child.name for child in store.path(name).iterdir()]


def test_a_whole_bucket(store: Store) -> None:
    """A URI without a path names the bucket's root."""
    store.put("metadata", b"m")

    for text in (store.uri, f"{store.uri}/", f"{store.uri.replace('s', 'S', 1)}//"):
        root = stored_path(text, store.settings)
        assert isinstance(root, ObjectPath)
        assert "metadata" in [child.name for child in root.iterdir()]
        assert b"m" == (root / "metadata").read_bytes()


def test_what_is_missing(store: Store) -> None:
    """A missing object and a missing directory are errors of pathlib's kind."""
    with pytest.raises(FileNotFoundError, match=f"no such object: '{store.uri}/none'"):
        store.path("none").read_bytes()
    with pytest.raises(FileNotFoundError, match=f"no such directory: '{store.uri}/none'"):
        list(store.path("none").iterdir())


def test_a_bucket_that_does_not_exist(store: Store) -> None:
    """That is no empty directory: a wrong name must not look like a new checkpoint."""
    nowhere = store.uri.replace("lake", "nowhere")
    path = stored_path(f"{nowhere}/ck", store.settings)
    assert isinstance(path, ObjectPath)

    with pytest.raises(OSError, match=f"{nowhere} does not exist"):
        list(path.iterdir())


def test_a_store_that_is_not_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the object. It shows no key."""
    monkeypatch.setattr("kfetch.storage.open._Patience", partial(_Patience, retries_s=0))
    path = replace(store, endpoint="http://127.0.0.1:9").path("ck/metadata")

    with pytest.raises(OSError, match=rf"the store fails \(no answer\): '{store.uri}/ck/m") as told:
        path.read_bytes()
    assert "pa55word" not in str(told.value)


@pytest.mark.s3
@pytest.mark.parametrize(
    ("status", "code"), [(301, "PermanentRedirect"), (400, "AuthorizationHeaderMalformed")]
)
def test_a_bucket_in_another_region(store: Store, status: int, code: str) -> None:
    """AWS answers so if a bucket is not in the region of the request. Spark looks for the region by
    itself, so the error names the setting."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f"<Error><Code>{code}</Code></Error>".encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        path = replace(store, endpoint=f"http://127.0.0.1:{server.server_port}").path("ck")
        with pytest.raises(OSError, match=r"another region: set spark.hadoop.fs.s3a.endpoint.reg"):
            path.read_bytes()
        with pytest.raises(OSError, match="s3a://lake may be in another region"):
            list(path.iterdir())


def test_half_of_the_keys_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says where to look, and shows no key."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "pa55word")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")  # delta-rs may have set it behind Python's back
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")

    with pytest.raises(OptionError, match="has no complete keys for s3a://lake") as told:
        stored_path("s3a://lake/ck", {})
    assert "pa55word" not in str(told.value)


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("s3a://AKIAX:pa55word@lake/ck", ""),
        ("s3a:AKIAX:pa55word@lake/ck", ""),
        ("hdfs://user:pa55word@127.0.0.1:1/ck", ""),
        ("viewfs://user:pa55word@name/ck", ""),
        ("/ck", "s3a://AKIAX:pa55word@lake"),
        ("/ck", "hdfs://user:pa55word@127.0.0.1:1"),
        ("hdfs:/ck", "hdfs://user:pa55word@127.0.0.1:1"),
        ("/ck", "viewfs://user:pa55word@name"),
    ],
)
def test_keys_in_a_location(text: str, default: str) -> None:
    """Errors and logs show locations, so keys in one are an error, which shows none. So it is with
    keys in the default file system."""
    with pytest.raises(
        OptionError, match="a location must have no access keys: put them into"
    ) as told:
        stored_path(text, {"spark.hadoop.fs.defaultFS": default} if default else {})
    assert "pa55word" not in repr(told.value) + str(told.value)


def test_paths_share_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client fetches keys and connects once for all paths of a bucket. Nobody can change its
    options. Other keys, another wait and ten minutes make another one: a file with keys may have
    changed."""
    settings = {f"spark.hadoop.fs.s3a.{name}.key": name for name in ("access", "secret")}

    def client(key: str = "ck", name: str = "", wait_s: float = 1.0) -> object:
        more = {"spark.hadoop.fs.s3a.secret.key": name} if name else {}
        path = stored_path(f"s3a://lake/{key}", settings | more, request_s=wait_s)
        assert isinstance(path, ObjectPath)
        assert not isinstance(path.options, MutableMapping)
        return path.store

    now = 1200.0
    monkeypatch.setattr("kfetch.storage.open.monotonic", lambda: now)
    first = client()
    assert first is client("other")
    made = [first, client(name="new"), client(wait_s=2.0)]
    with monkeypatch.context() as changed:
        changed.setenv("AWS_ROLE_ARN", "new")
        made.append(client())
    now += 600
    made.append(client())

    assert 5 == len({id(one) for one in made})


def test_other_file_systems() -> None:
    """kfetch has no driver for them, and says so by None: the caller knows what to do."""
    viewfs = {"spark.hadoop.fs.defaultFS": "viewfs://name"}

    for text, settings in (("dbfs:/x", {}), ("wasbs://b/x", {}), ("/ck", viewfs), ("abfss:/x", {})):
        assert stored_path(text, settings) is None


def test_a_path_in_the_default_file_system(store: Store) -> None:
    """A path without a scheme is in Spark's default file system."""
    settings = store.settings | {"spark.hadoop.fs.defaultFS": store.uri}

    assert f"{store.uri}/ck" == str(stored_path("/ck", settings))
    assert Path("/ck") == stored_path("/ck", {})


def test_a_driver_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra to install."""
    original = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Mapping[str, Any]) -> ModuleType:
        if name.startswith("obstore"):
            raise ModuleNotFoundError(name=name)
        return original(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)

    with pytest.raises(OptionError, match=r"pip install 'kfetch\[s3\]'"):
        stored_path("s3a://lake/ck", {})


def test_a_tree_is_copied_and_removed_whole(store: Store) -> None:
    """A file may have several pieces. In HDFS no directory stays, which a list would show."""
    source, copy = store.path("tree/from"), store.path("tree/copy")
    large = bytes(range(256)) * (3 << 12)
    store.put("tree/from/a b/large", large)
    store.put("tree/from/small", b"1")
    source.copy_tree(copy)

    assert ["tree/copy/a b/large", "tree/copy/small"] == sorted(one.key for one in copy.files())
    assert large == (copy / "a b" / "large").read_bytes()
    copy.remove_tree()
    assert [source] == list(source.parent.iterdir())
    copy.remove_tree()
