"""What the page says about keys and values that do not fit, and about fields that schemas lack."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kfetch.admin import agents
from kfetch.fetch.stats import FetchStats, total
from kfetch_jobs.config import Project
from kfetch_jobs.web.template_values import most_frequent
from tests.kfetch.admin.cli.test_text import QUERY, STATUS
from tests.kfetch_jobs.pages import Html, browser

ONE = FetchStats(
    undecoded=1234,
    undecoded_kinds={"clicks": {"value: field id is no INT": 1230, "<b>odd</b>": 4}},
    sampled=40,
    unknown_fields={"clicks": {"value.utm": 7}},
)


def test_sums_of_several_agents() -> None:
    """Counts of agents are added up. The most frequent come first, and ten are shown."""
    many = FetchStats(undecoded=20, undecoded_kinds={"t": {f"k{i:02}": 1 for i in range(20)}})
    totals = total([ONE, ONE, many])
    reasons = most_frequent(totals.undecoded_kinds)

    assert (2488, 80) == (totals.undecoded, totals.sampled)
    assert ("clicks", "value: field id is no INT", 2460) == reasons[0]
    assert 10 == len(reasons)
    assert [("clicks", "value.utm", 14)] == most_frequent(totals.unknown_fields)


@pytest.mark.parametrize("totals", [ONE, FetchStats(records=5)])
def test_the_page_lists_them(
    shop: Project, monkeypatch: pytest.MonkeyPatch, totals: FetchStats
) -> None:
    """A job's page has them if there are some. Names from records are text, never markup."""
    query = replace(QUERY, stream="8a04", totals=totals)
    monkeypatch.setattr(agents, "find", lambda *_: [replace(STATUS, queries=(query,))])
    with browser(shop) as client:
        page = client.get("/jobs/clicks").text
    text = Html(page).text

    shown = totals is ONE
    for words in (
        "1,234 records could not be decoded",
        "clicks value: field id is no INT 1,230",
        "clicks <b>odd</b> 4",
        "The schema lacks these fields. kfetch has examined 40 values",
        "clicks value.utm 7",
    ):
        assert shown == (words in text), words
    assert "<b>odd" not in page
