"""Java's ``sasl.jaas.config``: the syntax of its tokenizer, and errors without secrets."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.errors import OptionError
from kfetch.options.jaas import LoginModule, parse_jaas
from kfetch.options.secret import Secret

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def parsed(text: str) -> LoginModule:
    """The module of a text."""
    return parse_jaas(Secret(text))


def options(text: str) -> dict[str, str]:
    """The options of a text, without their cover."""
    return {name: value.reveal() for name, value in parsed(text).options.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{PLAIN} required;", {}),
        (f"{PLAIN} required ;", {}),
        (f'{PLAIN} REQUIRED username="a" password="b";', {"username": "a", "password": "b"}),
        (f"{PLAIN} optional username='a' password='\"';", {"username": "a", "password": '"'}),
        (f"{PLAIN} sufficient username=a password=b;", {"username": "a", "password": "b"}),
        (f'{PLAIN}\n  requisite\n\tusername = "a"\n;\n', {"username": "a"}),
        (f'{PLAIN} required p="a;b=c //d /*e*/";', {"p": "a;b=c //d /*e*/"}),
        (f'{PLAIN} required /* p="x" */ q="y"; // end', {"q": "y"}),
        (rf'{PLAIN} required p="a\"b\\c\n\t\101\7\x";', {"p": 'a"b\\c\n\tA\7x'}),
        (f"{PLAIN} required keyTab=/etc/a.keytab;", {"keyTab": "/etc/a.keytab"}),
        (f'{PLAIN} required p="";', {"p": ""}),
        (f'{PLAIN} required p="x" p="y";', {"p": "y"}),
        (f'{PLAIN} required "username"="a";', {"username": "a"}),
        (
            f'{PLAIN} required extension_logicalCluster="lkc-1";',
            {"extension_logicalCluster": "lkc-1"},
        ),
        (f'{PLAIN} required p="é日本";', {"p": "é日本"}),
    ],
)
def test_texts(text: str, expected: dict[str, str]) -> None:
    """What Java's tokenizer reads: both quotes, escapes, comments, flags in any case."""
    assert expected == options(text)


@pytest.mark.parametrize(
    "package", ["", "a.", "kafkashaded.org.apache.kafka.common.security.plain.", "$x._y9."]
)
def test_the_package_does_not_matter(package: str) -> None:
    """Databricks and others ship Kafka's classes under packages of their own."""
    assert "PlainLoginModule" == parsed(f"{package}PlainLoginModule required;").name


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it must begin with the class name of a log-in module"),
        ("hush", "it must begin with the class name of a log-in module"),
        ("hush required;", "it must begin with the class name of a log-in module"),
        ("-.LoginModule required;", "it must begin with the class name of a log-in module"),
        (PLAIN, "behind PlainLoginModule, it needs a control flag such as required"),
        (f"{PLAIN};", "behind PlainLoginModule, it needs a control flag such as required"),
        (f"{PLAIN} hush=x;", "behind PlainLoginModule, it needs a control flag such as required"),
        (f"{PLAIN} required", "there is no semicolon behind PlainLoginModule and its options"),
        (f'{PLAIN} required p="hush"', "there is no semicolon behind PlainLoginModule"),
        (f"{PLAIN} required hush;", "option 1 of PlainLoginModule has no = with a value"),
        (f"{PLAIN} required p=;", "option 1 of PlainLoginModule has no = with a value"),
        (f"{PLAIN} required a=b p=", "option 2 of PlainLoginModule has no = with a value"),
        (f"{PLAIN} required =hush;", "option 1 of PlainLoginModule has no name"),
        (f"{PLAIN} required a=b h!ush=c;", "option 2 of PlainLoginModule has no name"),
        (f'{PLAIN} required p="hush;', "a quotation mark is not closed"),
        (f"{PLAIN} required p=hu'sh;", "a quotation mark is not closed"),
        (f"{PLAIN} required; {PLAIN} required;", "there is more text behind PlainLoginModule"),
    ],
)
def test_mistakes(text: str, problem: str) -> None:
    """A sentence says where the text is wrong. It shows nothing that may be a secret."""
    with pytest.raises(OptionError) as caught:
        parsed(text)

    assert f"option kafka.sasl.jaas.config can't be read: {problem}" in caught.value.message
    assert "hush" not in repr(caught.value) + str(caught.value)


def quoted(text: str) -> str:
    """A text in quotation marks, as Java's users write it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'.replace("\r", "\\r")


@given(st.dictionaries(st.from_regex(r"[a-zA-Z_]{1,8}", fullmatch=True), st.text(max_size=12)))
def test_values_survive(values: dict[str, str]) -> None:
    """Any text in quotation marks arrives as it was written."""
    written = " ".join(f"{name}={quoted(value)}" for name, value in values.items())

    assert values == options(f"{PLAIN} required {written};")


@given(
    st.text(max_size=40) | st.text("\"'\\=; ab/*\n", max_size=40).map(f"{PLAIN} required ".__add__)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text raises anything but OptionError."""
    with suppress(OptionError):
        assert parsed(text).name.endswith("LoginModule")
