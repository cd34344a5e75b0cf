"""JSON Schema of the three kinds of file. Editors complete and check YAML with it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from kfetch_jobs.config.models import EnvironmentFile, JobFile, ProjectFile

__all__ = ["KINDS", "schema"]

KINDS: dict[str, type[BaseModel]] = {
    "project": ProjectFile,
    "job": JobFile,
    "environment": EnvironmentFile,
}


def schema(kind: str) -> dict[str, Any]:
    """Return the schema of ``project``, ``job`` or ``environment``: draft 2020-12."""
    model = KINDS[kind]
    generated = model.model_json_schema(mode="validation")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"kfetch: {kind}",
        **{key: value for key, value in generated.items() if key != "title"},
    }
