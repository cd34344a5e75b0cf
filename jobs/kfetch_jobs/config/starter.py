"""Writes a new project: the files of the folder ``starter``, and schemas for editors."""

from __future__ import annotations

import json
from pathlib import Path

from kfetch_jobs.config.schema import KINDS, schema
from kfetch_jobs.config.yamlfile import display
from kfetch_jobs.errors import ConfigError

_STARTER = Path(__file__).resolve().parents[1] / "starter"


def create_project(directory: Path) -> list[Path]:
    """Write a working project, and return its files.

    Raises ConfigError before it writes anything if one of the files exists.
    """
    files = {
        directory / _name(path): path.read_text()
        for path in sorted(_STARTER.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    existing = [path for path in files if path.exists()]
    if existing:
        raise ConfigError(
            f"{display(existing[0])} is there already: name a directory without a project"
        )
    for path, text in files.items():
        _write(path, text)
    return [*files, *write_schemas(directory / "schema")]


def _name(path: Path) -> Path:
    # A file named .gitignore would take effect in kfetch's own repository.
    inside = path.relative_to(_STARTER)
    return Path(".gitignore") if inside.name == "gitignore" else inside


def write_schemas(directory: Path) -> list[Path]:
    """Write a schema for each kind of YAML file, and return their paths."""
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
