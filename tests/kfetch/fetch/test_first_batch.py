"""What the first batch of a new agent costs: the first micro-batch of a new query waits for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

FIRST_BATCH = """
import sys
from kfetch.agent.segments import stream_size
from kfetch.decoding import decode
from tests.kfetch.records.batch_builder import batch, make_slice, record

made = decode([make_slice(batch(record()))])
assert 1 == made.num_rows and stream_size(made)
print("pandas" in sys.modules)
"""


def test_decoding_imports_no_pandas() -> None:
    """A batch is decoded and laid out for shared memory without pandas, which the agent has no use
    for and which takes a second to import where it is installed."""
    command = [sys.executable, "-W", "ignore", "-c", FIRST_BATCH]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)

    assert ("False\n", "") == (ran.stdout, ran.stderr)
