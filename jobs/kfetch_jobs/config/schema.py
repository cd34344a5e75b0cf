"""JSON Schema of the three kinds of file. Editors complete and check YAML with it."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from kfetch_jobs.config.field_types import DURATION_PATTERN
from kfetch_jobs.config.models import EnvironmentFile, JobFile, ProjectFile

KINDS: dict[str, type[BaseModel]] = {
    "project": ProjectFile,
    "job": JobFile,
    "environment": EnvironmentFile,
}


class _Generator(GenerateJsonSchema):
    """Writes defaults as a file has them, and no titles: an editor shows the key's own name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Returns false: pydantic would make ``Lagrecords`` of ``lagRecords``."""
        return False

    def default_schema(self, schema: Any) -> dict[str, Any]:
        """Returns the schema of a key with a default: a duration has its unit."""
        generated = super().default_schema(schema)
        default = generated.get("default")
        if generated.get("pattern") == DURATION_PATTERN and isinstance(default, float):
            generated["default"] = f"{default:g} seconds"
        return generated


def schema(kind: str) -> dict[str, Any]:
    """Returns the schema of ``project``, ``job`` or ``environment``: draft 2020-12."""
    model = KINDS[kind]
    generated = model.model_json_schema(mode="validation", schema_generator=_Generator)
    # Editors show descriptions as Markdown.
    generated = json.loads(json.dumps(generated).replace("``", "`"))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"kfetch: {kind}",
        **{key: value for key, value in generated.items() if key != "title"},
    }
