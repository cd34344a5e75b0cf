"""Options of a source on the command line, and what errors about them show."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from kfetch.admin.cli.source_options import CONNECTIONS, cluster_options, source_options


@pytest.mark.parametrize(
    "name",
    [
        "kafka.sasl.jaas.config",
        "kafka.sasl.password",
        "KAFKA.SASL.PASSWORD",
        "kafka.ssl.keystore.password",
        "kafka.ssl.keystore.key",
        "kafka.sasl.oauthbearer.client.credentials.client.secret",
        "kafka.sasl.oauthbearer.token.endpoint.url",
    ],
)
def test_secrets(name: str) -> None:
    """An option with a secret is refused. The error has its name and not its value."""
    with pytest.raises(typer.BadParameter, match="a file for --properties") as refused:
        source_options(None, [f"{name}=hunter2"])

    assert repr(name) in refused.value.message
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hunter2", "a value is not NAME=VALUE"),
        ("kafka.sasl.password hunter2", "a value is not NAME=VALUE"),
        ("kafka.sasl.password hunter2=", "a name may be secret"),
        ("kafka.sasl.password:hunter2==", "a name may be secret"),
        ("hunter2==", "a name does not begin with kafka. or kfetch."),
        ("subscribe=x", "'subscribe' does not begin with kafka. or kfetch."),
        ("fetch.min.bytes=1", "'fetch.min.bytes' does not begin with kafka. or kfetch."),
    ],
)
def test_no_error_shows_a_password(text: str, sentence: str) -> None:
    """A text in the wrong form may be a password, so only names of options are shown."""
    with pytest.raises(typer.BadParameter) as refused:
        source_options(None, [text], prefixes=CONNECTIONS)

    assert refused.value.message.startswith(sentence)
    assert "hunter2" not in refused.value.message


def test_the_command_line_overrides_the_file(tmp_path: Path) -> None:
    """Names of the file get ``kafka.`` in front. Options of subscriptions come as arguments."""
    file = tmp_path / "client.properties"
    file.write_text("client.id=a\nsasl.password=b c\nkfetch.agent=inline\n")

    assert {
        "kafka.client.id": "x=y",
        "kafka.sasl.password": "b c",
        "kfetch.agent": "inline",
        "subscribe": "t",
    } == source_options(file, ["kafka.client.id = x=y", "subscribe=t"])


def test_the_case_of_a_name() -> None:
    """Names have no case, as in Spark: a command finds the servers, however they are written."""
    servers = ["Kafka.Bootstrap.Servers=h:1"]

    assert {"kafka.bootstrap.servers": "h:1"} == cluster_options("", None, servers)
