"""The commands of docs/how-to/migration.md run as they are written there."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from kfetch.admin import agents, cli
from kfetch.admin.to_connector import to_connector
from tests.kfetch.admin.checkpoints import commit, ours, plan, theirs
from tests.kfetch.wire.little import LittleKafka

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

GUIDE = Path(__file__).parents[4] / "docs/how-to/migration.md"
BLOCKS = re.findall(r"```bash\n(.*?)```", GUIDE.read_text(), re.DOTALL)
COMMANDS = [line.strip() for block in BLOCKS for line in block.splitlines() if line.strip()]


def test_the_commands_of_the_guide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the guide's order, on a query's checkpoint that fits its cluster, each command succeeds.
    The last one has written the connector's offsets."""
    path = tmp_path / "checkpoint"
    monkeypatch.setattr(agents, "find", lambda: [])
    alone = cli.build([])
    monkeypatch.setattr(cli, "command", lambda: alone)
    plan(path, 0, ours(2, epoch=0))
    commit(path, 0)
    with LittleKafka() as kafka:
        kafka.create("other")
        for _ in range(6):  # topic ids are counted, and the checkpoint's is 7
            kafka.create("clicks", 1)[0].append(b"a", b"b")
        for command in COMMANDS:
            words = command.replace("/data/clicks/checkpoint", str(path))
            words = words.replace("localhost:9092", kafka.bootstrap)
            monkeypatch.setattr(sys, "argv", shlex.split(words))
            with pytest.raises(SystemExit) as ended:
                cli.main()
            assert (command, 0) == (command, ended.value.code or 0), capsys.readouterr().err

    assert ["show", "verify", "to-kafka"] == [command.split()[2] for command in COMMANDS]
    assert theirs(2) == (path / "offsets/0").read_text().splitlines()[-1]


def test_the_guide_names_what_the_backup_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backup has the form that the guide says."""
    monkeypatch.setattr(agents, "find", lambda: [])
    path = tmp_path / "checkpoint"
    plan(path, 0, ours(2))
    commit(path, 0)

    backup = to_connector(path).backup

    assert "`<checkpoint>.backups/<time>-to-kafka-…`" in GUIDE.read_text()
    assert backup is not None
    assert re.fullmatch(
        r"checkpoint\.backups/\d{8}T\d{6}Z-to-kafka-\w+", str(backup.relative_to(tmp_path))
    )
