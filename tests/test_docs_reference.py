"""The generated parts of docs/ are what the code makes now."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tools import pictures, plot, reference
from tools.reference import DOCS, PARTS

ADVICE = "run python -m tools.reference"


@pytest.mark.parametrize(
    ("page", "name", "content"), PARTS, ids=[f"{page}:{name}" for page, name, _ in PARTS]
)
def test_a_part_is_current(page: str, name: str, content: Callable[[], str]) -> None:
    """The part of the page is what ``python -m tools.reference`` writes."""
    text = (DOCS / page).read_text()

    assert reference.filled(text, name, content()) == text, ADVICE


def test_every_error_has_a_page() -> None:
    """docs/how-to/errors/ has a page for each class of errors, as ``kfetch explain`` prints it."""
    written = {path.name: path.read_text() for path in (DOCS / "how-to/errors").glob("*.md")}

    assert reference.error_pages() == written, ADVICE


def test_the_site_lists_every_error() -> None:
    """The navigation names each page of an error. Other pages would have no navigation."""
    listed = re.findall(r'"how-to/errors/(.*)"', (DOCS.parent / "zensical.toml").read_text())

    assert sorted(reference.error_pages()) == listed


def test_a_page_of_an_error_has_three_parts() -> None:
    """Each page says what happened, how to look, and what to do."""
    parts = ["What happened", "How to look", "What to do", "For programs"]

    for name, text in reference.error_pages().items():
        assert parts == re.findall(r"(?m)^## (.*)$", text), name


def test_the_picture_of_figures_is_current() -> None:
    """docs/images/figures.svg shows the figures of docs/explanation/figures.md."""
    assert plot.drawn() == plot.PICTURE.read_text(), "run python -m tools.plot"


@pytest.mark.parametrize("name", pictures.drawn())
def test_a_picture_is_current(name: str) -> None:
    """The pictures of docs/explanation/ are what ``python -m tools.pictures`` draws."""
    assert pictures.drawn()[name] == (pictures.FOLDER / name).read_text(), (
        "run python -m tools.pictures"
    )


def test_a_page_without_the_part_is_an_error() -> None:
    """A page must have both marks of a part, so no part is dropped silently."""
    with pytest.raises(ValueError, match="lacks <!-- options -->"):
        reference.filled("# Options\n", "options", "text")
