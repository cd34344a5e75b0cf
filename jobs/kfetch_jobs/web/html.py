"""Renders the templates. It escapes every value, and a missing name is an error."""

from __future__ import annotations

import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from kfetch import __version__
from kfetch.admin import explanations
from kfetch.errors import OptionError
from kfetch_jobs.config.project import is_job_name
from kfetch_jobs.util.wording import counted
from kfetch_jobs.web import drawing, job_status, units

_CODE = re.compile(r"\[([A-Z]+(?:[_.][A-Z]+)+)\]")


def _coded(text: str) -> Markup:
    """Returns a text in which each code of an error links to its explanation."""
    return Markup(_CODE.sub(_link, escape(text)))  # noqa: S704 - escaped


def _link(found: re.Match[str]) -> str:
    try:
        explanations.code_classes(found[1])
    except OptionError:
        return found[0]
    return f'[<a href="/explain/{found[1]}">{found[1]}</a>]'


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("kfetch_jobs.web"),
        autoescape=True,  # for every file name: texts come from other people
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "ago": units.ago,
        "clock": units.clock,
        "coded": _coded,
        "count": units.count,
        "duration": units.duration,
        "lasting": units.lasting,
        "per_second": units.per_second,
        "size": units.size,
        "until": units.until,
    }
    environment.tests["linkable"] = is_job_name
    environment.globals |= {
        "counted": counted,
        "drawing": drawing,
        "tone_of_run": job_status.tone_of_run,
        "version": __version__,
    }
    return environment


_TEMPLATES = _environment()


class _Response(HTMLResponse):
    """A file name, and an error about it, may have bytes that are not UTF-8."""

    def render(self, content: Any) -> bytes:
        return str(content).encode(errors="backslashreplace")


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Returns a rendered template."""
    return _Response(_TEMPLATES.get_template(template).render(values), status)
