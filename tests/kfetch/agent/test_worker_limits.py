"""A worker that may open few files: it reads all records, or its error says what is missing."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

from kfetch.agent.home import AgentFiles, ProcessIdentity
from kfetch.model import Split
from tests.kfetch.agent.agent_process import MEMORY, agents_of, connect
from tests.kfetch.agent.helpers import BATCHES, T0, options, part
from tests.kfetch.wire.little import LittleKafka

_WORKER = """if True:
    import os, pickle, resource, sys
    from kfetch.agent import client
    from kfetch.agent.home import ProcessIdentity
    from kfetch.errors import KfetchError

    def rows(split, options):
        try:
            return str(sum(batch.num_rows for batch in client.read(split, options)))
        except KfetchError as error:
            return str(error)

    def read_with(free):
        held = [os.open(os.devnull, os.O_RDONLY) for _ in range(200)]
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(held) + 1, limits[1]))
        for descriptor in held[:free]:
            os.close(descriptor)
        print(rows(split, options), flush=True)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        print(rows(split, options), flush=True)

    path, owner, *free = sys.argv[1:]
    split, options = pickle.loads(open(path, "rb").read())
    client.find_owner = lambda: ProcessIdentity.parse(owner)
    client._stream_id()  # imports what it needs
    for number in free:
        if os.fork() == 0:
            read_with(int(number))
            os._exit(0)
        os.wait()
"""


def test_a_worker_with_few_free_descriptors(
    kafka: LittleKafka, files: AgentFiles, owner: ProcessIdentity, tmp_path: Path
) -> None:
    """A worker needs a descriptor for its agent's socket, and two while it maps a segment.

    Without one of them it raises an AgentError with advice. Later it reads all records."""
    connect(files, owner).close()
    split = Split(query="q", ranges=(part(kafka, T0),))
    agent_options = options(kafka, kfetch__agent__memory=str(MEMORY))
    (tmp_path / "split").write_bytes(pickle.dumps((split, agent_options)))
    free = (0, 1, 2, 4)
    lines = subprocess.check_output(
        [sys.executable, "-c", _WORKER, str(tmp_path / "split"), str(owner), *map(str, free)],
        text=True,
        timeout=60,
    ).splitlines()

    advice = "raise the executor's limits of open files and memory, or set kfetch.agent=inline"
    first, later = lines[::2], lines[1::2]
    assert [True, True, True, False] == [line.endswith(f"{advice} [AGENT_ERROR]") for line in first]
    assert [str(2 * BATCHES)] * 5 == [first[-1], *later]
    assert 1 == len(agents_of(owner))
