"""The client of schema registries: what it asks, what it keeps, how often it tries, limits."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfetch.errors import RegistryRefused, RegistryUnavailable
from kfetch.formats.registry import client as module
from kfetch.formats.registry.client import Registry
from kfetch.formats.registry.schemas import SchemaUnknown
from kfetch.options.registry import RegistryOptions
from kfetch.options.secret import Secret
from kfetch.options.tls import Store, TlsOptions
from tests.kfetch.formats.registry.scripted_registry import ScriptedRegistry
from tests.kfetch.wire.certificates import Authority, server_context


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedRegistry]:
    """A scripted registry. Pauses are short."""
    monkeypatch.setattr(module, "_PAUSES_S", (0.001, 0.002))
    monkeypatch.setattr(module, "_SECOND_LOOK_S", 0.001)
    with ScriptedRegistry() as made:
        yield made


def client(server: ScriptedRegistry, *more: str, **options: object) -> Registry:
    """A client of the registry, and of other addresses behind it."""
    settings = {"urls": (server.url, *more), "retry_s": 5.0} | options
    return Registry(RegistryOptions(**settings))  # type: ignore[arg-type]


def test_a_schema_is_fetched_once(server: ScriptedRegistry) -> None:
    """Schemas never change, so the second look-up asks nobody."""
    number = server.add({"type": "int"})
    registry = client(server)
    assert registry.by_id(number) == registry.by_id(number)
    assert [f"/schemas/ids/{number}"] == server.requests
    assert ("AVRO", '{"type": "int"}') == (registry.by_id(1).kind, registry.by_id(1).text)


def test_threads_share_a_request(server: ScriptedRegistry) -> None:
    """Threads that need one id wait for the same request."""
    number, registry = server.add("int"), client(server)
    server.may_answer.clear()
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(registry.by_id(number).id)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    server.arrived.wait(60)
    server.may_answer.set()
    for thread in threads:
        thread.join(60)
    assert ([number] * 4, 1) == (found, len(server.requests))


def test_an_unknown_id_gets_a_second_look(server: ScriptedRegistry) -> None:
    """A registry that has not learned of a schema yet may have it a moment later."""
    server.add("int", number=7)
    server.answers = [(404, b'{"error_code":40403,"message":"Schema not found"}')]
    assert 7 == client(server).by_id(7).id


def test_an_unknown_id_is_remembered(server: ScriptedRegistry) -> None:
    """Values that are no Avro must not ask for the same id again and again."""
    registry = client(server)
    for _ in range(3):
        with pytest.raises(SchemaUnknown, match=f"{server.url} has no schema 9"):
            registry.by_id(9)
    assert 2 == len(server.requests)


def test_some_new_ids_get_a_second_look_each(server: ScriptedRegistry) -> None:
    """A release may add schemas of several topics at once."""
    registry, unknown = client(server), (404, b'{"error_code":40403,"message":"Schema not found"}')
    for number in (7, 8, 9):
        server.add("int", number=number)
        server.answers = [unknown]
        assert number == registry.by_id(number).id


def test_many_ids_do_not_wait_for_a_second_look(
    server: ScriptedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few second looks in a while are enough, so a thousand unknown ids do not take long."""
    monkeypatch.setattr(module, "_SECOND_LOOKS_MAX", 2)
    registry = client(server)
    for number in range(1, 6):
        with pytest.raises(SchemaUnknown):
            registry.by_id(number)
    assert 7 == len(server.requests)


def test_references_come_before_those_who_need_them(server: ScriptedRegistry) -> None:
    """All texts that a schema needs, each once."""
    server.add("A", "a")
    server.add("B", "b", references=(("a", 1),))
    number = server.add("C", "c", references=(("b", 1), ("a", 1)))
    assert ("A", "B") == client(server).by_id(number).references
    assert "/subjects/a/versions/1?deleted=true" in server.requests
    server.requests.clear()
    client(server).by_id(number, form="serialized")
    assert "/subjects/a/versions/1?deleted=true&format=serialized" in server.requests


