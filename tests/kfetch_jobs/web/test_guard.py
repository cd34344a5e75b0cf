"""Who may see the page and order something from it, and what a browser may do with it."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.testclient import TestClient
from starlette.types import Message

from kfetch_jobs.config import Project
from kfetch_jobs.supervise import control
from kfetch_jobs.supervise.job_state import JobState, Order, Phase
from kfetch_jobs.supervise.store import Store
from kfetch_jobs.web import forms, pages
from tests.kfetch_jobs.pages import Html, browser, loaded, supervised

TOKEN = "0123456789abcdef"
OURS = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
HTMX = OURS | {"HX-Request": "true"}


@pytest.fixture
def shop(project: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the job clicks, which runs; no agent is asked."""
    monkeypatch.setattr("kfetch.admin.agents.find", lambda *_: [])
    found = loaded(project)
    with Store.of(found.storage) as store:
        store.save({"clicks": JobState(phase=Phase.RUNNING, since_s=1.0, started_s=1.0)})
    return found


def fields(client: TestClient, path: str = "/") -> dict[str, str]:
    """Those of the first form of a page."""
    return Html(client.get(path).text).fields


@pytest.mark.parametrize("path", ["/", "/jobs/clicks", "/nowhere", "/static/page.css", "/metrics"])
def test_what_a_browser_may_do(shop: Project, path: str) -> None:
    """A browser loads nothing from other hosts, runs no inline script, and shows the page in no
    frame."""
    with browser(shop) as client:
        headers = client.get(path).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert set(re.findall(r"'(.*?)'", policy)) == {"none", "self"}
    assert ["nosniff", "DENY", "same-origin"] == [
        headers[name] for name in ("X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy")
    ]
    assert ("no-cache" if "static" in path else "no-store") == headers["Cache-Control"]


@pytest.mark.parametrize(
    ("order", "back"), [(order, back) for order in Order for back in ("all", "job")]
)
def test_orders_reach_the_supervisor(shop: Project, order: Order, back: str) -> None:
    """Each order works from both pages. The response is the live part with the result."""
    with supervised(shop) as came, browser(shop) as client:
        form = fields(client) | {"back": back}
        answer = client.post(f"/jobs/clicks/{order}", data=form, headers=HTMX)
        plain = client.post(f"/jobs/clicks/{order}", data=form, headers=OURS)
    assert [("clicks", order)] * 2 == came
    assert 200 == answer.status_code
    assert "clicks: it" in Html(answer.text).text
    assert answer.text.lstrip().startswith('<div id="state"')
    assert (303, "/" if back == "all" else "/jobs/clicks") == (
        plain.status_code,
        plain.headers["Location"],
    )


def test_what_the_supervisor_refuses_is_told(shop: Project) -> None:
    """The page shows the supervisor's own sentence."""
    with supervised(shop, "job clicks: line 3 is wrong"), browser(shop) as client:
        answer = client.post("/jobs/clicks/start", data=fields(client), headers=HTMX)
    assert (
        "the order start for clicks failed: job clicks: line 3 is wrong" in Html(answer.text).text
    )


def test_an_order_without_a_supervisor_waits(shop: Project) -> None:
    """The order waits for the next supervisor, as one from the command line does."""
    with browser(shop) as client:
        answer = client.post("/jobs/clicks/pause", data=fields(client), headers=HTMX)
    assert "the next kfetch up follows the order" in answer.text
    with Store.of(shop.storage) as store:
        assert [Order.PAUSE] == [asked.order for asked in store.waiting_orders()]


@pytest.mark.parametrize(
    ("headers", "change", "status"),
    [
        (OURS | {"Sec-Fetch-Site": "cross-site"}, {}, 403),
        (OURS | {"Sec-Fetch-Site": "same-site"}, {}, 403),
        ({"Origin": "http://evil.example"}, {}, 403),
        ({"Origin": "null"}, {}, 403),
        (OURS, {"key": "guessed"}, 403),
        (OURS, {"key": ""}, 403),
        (OURS, {"key": "\u00e4"}, 403),
        ({}, {"key": "guessed"}, 403),
        (OURS | {"Host": "evil.example"}, {}, 421),
        (OURS, {"more": "x" * 5000}, 413),
    ],
)
def test_forged_orders(
    shop: Project, headers: dict[str, str], change: dict[str, str], status: int
) -> None:
    """Another site's page gets nowhere, whatever it has and hides; nothing was ordered."""
    with supervised(shop) as came, browser(shop) as client:
        form = fields(client) | change
        assert status == client.post("/jobs/clicks/stop", data=form, headers=headers).status_code
    assert [] == came


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/jobs/clicks/stop", 405),
        ("POST", "/jobs/nothing/stop", 404),
        ("POST", "/jobs/clicks/explode", 404),
        ("POST", "/jobs/..%2f..%2fx/stop", 404),
        ("GET", "/jobs/..%2f..%2fx/log", 404),
        ("GET", "/static/../app.py", 404),
        ("GET", "/static/%2e%2e/app.py", 404),
    ],
)
def test_what_there_is_not(shop: Project, method: str, path: str, status: int) -> None:
    """GET gives no order, and an unknown job is 404."""
    with supervised(shop) as came, browser(shop) as client:
        form = fields(client)
        data = form if method == "POST" else None
        assert status == client.request(method, path, data=data, headers=OURS).status_code
    assert [] == came


