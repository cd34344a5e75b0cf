"""What the page is made of is in a wheel, and what others wrote is what they published."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[3] / "jobs"
STATIC = ROOT / "kfetch_jobs" / "web" / "static"
TEMPLATES = ROOT / "kfetch_jobs" / "web" / "templates"


def test_a_wheel_has_all_of_it() -> None:
    """The wheel has every template, script, style and licence."""
    packed = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    needed = {
        str(path.relative_to(ROOT)) for path in [*STATIC.iterdir(), *TEMPLATES.glob("*.html")]
    }

    assert len(needed) > 15
    assert set() == needed - packed


def test_files_of_others_are_unchanged() -> None:
    """VENDORED.md lists each minified file with its package and its right SHA-256."""
    text = (STATIC / "VENDORED.md").read_text()
    told = dict(re.findall(r"^\| `(\S+)` .* `([0-9a-f]{64})` \|$", text, re.MULTILINE))
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in STATIC.glob("*.min.*")
    }

    assert found == told


def test_the_page_loads_what_there_is() -> None:
    """Every static file that a template or style names exists, and there is no other."""
    texts = "".join(path.read_text() for path in [*TEMPLATES.glob("*.html"), STATIC / "live.js"])
    named = set(re.findall(r"/static/([\w.-]+)", texts.replace("icon-${tone}", "icon-good")))
    known = {path.name for path in STATIC.iterdir()}

    assert set() == named - known
    assert {"VENDORED.md", "htmx-LICENSE", "icon-bad.svg", "icon-warn.svg", "uPlot-LICENSE"} == (
        known - named
    )