def test_references_in_a_circle_are_refused(server: ScriptedRegistry) -> None:
    """A registry that is wrong must not keep a task busy."""
    server.add("A", "a", references=(("b", 1),))
    number = server.add("B", "b", references=(("a", 1),))
    with pytest.raises(RegistryRefused, match="circle of references"):
        client(server).by_id(number)


def test_references_have_a_limit(server: ScriptedRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """So do the schemas that refer to each other in a row."""
    monkeypatch.setattr(module, "_DEPTH_MAX", 3)
    for i in range(1, 6):
        server.add(f"T{i}", f"t{i}", references=((f"t{i - 1}", 1),) if i > 1 else ())
    assert ("T1", "T2", "T3") == client(server).by_id(4).references
    with pytest.raises(RegistryRefused, match="more than 3 in a row"):
        client(server).by_id(5)


def test_references_have_a_limit_of_bytes(
    server: ScriptedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All texts of one schema together, so that a registry can't fill a task's memory."""
    monkeypatch.setattr(module, "_REFERENCES_BYTES_MAX", 2 << 20)
    for name in "abc":
        server.add("T" * (1 << 20), name)
    two = server.add("U", "u", references=(("a", 1), ("b", 1)))
    three = server.add("V", "v", references=(("a", 1), ("b", 1), ("c", 1)))
    assert 2 == len(client(server).by_id(two).references)
    with pytest.raises(RegistryRefused, match="references of more than 2 MiB"):
        client(server).by_id(three)


def test_subjects_and_versions(server: ScriptedRegistry) -> None:
    """The latest version, one by its number, and the list. Names of subjects are quoted."""
    for text in ("A", "B"):
        server.add(text, "o/x y-value")
    registry = client(server)
    latest = registry.by_version("o/x y-value", None)
    assert ("B", 2) == (latest.text, latest.version)
    assert "A" == registry.by_version("o/x y-value", 1).text
    assert [1, 2] == registry.versions("o/x y-value")
    assert "/subjects/o%2Fx%20y-value/versions/latest" == server.requests[0]
    with pytest.raises(SchemaUnknown, match="has no version 3 of subject o/x y-value"):
        registry.by_version("o/x y-value", 3)
    with pytest.raises(SchemaUnknown, match="has no version latest of subject none"):
        registry.by_version("none", None)
    with pytest.raises(SchemaUnknown, match="has no versions of none"):
        registry.versions("none")


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_passing_faults_are_retried(server: ScriptedRegistry, status: int) -> None:
    """A registry that restarts says so for a moment."""
    number = server.add("int")
    server.answers = [(status, b"")] * 2
    assert "int" == client(server).by_id(number).text


def test_a_registry_that_stays_away(server: ScriptedRegistry) -> None:
    """The error has the address, the schema and the first cause. It is kfetch's own."""
    server.answers = [(503, b"")] * 1000
    with pytest.raises(RegistryUnavailable) as failure:
        client(server, retry_s=0.02).by_id(7)
    assert (
        f"the schema registry does not give schema 7 within 0.02 s: {server.url} answers with "
        "status 503"
    ) in failure.value.message


def test_the_next_address_is_asked(server: ScriptedRegistry) -> None:
    """The first address that answers is enough."""
    number = server.add("int")
    registry = Registry(RegistryOptions(urls=("http://127.0.0.1:1", server.url), retry_s=5.0))
    assert "int" == registry.by_id(number).text


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_log_in_is_final(server: ScriptedRegistry, status: int) -> None:
    """Neither the sentence nor the registry's own words show the password, or what was sent."""
    sent = base64.b64encode(b"user:hush")
    server.answers = [(status, b'{"error_code":401,"message":"no %b: user:hush, hush"}' % sent)]
    with pytest.raises(RegistryRefused) as failure:
        client(server, user_info=Secret("user:hush")).by_id(1)
    assert f"refuses the log-in with status {status}" in failure.value.message
    assert "hush" not in str(failure.value)
    assert sent.decode() not in str(failure.value)
    assert 1 == len(server.requests)


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (200, b"<html>", "no JSON"),
        (200, b"[]", "answers without a schema"),
        (200, b'{"schema": 1}', "answers without a schema"),
        (200, b"x" * ((8 << 20) + 1), "more than 8 MiB"),
        (301, b"", "answers with status 301"),
        (400, b'{"message": "odd\\u0007"}', "answers with status 400: odd "),
        (404, b'{"error_code":404,"message":"HTTP 404 Not Found"}', "answers with status 404"),
        (404, b"nothing here", "answers with status 404"),
    ],
)
def test_what_no_registry_answers(
    server: ScriptedRegistry, status: int, body: bytes, problem: str
) -> None:
    """It is an error at once, and never counts as an unknown schema."""
    server.answers = [(status, body)] * 2
    with pytest.raises(RegistryRefused, match=problem):
        client(server).by_id(1)


