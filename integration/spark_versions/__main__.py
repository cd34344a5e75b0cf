"""The tests of each feature with each version of Spark, and a table: ``make sparks``.

    python -m integration.spark_versions [--versions 4.0.5,4.3.0] [--only limits,batch] [--short]
        [--processes N] [--setup]

Each version has an environment and a run of pytest of its own, beside the connector of that
version. A cell is ``pass``, ``fail`` with numbers, or ``none``. A note has the reasons of tests
that did not run. The output is in
``.venv/sparks/<version>.log``. Exits with 1 if a test failed. ``--versions ends`` is the oldest and
the newest one. ``--processes N`` runs N versions side by side. ``--setup`` makes the environments,
and runs no test.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from integration.benchmarks.peer import connector_version
from integration.spark_versions.choice import FAILED, PASSED
from integration.spark_versions.environments import ROOT, python
from integration.spark_versions.features import FEATURES, FeatureRow
from integration.sparks import VERSIONS

_ENDS = [VERSIONS[0], VERSIONS[-1]]
_LOGS = ROOT / ".venv" / "sparks"
Results = dict[str, dict[str, int]]
"""How often each outcome or reason came, by the feature's key."""


def main() -> None:
    """Run the tests, print the table, and exit."""
    chosen = _arguments()
    features = [one for one in FEATURES if not chosen.only or one.key in chosen.only.split(",")]
    features = [one for one in features if one.short or not chosen.short]
    versions = _ENDS if chosen.versions == "ends" else chosen.versions.split(",")
    if chosen.setup:
        print("\n".join(str(python(version)) for version in versions))
        return
    with ThreadPoolExecutor(chosen.processes) as pool:
        ran = pool.map(lambda version: _run(version, features, chosen.short), versions)
        results = dict(zip(versions, ran, strict=True))
    print("\n".join(table(results, features)))
    cells = [cell(results[version].get(one.key, {})) for version in versions for one in features]
    sys.exit(1 if any(text.startswith("fail") for text in cells) else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--versions", default=",".join(VERSIONS), help="versions of pyspark")
    keys = ", ".join(one.key for one in FEATURES)
    parser.add_argument("--only", default="", help=f"features: {keys}")
    parser.add_argument("--short", action="store_true", help="a few tests of each feature")
    parser.add_argument("--processes", type=int, default=1, help="versions side by side")
    parser.add_argument("--setup", action="store_true", help="only make the environments")
    return parser.parse_args()


def _run(version: str, features: Sequence[FeatureRow], short: bool) -> Results:
    interpreter = python(version)
    _LOGS.mkdir(parents=True, exist_ok=True)
    began, path = time.monotonic(), _LOGS / f"{version}.log"
    with path.open("wb") as log, TemporaryDirectory() as directory:
        results = Path(directory, "results.json")
        ended = subprocess.run(
            [str(interpreter), *_words(features, results, short)],
            cwd=ROOT,
            env=os.environ | {"PATH": f"{interpreter.parent}:{os.environ['PATH']}"},
            stdout=log,
            stderr=log,
            check=False,
        )
        text = results.read_text() if results.exists() else ""
    line = path.read_text(errors="replace").strip().splitlines()[-1:]
    seconds = time.monotonic() - began
    print(f"Spark {version}: {seconds:.0f} s, {line[0] if line else ''}", file=sys.stderr)
    if text and ended.returncode in (0, 1):  # pytest's own codes for passed and failed
        return dict(json.loads(text))
    return {one.key: {FAILED: 1} for one in features}


def _words(features: Sequence[FeatureRow], results: Path, short: bool) -> list[str]:
    files = dict.fromkeys(file for one in features for file in one.files(short))
    words = ["-m", "pytest", "-q", "-p", "integration.spark_versions.choice", *files]
    words += ["-p", "no:randomly", "--results", str(results)]
    words += ["--features", ",".join(one.key for one in features)]
    words += ["-W", "default"]  # other versions of pyspark warn of other things
    return [*words, "--short"] if short else words


def table(results: dict[str, Results], features: Sequence[FeatureRow]) -> list[str]:
    """Returns the lines of a table: a row for each feature, and a column for each version."""
    rows = [["pyspark", *results], ["beside the connector", *map(connector_version, results)]]
    notes: list[str] = []
    for one in features:
        cells = [cell(found.get(one.key, {})) for found in results.values()]
        rows.append([one.title, *(_short(text, notes) for text in cells)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return lines + [f"({number}) {note}" for number, note in enumerate(notes, 1)]


def _short(text: str, notes: list[str]) -> str:
    """Returns a cell's first word. Its reasons become a note below the table."""
    word, _, reasons = text.partition(": ")
    if not reasons:
        return text
    if reasons not in notes:
        notes.append(reasons)
    return f"{word} ({notes.index(reasons) + 1})"


def cell(outcomes: dict[str, int]) -> str:
    """Returns what became of a feature's tests."""
    failed, passed = outcomes.get(FAILED, 0), outcomes.get(PASSED, 0)
    reasons = [reason for reason in outcomes if reason not in (FAILED, PASSED)]
    word = f"fail {failed} of {failed + passed}" if failed else "pass" if passed else "none"
    return f"{word}: {'; '.join(reasons)}" if reasons else word


if __name__ == "__main__":
    main()
