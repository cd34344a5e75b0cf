"""HTML from the templates: everything is escaped, and a name that is missing is an error."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from kfetch._version import __version__
from kfetch_jobs.config.project import can_name
from kfetch_jobs.web import drawing, job_status, units

__all__ = ["page"]


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("kfetch_jobs.web"),
        autoescape=True,  # whatever the template's name: texts are other people's
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "ago": units.ago,
        "clock": units.clock,
        "count": units.count,
        "duration": units.duration,
        "per_second": units.per_second,
        "size": units.size,
        "until": units.until,
    }
    made.tests["linkable"] = can_name
    made.globals |= {
        "drawing": drawing,
        "plural": units.plural,
        "tone_of_run": job_status.tone_of_run,
        "version": __version__,
    }
    return made


_TEMPLATES = _environment()


class _Response(HTMLResponse):
    """A file's name, and what an error says of it, may have bytes that are no UTF-8."""

    def render(self, content: Any) -> bytes:
        return str(content).encode(errors="backslashreplace")


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A template with its values."""
    return _Response(_TEMPLATES.get_template(template).render(values), status)
