"""The command ``kfetch`` of the distribution kfetch alone, and with verbs of others."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from kfetch.admin import agents, cli
from kfetch.errors import BrokenPlugin
from kfetch.options.catalogue import OPTIONS
from tests.kfetch.admin.cli.conftest import Kfetch
from tests.kfetch.admin.cli.test_text import STATUS
from tests.kfetch.wire.little import LittleKafka


@pytest.fixture
def kafka() -> Iterator[LittleKafka]:
    with LittleKafka() as running:
        running.create("clicks", 2)
        yield running


def test_help_says_what_to_install(kfetch: Kfetch) -> None:
    """Alone, the command has seven verbs, and its help names the distribution that has more."""
    code, out, _ = kfetch("--help")

    assert 0 == code
    assert "kfetch-jobs adds verbs" in " ".join(out.split())
    listed = [line.split()[0] for line in out.partition("Commands:\n")[2].splitlines()]
    assert ["check", "infer", "explain", "options", "agents", "warm", "checkpoint"] == listed


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_an_output_without_some_letters(
    kfetch: Kfetch, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    """A terminal may lack a letter, such as the ellipsis. The text has a question mark there."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    code, _, err = kfetch("check", "--help")
    sys.stdout.flush()

    assert (0, "") == (code, err)
    assert b"[HOST:PORT[," in written.getvalue()


def test_a_verb_of_the_other_distribution_is_named(kfetch: Kfetch) -> None:
    """Alone, an unknown verb says which distribution may have it, and how to install it."""
    code, _, err = kfetch("broker", "start")

    assert 2 == code
    assert "broker may be a verb of kfetch-jobs, which is not installed: pip install" in err


def test_check_takes_options_of_kafka_alone(kfetch: Kfetch) -> None:
    """An option without ``kafka.`` in front is refused: ``check`` reads no records."""
    code, _, err = kfetch("check", "localhost:1", "--option", "subscribe=x")

    assert 2 == code
    assert "'subscribe' does not begin with kafka." in err


@pytest.mark.parametrize(
    ("verb", "names"),
    [
        (("check",), "An option kafka.NAME or kfetch.NAME, such as"),
        (("infer",), "kafka.NAME, kfetch.NAME, schema.registry.NAME, value… or key…, such as"),
        (("checkpoint", "verify"), "An option of the source, such as"),
    ],
)
def test_the_help_of_option_says_which_ones_a_verb_takes(
    kfetch: Kfetch, verb: tuple[str, ...], names: str
) -> None:
    """A verb takes the options that it reads. Its help names the same ones as its error."""
    assert names in " ".join(kfetch(*verb, "--help")[1].split())


@pytest.mark.parametrize("option", ["kfetch.agent=bogus", "kfetch.nonsense=1", "kafka.nonsense=1"])
def test_check_without_servers_refuses_wrong_options(kfetch: Kfetch, option: str) -> None:
    """An unknown option, or a wrong value, is an error even if no cluster is asked."""
    code, out, err = kfetch("check", "--option", option)

    assert (1, "") == (code, out)
    assert err.startswith(f"kfetch: option {option.partition('=')[0]} is ")


def test_secrets_are_no_arguments(kfetch: Kfetch) -> None:
    """An option with a secret is refused, because every user sees a command's arguments."""
    code, out, err = kfetch("check", "localhost:1", "--option", "kafka.sasl.password=hunter2")

    assert 2 == code
    assert "put it into a file for --properties" in " ".join(err.replace("│", "").split())
    assert "hunter2" not in out + err


def test_check_takes_a_file_of_properties(
    kfetch: Kfetch, kafka: LittleKafka, tmp_path: Path
) -> None:
    """The file may name the servers. The command line overrides it."""
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={kafka.bootstrap}\nclient.id=from-file\n")

    assert 0 == kfetch("check", "--properties", str(file))[0]
    file.write_text("bootstrap.servers=127.0.0.1:1\n")
    assert 0 == kfetch("check", kafka.bootstrap, "--properties", str(file))[0]