def test_many_orders_at_once_are_bounded(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four orders wait for the supervisor's loop. The page still answers, and refuses further
    orders."""
    entered, go = threading.Semaphore(0), threading.Event()

    def ask(*_: object) -> bool:
        entered.release()
        assert go.wait(60)
        return True

    monkeypatch.setattr(pages, "give_order", ask)
    with browser(shop) as client:
        form = fields(client)

        def order() -> None:
            client.post("/jobs/clicks/pause", data=form, headers=HTMX)

        threads = [threading.Thread(target=order) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert all(entered.acquire(timeout=60) for _ in threads)
        assert "try again" in client.post("/jobs/clicks/pause", data=form, headers=HTMX).text
        assert 200 == client.get("/").status_code
        go.set()
        for thread in threads:
            thread.join(60)


def test_logging_in_and_out(shop: Project) -> None:
    """With a token, people get a form, then a cookie. Scripts can't read it and other sites
    don't send it. Programs get 401."""
    with browser(shop, TOKEN, "kfetch.example") as client:
        away = client.get("/jobs/clicks")
        assert (303, "/login?next=%2Fjobs%2Fclicks") == (
            away.status_code,
            away.headers["Location"],
        )
        assert 401 == client.get("/", headers={"Accept": "*/*"}).status_code
        part = client.get("/", headers={"HX-Request": "true"})
        assert (401, "/login") == (part.status_code, part.headers["HX-Redirect"])
        form = fields(client, away.headers["Location"])
        assert {"next": "/jobs/clicks", "user": "kfetch", "token": ""} == form
        assert 200 == client.get("/static/page.css").status_code

        wrong = client.post("/login", data=form | {"token": TOKEN[::-1]})
        assert (403, True) == (wrong.status_code, "not the token" in Html(wrong.text).text)
        assert "Set-Cookie" not in wrong.headers
        right = client.post("/login", data=form | {"token": TOKEN})
        assert (303, "/jobs/clicks") == (right.status_code, right.headers["Location"])
        cookie = right.headers["Set-Cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Max-Age=43200"))
        assert TOKEN not in cookie

        shown = client.get("/jobs/clicks")
        assert (200, True) == (shown.status_code, "log out" in shown.text)
        assert 403 == client.post("/logout", data={"key": "x"}).status_code
        left = client.post("/logout", data=fields(client))
        assert (303, "/login") == (left.status_code, left.headers["Location"])
        assert 303 == client.get("/").status_code


def test_two_supervisors_of_a_host(shop: Project) -> None:
    """A person who logs in or out at one supervisor stays logged in at the other. A browser
    shares cookies among all ports of a host."""
    other = TOKEN[::-1]
    with (
        browser(shop, TOKEN, "kfetch.example:1") as one,
        browser(shop, other, "kfetch.example:2") as two,
    ):
        two.cookies.jar = one.cookies.jar
        for client, token in ((one, TOKEN), (two, other)):
            assert 303 == client.post("/login", data={"token": token}).status_code
        assert [200, 200] == [client.get("/").status_code for client in (one, two)]
        two.post("/logout", data=fields(two))
        assert [200, 303] == [client.get("/").status_code for client in (one, two)]


def test_a_form_that_does_not_come(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A form that is late, or whose sender has left, gets a response at once."""
    monkeypatch.setattr(forms, "_WITHIN_S", 0.02)

    async def never() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def gone() -> Message:
        return {"type": "http.disconnect"}

    for receive in (never, gone):
        request = Request({"type": "http", "method": "POST", "headers": []}, receive)
        with pytest.raises(HTTPException, match="408"):
            asyncio.run(asyncio.wait_for(forms.read_form(request), 20))


def test_a_login_from_another_site(shop: Project) -> None:
    """A wrong token is refused, and the form leads to no other site."""
    with browser(shop, TOKEN, "kfetch.example") as client:
        foreign = client.post(
            "/login", data={"token": TOKEN}, headers={"Origin": "http://evil.example"}
        )
        assert 403 == foreign.status_code
        form = {"token": TOKEN, "next": "//evil.example"}
        assert "/" == client.post("/login", data=form).headers["Location"]


def test_a_cookie_over_tls_stays_there(shop: Project) -> None:
    """With https the cookie is Secure: the browser never sends it without TLS."""
    with browser(shop, TOKEN, "kfetch.example") as client:
        client.base_url = client.base_url.copy_with(scheme="https")
        assert "Secure" in client.post("/login", data={"token": TOKEN}).headers["Set-Cookie"]


def test_where_nobody_logs_in(shop: Project) -> None:
    """Without a token the form redirects to the page, and there is no log-out."""
    with browser(shop) as client:
        assert (303, "/") == (
            client.get("/login").status_code,
            client.get("/login").headers["Location"],
        )
        assert "log out" not in client.get("/").text


def test_an_order_that_takes_long_is_told(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the supervisor does not accept an order in time, the page says so and stays."""
    monkeypatch.setattr(control, "_REPLY_WITHIN_S", 0.05)
    with supervised(shop) as came:
        monkeypatch.setattr(Store, "waiting_orders", lambda *_: [])
        with browser(shop) as client:
            answer = client.post("/jobs/clicks/stop", data=fields(client), headers=HTMX)
    assert "the supervisor has not taken the order" in Html(answer.text).text
    assert len(came) <= 1
