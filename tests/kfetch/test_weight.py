"""What importing costs: Spark imports the worker's half in every Python worker, and the first
micro-batch of a query waits for every import of the driver's half and the agent."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection

import pytest

HEAVY = ("numba", "numpy", "kafka", "pyarrow", "pydantic", "kfetch.wire")
HEAVY += ("kfetch.agent", "kfetch.records", "socket")
# kafka-python's clients, and what only administrators send
CLIENTS = ("kafka.admin", "kafka.consumer", "kafka.producer", "kafka.protocol.admin")


@pytest.mark.parametrize(
    "imports",
    [
        {
            "kfetch": HEAVY,
            "kfetch.spark.worker": HEAVY,
            "kfetch.admin.query": HEAVY,
            "kfetch.admin.decoder": HEAVY,
            "kfetch.admin.cli.verbs": {*HEAVY} - {"socket"},
            "kfetch.admin.sources": {*HEAVY} - {"socket"},
            "kfetch.admin.brokers": {*HEAVY} - {"socket"},
            "kfetch.admin.agents": {"numba", "kafka", "pyarrow", "pyspark"},
            "kfetch.watch.driver": {"numba", "pyarrow", "pyspark"},
        },
        {
            # pyspark itself brings numpy, pyarrow and socket along.
            "pyspark_kfetch": {*HEAVY} - {"numpy", "pyarrow", "socket"},
            "kfetch.delta": {"deltalake", "numba", "kafka", "kfetch.agent", "kfetch.fetch"},
        },
        {"kfetch.agent.__main__": {*CLIENTS, "numba", "llvmlite", "crc32c", "pyspark"}},
    ],
)
def test_import_is_light(imports: dict[str, Collection[str]]) -> None:
    """A fresh interpreter that imports the modules, one after the other, has behind each of them
    loaded nothing that can wait."""
    code = f"import importlib, sys\nfor module, heavy in {imports!r}.items():\n"
    code += "    importlib.import_module(module)\n"
    code += "    print(*(f'{module} loads {m}' for m in heavy if m in sys.modules))"

    assert "" == output_of(code).strip()


def test_the_help_is_light() -> None:
    """The whole command line, with the verbs of every distribution, loads nothing that only a verb
    needs."""
    heavy = ("numba", "kafka", "pyarrow", "pydantic", "pyspark", "kfetch.admin.query")
    code = "import sys; from kfetch.admin.cli import command; command()\n"
    code += f"print(*(m for m in {heavy!r} if m in sys.modules))"

    assert [] == output_of(code).split()


def test_a_planning_process_does_without_clients() -> None:
    """What the driver's source process imports once clients are deferred has none of them."""
    code = "import sys, kfetch.wire.lean\nkfetch.wire.lean.defer_clients()\n"
    code += "import kfetch.watch.driver\n"
    code += f"print(*(m for m in {CLIENTS!r} if m in sys.modules))"

    assert [] == output_of(code).split()


def test_deferring_keeps_a_package_that_is_there() -> None:
    """A process that has imported kafka-python keeps all of it."""
    code = "import kafka, kfetch.wire.lean\nkfetch.wire.lean.defer_clients()\n"
    code += "import kfetch.wire.messages, kafka.errors\n"
    code += "from kafka import KafkaAdminClient\n"
    code += "print(kafka.KafkaConsumer.__name__, KafkaAdminClient.__name__, kafka.__title__)"

    assert "KafkaConsumer KafkaAdminClient kafka" == " ".join(output_of(code).split())


FIRST_BATCH = """
import sys
from kfetch.agent.segments import stream_size
from kfetch.decoding import decode_part
from tests.kfetch.records.batch_builder import batch, make_slice, record

arrow_batch, _ = decode_part([make_slice(batch(record()))])
assert 1 == arrow_batch.num_rows and stream_size(arrow_batch)
print("pandas" in sys.modules)
"""


def test_the_first_batch_imports_no_pandas() -> None:
    """Decoding a batch and sizing its segment do without pandas. The agent has no use for pandas,
    which takes a second to import where it is installed."""
    assert "False\n" == output_of(FIRST_BATCH)


def output_of(code: str) -> str:
    """What a fresh interpreter prints."""
    without_garbage = f"import gc; gc.disable()\n{code}"  # imports leave none, and it takes a sixth
    command = [sys.executable, "-W", "ignore", "-c", without_garbage]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert ("", 0) == (ran.stderr, ran.returncode)
    return ran.stdout
