"""Files of properties, as Java's ``Properties.load`` reads them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.admin.cli.properties import parse_properties, read_properties
from kfetch.errors import OptionError
from kfetch.options.catalogue import lookup


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a=b", {"kafka.a": "b"}),
        ("kafka.a=b\nkfetch.c=d", {"kafka.a": "b", "kfetch.c": "d"}),
        ("a : b=c", {"kafka.a": "b=c"}),
        ("a b", {"kafka.a": "b"}),
        ("a", {"kafka.a": ""}),
        ("a=", {"kafka.a": ""}),
        ("# a=b\n! c=d\n\n  e=f  ", {"kafka.e": "f  "}),
        ("a=b \\\n   c", {"kafka.a": "b c"}),
        ("a=b\\\\\nc=d", {"kafka.a": "b\\", "kafka.c": "d"}),
        ("a=b\\", {"kafka.a": "b"}),
        ("a\\:b=\\u00e9\\n\\t\\=", {"kafka.a:b": "é\n\t="}),
        ("a\\ude00=\\ud83d\\ude00 \\uD83D!", {"kafka.a?": "\U0001f600 \ud83d!"}),
        ('jaas=x required u="a=b";', {"kafka.jaas": 'x required u="a=b";'}),
        ("a=1\r\na=2", {"kafka.a": "2"}),
        ("subscribe=t\nstartingOffsets=latest", {"subscribe": "t", "startingOffsets": "latest"}),
    ],
)
def test_forms(text: str, options: dict[str, str]) -> None:
    """Separators, comments, long lines and escapes are Java's.

    Names of Kafka's properties get ``kafka.`` in front, and options of the source stay. Half of a
    surrogate pair in a value stays, so that ``parse`` refuses it: a password would be another one.
    """
    assert options == parse_properties(text)


def test_files_are_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everywhere a file is UTF-8 text, also under a locale such as en_US.ISO-8859-1."""
    monkeypatch.setattr(io, "text_encoding", lambda encoding, *_: encoding or "latin-1")
    file = tmp_path / "client.properties"
    file.write_bytes("ssl.key.password=geheim-ä".encode())

    assert {"kafka.ssl.key.password": "geheim-ä"} == read_properties(file)


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    """No text is an error: a line without a separator is a name without a value."""
    names = parse_properties(text)
    assert all(name.startswith(("kafka.", "kfetch.")) or lookup(name) for name in names)


@given(st.text(alphabet=st.characters(exclude_categories=["C", "Z"]), min_size=1))
def test_values_come_back(value: str) -> None:
    """A value survives when its backslashes are doubled, as Java writes them."""
    assert {"kafka.a": value} == parse_properties("a=" + value.replace("\\", "\\\\"))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("key.deserializer=x", "option kafka.key.deserializer is not supported: keys are binary"),
        ("fetch.min.byte=1", "option kafka.fetch.min.byte is not known"),
    ],
)
def test_a_name_that_cannot_be_used(tmp_path: Path, line: str, what: str) -> None:
    """The error names the file and the line, also behind a comment and a continued line."""
    file = tmp_path / "client.properties"
    file.write_text(f"# of the query\nsecurity.protocol=\\\n  PLAINTEXT\n{line}\n")

    with pytest.raises(OptionError) as caught:
        read_properties(file)

    assert caught.value.message.startswith(f"{file}:4: {what}")
    assert (str(file), 4) == (caught.value.where["file"], caught.value.where["line"])


def test_all_names_that_cannot_be_used(tmp_path: Path) -> None:
    """One error names each of them with its line, so one run of a command finds them all."""
    file = tmp_path / "client.properties"
    file.write_text("enable.auto.commit=false\nclient.id=a\nfetch.min.byte=1\n")

    with pytest.raises(OptionError) as caught:
        read_properties(file)

    first, second = caught.value.message.split("; ")
    assert first.startswith(f"{file}:1: option kafka.enable.auto.commit is not supported")
    assert second.startswith(f"{file}:3: option kafka.fetch.min.byte is not known")
    assert 1 == caught.value.where["line"]
