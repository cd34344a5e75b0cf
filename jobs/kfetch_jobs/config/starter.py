"""A new project: the files of ``jobs/starter``, with schemas for editors."""

from __future__ import annotations

import json
from pathlib import Path

from kfetch_jobs.config.schema import KINDS, schema
from kfetch_jobs.config.yamlfile import display
from kfetch_jobs.errors import ConfigError

__all__ = ["create_project", "write_schemas"]

_STARTER = Path(__file__).resolve().parents[1] / "starter"


def create_project(directory: Path) -> list[Path]:
    """Write a working project; a file that is there already is an error, and nothing is written."""
    files = {
        directory / _name(path): path.read_text()
        for path in sorted(_STARTER.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    there = [path for path in files if path.exists()]
    if there:
        raise ConfigError(
            f"{display(there[0])} is there already: name a directory without a project"
        )
    for path, text in files.items():
        _write(path, text)
    return [*files, *write_schemas(directory / "schema")]


def _name(path: Path) -> Path:
    # A real .gitignore would count in kfetch's own repository.
    inside = path.relative_to(_STARTER)
    return Path(".gitignore") if inside.name == "gitignore" else inside


def write_schemas(directory: Path) -> list[Path]:
    """One file for each kind of YAML file."""
    paths = []
    for kind in KINDS:
        path = directory / f"{kind}.json"
        _write(path, json.dumps(schema(kind), indent=2) + "\n")
        paths.append(path)
    return paths


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as cause:
        raise ConfigError(f"{path} cannot be written: {cause.strerror}") from cause