def test_check_names_options_without_effect(
    kfetch: Kfetch, kafka: LittleKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """A query would log the same warning: the check tells before."""
    option = "kafka.client.dns.lookup=use_all_dns_ips"
    assert 0 == kfetch("check", kafka.bootstrap, "--option", option)[0]
    assert "option kafka.client.dns.lookup has no effect in kfetch" in caplog.text


def test_check_of_a_topic_needs_servers(kfetch: Kfetch, tmp_path: Path) -> None:
    """With a topic and no servers, or with a missing file, the command says what to give."""
    assert "name HOST:PORT, or a file" in kfetch("check", "--topic", "clicks")[2]
    assert (
        f"{tmp_path}/none can't be read: No such"
        in kfetch("check", "--properties", f"{tmp_path}/none")[2]
    )


def test_own_verbs_come_last() -> None:
    """With other distributions there is one help, and kfetch's own verbs close it."""
    command: Any = cli.command()
    names = command.list_commands(None)

    assert {"run", "up", "broker", "offsets"} < {*names}
    assert ["check", "infer", "explain", "options", "agents", "warm", "checkpoint"] == names[-7:]


def test_a_broken_plugin_is_one_sentence() -> None:
    """An entry point that cannot be loaded gives an error with its distribution, no traceback."""
    plugin = EntryPoint(name="x", value="no_such_module_of_kfetch:mount", group="kfetch.verbs")

    with pytest.raises(BrokenPlugin, match=r"cannot load the verbs of no_such_module.*reinstall"):
        cli.build([plugin])


def test_options_are_the_catalogue(kfetch: Kfetch) -> None:
    """``options`` prints each option of the catalogue on a line of its own, or as JSON."""
    code, out, _ = kfetch("options")
    rows = json.loads(kfetch("options", "--json")[1])

    assert (0, len(OPTIONS)) == (code, len(out.splitlines()))
    assert [option.name for option in OPTIONS] == [line.split()[0] for line in out.splitlines()]
    assert [option.name for option in OPTIONS] == [row["name"] for row in rows]
    assert {"name", "default", "treatment", "meaning"} == rows[0].keys()


@pytest.mark.parametrize(
    ("name", "advice"),
    [("zzz", "kfetch options lists all"), ("startngOffsets", "did you mean startingOffsets?")],
)
@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_options_that_nobody_knows(
    kfetch: Kfetch, name: str, advice: str, json_too: list[str]
) -> None:
    """A name that no option has is an error with a suggestion, for scripts too."""
    code, out, said = kfetch("options", name, *json_too)

    assert (1, "") == (code, out)
    assert f"no option has {name!r} in its name: {advice}" in said


@pytest.mark.parametrize("seconds", ["inf", "nan", "-inf", "1e9", "0"])
def test_seconds_that_are_no_time(kfetch: Kfetch, seconds: str) -> None:
    """``agents`` measures over a tenth of a second to an hour. Other numbers are refused."""
    code, _, said = kfetch("agents", "--seconds", seconds)

    assert 2 == code
    assert "--seconds" in said


def test_options_by_name(kfetch: Kfetch) -> None:
    """A part of a name, in any case, selects options; one that no name has is an error."""
    code, out, _ = kfetch("options", "FETCH.MAX")
    names = [line.split()[0] for line in out.splitlines()]

    assert (0, ["kafka.fetch.max.bytes", "kafka.fetch.max.wait.ms"]) == (code, names)
    code, out, said = kfetch("options", "nonsense")
    assert (1, "") == (code, out)
    assert "no option has 'nonsense' in its name" in said


def test_agents(kfetch: Kfetch, monkeypatch: pytest.MonkeyPatch) -> None:
    """``agents`` lists every agent, as lines or as JSON; without any it says who starts them."""
    monkeypatch.setattr(agents, "find", lambda *_: [STATUS])

    assert "agent 9: 2 tasks read" in kfetch("agents", "--seconds", "0.1")[1]
    as_json = kfetch("agents", "--json", "--seconds", "0.1")[1]
    assert [9] == [each["pid"] for each in json.loads(as_json)]
    monkeypatch.setattr(agents, "find", lambda *_: [])
    assert "no agent runs on this machine" in kfetch("agents", "--seconds", "0.1")[1]
    assert [] == json.loads(kfetch("agents", "--json", "--seconds", "0.1")[1])


def test_check(kfetch: Kfetch, kafka: LittleKafka) -> None:
    """A cluster that can be read: its id, versions, brokers and topics, and exit code 0."""
    code, out, said = kfetch("check", kafka.bootstrap, "--topic", "clicks")

    assert (0, "") == (code, said)
    assert f"cluster little, at {kafka.bootstrap}" in out
    assert "  incremental fetch sessions: yes" in out
    assert "topic clicks: 2 partitions, 2 led by broker 1" in out
    assert out.endswith("kfetch can read topic clicks\n")
    assert kfetch("check", kafka.bootstrap)[1].endswith(
        "the connection works; --topic checks a topic, too\n"
    )


def test_check_as_json(kfetch: Kfetch, kafka: LittleKafka) -> None:
    """The same for scripts, with each leader and an empty list of problems."""
    state = json.loads(kfetch("check", kafka.bootstrap, "--topic", "clicks", "--json")[1])

    assert ("little", []) == (state["cluster_id"], state["problems"])
    assert [(1, True)] == [(each["id"], each["reachable"]) for each in state["brokers"]]
    assert {"0": 1, "1": 1} == state["topics"]["clicks"]["leaders"]


def test_check_fails_with_one_sentence(kfetch: Kfetch, kafka: LittleKafka) -> None:
    """A problem that prevents reading is one sentence on stderr, with exit code 1."""
    code, out, said = kfetch("check", kafka.bootstrap, "--topic", "absent")

    assert (1, 1) == (code, len(said.splitlines()))
    assert "topic absent does not exist: create it, or check its name" in said
    assert "topic absent: does not exist" in out
    assert "can read" not in out


def test_check_takes_other_options(kfetch: Kfetch, kafka: LittleKafka) -> None:
    """``--option`` sets an option of the source; one that it can't use is its own error."""
    assert 0 == kfetch("check", kafka.bootstrap, "--option", "kafka.client.id=me")[0]

    code, _, said = kfetch("check", kafka.bootstrap, "--option", "kafka.security.protocol=TLS")
    assert (1, True) == (code, "must be one of PLAINTEXT, SSL" in said)
    code, _, said = kfetch("check", kafka.bootstrap, "--option", "kafka.security.protocol=SSL")
    assert (1, True) == (code, "is a Kafka listener without TLS" in said)
    code, _, said = kfetch("check", kafka.bootstrap, "--option", "nonsense")
    assert (2, True) == (code, "is not NAME=VALUE" in said)
