"""The documentation is true: its code runs, its generated parts are current."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from integration.brokers import versions
from kfetch.admin import explanations
from kfetch.session.replies import TOPIC_ID_VERSION
from kfetch.watch.watch import CHECKED_EPOCHS_VERSION
from kfetch.wire import messages
from kfetch.wire.fetch import SESSION_VERSION

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
RECORDS = sorted((DOCS / "decisions").glob("[0-9]*.md"))
PAGES = [str(page.relative_to(ROOT)) for page in (*ROOT.glob("*.md"), *DOCS.rglob("*.md"))]


def test_the_session_example_runs() -> None:
    """The example in docs/explanation/fetch-sessions.md prints what it says."""
    text = (DOCS / "explanation/fetch-sessions.md").read_text()
    example = doctest.DocTestParser().get_doctest(text, {}, "fetch-sessions.md", None, 0)
    runner = doctest.DocTestRunner()
    runner.run(example)

    assert len(example.examples) > 5
    assert 0 == runner.failures


def test_features_of_brokers_begin_where_kfetch_uses_them() -> None:
    """The table's features have the lowest versions that kfetch's requests look at."""
    assert SESSION_VERSION == versions.SESSIONS.since
    assert CHECKED_EPOCHS_VERSION == versions.CHECKED_EPOCHS.since
    assert TOPIC_ID_VERSION == versions.FETCHED_IDS.since
    assert messages._OPERATIONS_IN_METADATA == versions.CHECKED_OPERATIONS.since
    assert messages._EPOCHS_IN_METADATA == versions.RELIABLE_EPOCHS.since
    assert messages._ERROR_IN_METADATA == versions.REBOOTSTRAP.since


def test_an_error_says_what_it_means_and_what_to_do() -> None:
    """A class has two paragraphs of its own, of sentences."""
    for kind in explanations.classes():
        meaning, action, *_ = (vars(kind)["__doc__"] or "").split("\n\n")

        assert meaning.rstrip().endswith("."), kind
        assert action.rstrip().endswith("."), kind


def test_quickstart_is_two_commands() -> None:
    """README's Quickstart has exactly two fenced commands: make demo and make test."""
    quickstart = (ROOT / "README.md").read_text().split("## Quickstart")[1].split("\n## ")[0]

    assert ["make demo", "make test"] == re.findall(r"```\n(.*?)\n```", quickstart, re.DOTALL)


def test_links_lead_somewhere() -> None:
    """Every relative link names a file that exists, seen from its page's folder.

    A page of the site links only to files of the site. It names others in back-quotes.
    """
    for path in (ROOT / page for page in PAGES):
        targets = [
            (path.parent / target).resolve()
            for target in re.findall(r"\]\((?!http|#)([^)#]+)", path.read_text())
        ]

        assert [] == [target for target in targets if not target.exists()], path
        if path.is_relative_to(DOCS):
            assert [] == [one for one in targets if not one.is_relative_to(DOCS)], path


def test_code_in_lists_is_indented_by_four_spaces() -> None:
    """The site needs four spaces. With fewer it shows the marks of the block."""
    for page in PAGES:
        assert [] == re.findall(r"(?m)^ {1,3}```.*$", (ROOT / page).read_text()), page


def test_named_files_exist() -> None:
    """Every Python file that a page names in back-quotes exists."""
    assert {} == {page: names for page in PAGES if (names := missing_files(page))}


def missing_files(page: str) -> list[str]:
    """The Python files that a page names and that do not exist.

    A page may say "Paths are below `folder/`". Then its short names count from there too.
    """
    text = (ROOT / page).read_text()
    folders = [ROOT, *(ROOT / name for name in re.findall(r"[Pp]aths are below\s`([\w/]+)`", text))]
    named = re.findall(r"`((?:spark_source|jobs|tests)/[\w/]+\.py)`", text)
    if len(folders) > 1:
        named = re.findall(r"`([\w/]+\.py)`", text)

    return [name for name in named if not any((at / name).exists() for at in folders)]


def test_architecture_fits_on_two_screens() -> None:
    """ARCHITECTURE.md has 110 lines at most: details have pages of their own in docs/."""
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 110


def test_records_have_one_form() -> None:
    """A record has its number, title, date and status, then context, decision and figure."""
    for record in RECORDS:
        title = rf"# {int(record.name[:4])}\. .+\n\n"
        state = r"- Date: \d{4}-\d\d-\d\d\n- Status: (accepted|superseded by \[)"
        text = record.read_text()

        assert re.match(title + state, text), record
        assert ["Context", "Decision", "Figure"] == re.findall(r"(?m)^## (.*)$", text), record


def test_the_index_lists_every_record() -> None:
    """docs/decisions/README.md has a row for each record, in order, as the record says it."""
    rows = []
    for record in RECORDS:
        title, date, status = re.findall(
            r"(?m)^(?:# \d+\. |- Date: |- Status: )(.*)$", record.read_text()
        )
        rows.append(f"| {int(record.name[:4])} | [{title}]({record.name}) | {date} | {status} |")

    assert rows == re.findall(r"(?m)^\| \d+ .*$", (DOCS / "decisions/README.md").read_text())
