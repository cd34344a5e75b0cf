"""A worker that reads one split through its executor's agent, once or until it is killed.

``python -m integration.agent.looping_worker SPLIT OWNER [forever]``: SPLIT is a file with a pickled
split and its options, OWNER is the executor's PID:START. Each read prints its number of records, or
its error with the code first.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from kfetch.agent import client
from kfetch.agent.home import ProcessIdentity
from kfetch.errors import KfetchError
from kfetch.model import Split
from kfetch.options import SourceOptions


def read(split: Split, options: SourceOptions) -> str:
    """Returns the number of records, or the code of a kfetch error. Raises every other one."""
    try:
        return str(sum(batch.num_rows for batch in client.read(split, options)))
    except KfetchError as error:
        return f"{error.condition}: {error}"


def main() -> None:
    """Read once, or until somebody kills this process."""
    path, owner, *forever = sys.argv[1:]
    split, options = pickle.loads(Path(path).read_bytes())
    client.find_owner = lambda: ProcessIdentity.parse(owner)
    print(read(split, options), flush=True)
    while forever:
        print(read(split, options), flush=True)


if __name__ == "__main__":
    main()
