"""The files of a job as they were validated, for its runs until somebody starts it anew.

The supervisor writes them beside the job's log before each run. They are the texts of the job's and
the project's files with their placeholders. A run fills ``${env:…}`` and ``${file:…}`` by itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from kfetch_jobs.config.job import Job
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.util.files import write_json


def snapshot_path(directory: Path) -> Path:
    """Returns the path of the copies in a job's directory."""
    return directory / "validated-files.json"


def write_snapshot(job: Job, run: int) -> None:
    """Write the texts of the job's files for a run. Only their owner may read them.

    Raises OSError.
    """
    job.directory.mkdir(parents=True, exist_ok=True)
    texts = {str(document.path): document.text for document in job.documents}
    write_json(snapshot_path(job.directory), {"run": run, "files": texts})


def read_snapshot(path: Path, run: int | None = None) -> Mapping[Path, str]:
    """Returns the texts by the paths of the files.

    Raises ConfigError if there are none, or if they are of another run than ``run``.
    """
    try:
        content = json.loads(path.read_text())
        if run not in (None, content["run"]):
            raise ValueError("another run")
        return {Path(name): str(text) for name, text in content["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as cause:
        raise ConfigError(
            f"{path} cannot be read ({type(cause).__name__}): kfetch start writes it again"
        ) from cause


def changed_files(job: Job) -> list[Path]:
    """Returns the files of the job that have another text by now, or are gone."""
    return [
        document.path for document in job.documents if not _is_same(document.path, document.text)
    ]


def _is_same(path: Path, text: str) -> bool:
    try:
        return path.read_bytes() == text.encode()
    except OSError:
        return False
