"""``kfetch explain``: the page of an error, from the package alone."""

from __future__ import annotations

import pytest

from kfetch import errors
from kfetch.admin import explanations
from kfetch.errors import KfetchError, OptionError
from kfetch_jobs.errors import RecordsLost
from tests.kfetch.admin.cli.conftest import Kfetch


@pytest.mark.parametrize("text", ["LOG_TRUNCATED", "[LOG_TRUNCATED]", "log_truncated"])
def test_a_code_as_an_error_prints_it(kfetch: Kfetch, text: str) -> None:
    """A code may have its brackets or small letters. The page has the three parts."""
    code, out, _ = kfetch("explain", text)

    assert 0 == code
    assert out.startswith("# LOG_TRUNCATED\n\nThe log was truncated below the position")
    assert out.index("## What happened") < out.index("## How to look") < out.index("## What to do")


def test_a_code_with_two_parts_has_two_pages(kfetch: Kfetch) -> None:
    """A run's error has its own code and that of the source. Both are explained."""
    code, out, _ = kfetch("explain", f"[{RecordsLost.condition}.LOG_TRUNCATED]")

    assert 0 == code
    assert out.index("# RECORDS_LOST\n") < out.index("# LOG_TRUNCATED\n")


def test_a_terminal_shows_no_links(kfetch: Kfetch) -> None:
    """A page names other pages without their addresses."""
    _, out, _ = kfetch("explain", "RECORDS_EXPIRED")

    assert "give it more tasks: tune throughput." in out


def test_without_a_code_all_are_listed(kfetch: Kfetch) -> None:
    """Without a code, each code stands on a line with its meaning."""
    code, out, _ = kfetch("explain")

    assert 0 == code
    assert "OPTION_INVALID: An option is missing, unknown or malformed" in out
    assert len(explanations.classes()) == len(out.splitlines())


@pytest.mark.parametrize(
    ("text", "advice"),
    [("LOG_TRUNKATED", "did you mean LOG_TRUNCATED?"), ("xyz", "kfetch explain lists all codes")],
)
def test_an_unknown_code_is_an_error(kfetch: Kfetch, text: str, advice: str) -> None:
    """An unknown code names the nearest one, or the command that lists all."""
    code, _, err = kfetch("explain", text)

    assert OptionError.exit_code == code
    assert f"no error has the code {text.upper()!r}: {advice} [OPTION_INVALID]" in err


def test_every_class_has_a_page() -> None:
    """Each class of kfetch.errors has a file with its page, so an error can't lack one."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]

    for kind in kinds:
        if issubclass(kind, KfetchError):
            assert explanations.page(kind).startswith(f"# {kind.condition}\n")
