"""The page in a real browser, over a real Kafka and Spark: what a person sees and does there."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from integration.running.clicks import EACH, produce, topic_of
from integration.running.commands import Project
from integration.streams import PATIENCE_S
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.kafka.ready import free_ports

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

BROKEN = """\
source:
  cluster: main
  subscribe: {topic}
transform:
  sql: SELECT no_such_column FROM source
sink:
  path: ${{storage}}/tables/broken
trigger: continuous
"""
PROGRAMS = ("chromium", "chromedriver")
FITS = """\
const plots = [...document.querySelectorAll(".plot")];
return innerWidth === arguments[0] && document.documentElement.scrollWidth <= innerWidth &&
  plots.every((box) => box.querySelector("canvas").clientWidth === box.clientWidth);"""


class Person:
    """Somebody in front of a browser, who waits until things are as they should be."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver
        self._wait = WebDriverWait(
            driver, PATIENCE_S, 0.2, ignored_exceptions=[StaleElementReferenceException]
        )

    def text(self, selector: str) -> str:
        """What is read there; nothing if it is not there."""
        found = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return found[0].text if found else ""

    def until(self, condition: Callable[[], object], told: str) -> None:
        """Wait for it, while the page renews itself."""
        body = "; the page says: {}"
        try:
            self._wait.until(lambda _: condition())
        except Exception as error:
            raise AssertionError(told + body.format(self.text("body"))) from error

    def sees(self, selector: str, *words: str) -> None:
        """Wait for words."""
        self.until(
            lambda: all(word in self.text(selector) for word in words),
            f"{selector} never had {words}",
        )

    def press(self, label: str) -> None:
        """Press a button of the job's page."""
        self.driver.find_element(By.XPATH, f"//button[starts-with(., '{label}')]").click()

    def type(self, selector: str, text: str) -> None:
        """Type into a field."""
        self.driver.find_element(By.CSS_SELECTOR, selector).send_keys(text)

    def turns(self, width: int, height: int) -> None:
        """The window is so large now: curves fill their boxes, and nothing lies beside the page."""
        self.driver.set_window_size(width, height)
        self.until(
            lambda: self.driver.execute_script(FITS, width), f"it does not fit {width}x{height}"
        )

    def complaints(self) -> list[str]:
        """What the browser says of the page: refused scripts, errors, files that are missing."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@pytest.fixture
def person() -> Iterator[Person]:
    """With Debian's chromium."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    assert not missing, f"{' and '.join(missing)} missing: make browser installs them"
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    # CI is root in a container: no sandbox, and little /dev/shm.
    for flag in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"):
        options.add_argument(f"--{flag}")
    options.add_argument("--window-size=1280,1000")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    try:
        yield Person(driver)
    finally:
        driver.quit()


def test_the_page(supervised_project: Project, kafka: Cluster, person: Person) -> None:
    """Rows move without a reload, curves follow the window, a job is paused and goes on, another's
    error is there in full."""
    project = supervised_project
    broken = BROKEN.format(topic=topic_of(project))
    (project.directory / "jobs" / "broken.yml").write_text(broken)
    produce(project, kafka, 0)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    project.kfetch("up", "--detach", "--listen", address)

    person.driver.get(f"http://{address}/")
    person.sees("h1", "1 of 2 jobs needs attention")
    person.sees("#call-broken", "given up", "no_such_column")
    person.sees("#job-clicks", "running", "nothing left to read")

    person.driver.get(f"http://{address}/jobs/clicks")
    person.sees(".batches tbody tr", f"{EACH}")
    last = person.text(".batches tbody tr td")
    produce(project, kafka, EACH)
    person.until(lambda: person.text(".batches tbody tr td") not in ("", last), "no rows moved")
    person.sees("#heat", "2 partitions, none behind")
    person.until(lambda: person.driver.find_elements(By.CSS_SELECTOR, "#plot-lag canvas"), "plot")
    person.turns(900, 400)
    person.turns(400, 800)
    person.turns(1280, 1000)
    person.sees(".executor tbody", "broker", "session")

    person.press("Pause")
    person.sees("#notice", "it pauses")
    person.sees(".is", "paused")
    assert "paused" == project.jobs()["clicks"]["phase"]
    produce(project, kafka, 2 * EACH)
    person.press("Resume")
    person.sees(".is", "running")
    person.until(lambda: person.text(".batches tbody tr td:nth-child(3)") == f"{EACH}", "resumed")
    person.sees(".runs tbody", "still runs", "stopped")
    assert [] == person.complaints()

    person.driver.get(f"http://{address}/jobs/broken")
    person.sees(".error", "Start it again when the cause is gone", "no_such_column")
    person.sees(".runs tbody", "config")
    assert [] == person.complaints()
    assert person.driver.title.startswith("broken given up")


TOKEN = "a-token-of-the-shop-1"


def test_who_comes_from_elsewhere_logs_in(supervised_project: Project, person: Person) -> None:
    """Where others reach the page: a wrong token is told so, the right one leads to what was asked
    for, in a cookie that no script and no other site gets; logged out, it is needed again."""
    project = supervised_project
    file = project.directory / "jobs" / "clicks.yml"
    file.write_text(f"enabled: false\n{file.read_text()}")
    project.environ["KFETCH_TOKEN"] = TOKEN
    port = free_ports(1)[0]
    told = project.kfetch("up", "--detach", "--listen", f"0.0.0.0:{port}")
    assert (
        f"page: http://127.0.0.1:{port}/, from other machines at port {port} of this one; log"
        in told
    )

    page = f"http://127.0.0.1:{port}"
    person.driver.get(f"{page}/jobs/clicks")
    person.sees("h1", "Log in")
    assert [] == person.complaints()
    person.type("#token", "not-the-token-of-the-shop")
    person.press("Log in")
    person.sees("#wrong", "That is not the token.")
    (refused,) = person.complaints()
    assert "403" in refused
    assert [] == person.driver.get_cookies()

    person.type("#token", TOKEN)
    person.press("Log in")
    person.sees("h1", "clicks")
    assert f"{page}/jobs/clicks" == person.driver.current_url
    (cookie,) = person.driver.get_cookies()
    assert (True, "Strict") == (cookie["httpOnly"], cookie["sameSite"])
    assert 11 * 3600 < cookie["expiry"] - time.time() <= 12 * 3600
    assert "" == person.driver.execute_script("return document.cookie")
    assert TOKEN not in person.driver.page_source + cookie["value"]

    person.press("log out")
    person.sees("h1", "Log in")
    assert [] == person.driver.get_cookies()
    person.driver.get(f"{page}/")
    person.sees("h1", "Log in")
    assert [] == person.complaints()
