"""kfetch against the connector, with each version of Spark: a backlog of bytes, and one of JSON.

    python -m integration.benchmarks.versions [--versions 4.0.5,4.3.0] [--only drain|typed]
        [--records N] [--runs N]

Each version has an environment of its own (``integration.spark_versions``), and its connector. Both
sources take turns in one session, as in ``drain`` and ``typed``. A line has the ratio of the
medians, and the smallest and largest ratio of two runs that followed each other. Ratios of
different versions may be compared. Their times may not, because the runs are minutes apart.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
from typing import Any

from integration.benchmarks.peer import connector_version
from integration.spark_versions.environments import ROOT, python
from integration.sparks import VERSIONS

BENCHMARKS = {"drain": 4_000_000, "typed": 3_000_000}
"""With their numbers of records. Seven runs with each of five versions take some 12 minutes."""


def measure(version: str, name: str, records: int, runs: int) -> dict[str, list[float]]:
    """Returns the seconds of each run of both sources: ``kfetch`` and ``connector``."""
    words = ["--records", str(records), "--runs", str(runs), "--json"]
    words += ["--pair"] if name == "typed" else []
    interpreter = python(version)
    done = subprocess.run(
        [str(interpreter), "-m", f"integration.benchmarks.{name}", *words],
        cwd=ROOT,
        env=os.environ | {"PATH": f"{interpreter.parent}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return _of_drain(found) if name == "drain" else _of_typed(found)


def _of_drain(found: dict[str, Any]) -> dict[str, list[float]]:
    sources = {"kfetch": "kfetch", "kafka": "connector"}
    return {
        title: [run["seconds"] for run in found["runs"] if run["source"] == source]
        for source, title in sources.items()
    }


def _of_typed(found: dict[str, Any]) -> dict[str, list[float]]:
    return {name.split()[0]: [run["batches"] for run in runs] for name, runs in found.items()}


def line(version: str, name: str, seconds: dict[str, list[float]]) -> str:
    """Returns one line of the table."""
    ours, theirs = seconds["kfetch"], seconds["connector"]
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    middle = statistics.median(theirs) / statistics.median(ours)
    return (
        f"{version:8} {name:6} connector {connector_version(version)} "
        f"{statistics.median(theirs):6.2f} s, kfetch {statistics.median(ours):6.2f} s: "
        f"x {middle:.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {len(ours)} runs)"
    )


def main() -> None:
    """Run the benchmarks, and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--versions", default=",".join(VERSIONS))
    parser.add_argument("--only", choices=sorted(BENCHMARKS))
    parser.add_argument("--records", type=int, help="default: 4,000,000 and 3,000,000")
    parser.add_argument("--runs", type=int, default=7, help="counted runs of each source")
    chosen = parser.parse_args()
    for version in chosen.versions.split(","):
        for name, records in BENCHMARKS.items():
            if chosen.only in (None, name):
                seconds = measure(version, name, chosen.records or records, chosen.runs)
                print(line(version, name, seconds), flush=True)


if __name__ == "__main__":
    main()