@pytest.mark.parametrize(
    ("options", "header"),
    [
        ({}, None),
        (
            {"user_info": Secret("me:p:w ü")},
            "Basic " + base64.b64encode("me:p:w ü".encode()).decode(),
        ),
        ({"token": Secret("abc")}, "Bearer abc"),
    ],
)
def test_log_ins(server: ScriptedRegistry, options: dict[str, Secret], header: str | None) -> None:
    """A user with a password, or a token."""
    client(server, **options).by_id(server.add("int"))
    assert header == server.headers.get("authorization")


def test_serialized_descriptors_are_asked_for(server: ScriptedRegistry) -> None:
    """The form is part of the request, and of what is kept."""
    number = server.add(b"\x0a\x01x", kind="PROTOBUF")
    registry = client(server)
    assert "CgF4" == registry.by_id(number, form="serialized").text
    assert [f"/schemas/ids/{number}?format=serialized"] == server.requests
    assert "PROTOBUF" == registry.by_id(number, form="serialized").kind


def test_the_cache_has_a_limit(server: ScriptedRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema that was not used for the longest time goes."""
    monkeypatch.setattr(module, "_CACHE_BYTES_MAX", 25)
    registry = client(server)
    for number in (server.add("x" * 10), server.add("y" * 10)):
        registry.by_id(number)
    registry.by_id(1)
    registry.by_id(server.add("z" * 10))
    server.requests.clear()
    registry.by_id(1)
    registry.by_id(3)
    assert [] == server.requests
    registry.by_id(2)
    assert ["/schemas/ids/2"] == server.requests


def test_tls(tmp_path: Path) -> None:
    """The authority of the options is trusted, and no other one. The client has a certificate."""
    authority = Authority()
    context = server_context(authority.issue("127.0.0.1"), tmp_path, clients=authority)
    me = authority.issue("me")
    with ScriptedRegistry(context=context) as server:
        number = server.add("int")
        tls = TlsOptions(
            truststore=Store(pem=Secret(authority.pem)),
            keystore=Store(pem=Secret(me.pem + me.key())),
        )
        assert "int" == client(server, tls=tls).by_id(number).text
        with pytest.raises(RegistryRefused, match=r"certificate .* is not valid here"):
            client(server).by_id(number)
        without = TlsOptions(truststore=tls.truststore)
        with pytest.raises(RegistryUnavailable):
            client(server, tls=without, retry_s=0.0).by_id(number)


def test_stores_that_cant_be_read(tmp_path: Path) -> None:
    """The sentence has the name that the option has for registries."""
    tls = TlsOptions(truststore=Store(location=str(tmp_path / "none")))
    with pytest.raises(
        RegistryRefused, match=r"option schema\.registry\.ssl\.truststore\.location"
    ):
        Registry(RegistryOptions(urls=("https://127.0.0.1:1",), tls=tls)).by_id(1)
