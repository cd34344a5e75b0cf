"""The page in a real browser, over a real Kafka and Spark: what a user sees and does."""

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

BROKEN_JOB = """\
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
PAGE_FITS_WINDOW = """\
const plots = [...document.querySelectorAll(".plot")];
return innerWidth === arguments[0] && document.documentElement.scrollWidth <= innerWidth &&
  plots.every((box) => box.querySelector("canvas").clientWidth === box.clientWidth);"""


class User:
    """A user of the page. Its methods wait until the page shows what they expect."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver
        self._wait = WebDriverWait(
            driver, PATIENCE_S, 0.2, ignored_exceptions=[StaleElementReferenceException]
        )

    def text(self, selector: str) -> str:
        """The text of the first element that the selector finds; empty if there is none."""
        elements = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return elements[0].text if elements else ""

    def wait_until(self, condition: Callable[[], object], failure: str) -> None:
        """Wait for a condition while the page refreshes itself. ``failure``: the error's start."""
        try:
            self._wait.until(lambda _: condition())
        except Exception as error:
            raise AssertionError(f"{failure}; the page says: {self.text('body')}") from error

    def sees(self, selector: str, *words: str) -> None:
        """Wait until the element has all these words."""
        self.wait_until(
            lambda: all(word in self.text(selector) for word in words),
            f"{selector} never had {words}",
        )

    def press(self, label: str) -> None:
        """Press the button that starts with this label."""
        self.driver.find_element(By.XPATH, f"//button[starts-with(., '{label}')]").click()

    def type(self, selector: str, text: str) -> None:
        """Type a text into a field."""
        self.driver.find_element(By.CSS_SELECTOR, selector).send_keys(text)

    def resizes(self, width: int, height: int) -> None:
        """Resize the window. Each plot must fill its box, and the page must fit the window."""
        self.driver.set_window_size(width, height)
        self.wait_until(
            lambda: self.driver.execute_script(PAGE_FITS_WINDOW, width),
            f"it does not fit {width}x{height}",
        )

    def browser_errors(self) -> list[str]:
        """The browser's errors since the last call, such as refused scripts and missing files."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@pytest.fixture
def user() -> Iterator[User]:
    """A user with Debian's chromium."""
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
        yield User(driver)
    finally:
        driver.quit()


def test_a_user_watches_pauses_and_resumes_a_job(
    supervised_project: Project, kafka: Cluster, user: User
) -> None:
    """The page shows new rows without a reload, and its plots follow the window's size. The user
    pauses and resumes a job, and reads the whole error of another job."""
    project = supervised_project
    broken = BROKEN_JOB.format(topic=topic_of(project))
    (project.directory / "jobs" / "broken.yml").write_text(broken)
    produce(project, kafka, 0)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    project.kfetch("up", "--detach", "--listen", address)

    user.driver.get(f"http://{address}/")
    user.sees("h1", "1 of 2 jobs needs attention")
    user.sees("#call-broken", "given up", "no_such_column")
    user.sees("#job-clicks", "running", "nothing left to read")

    user.driver.get(f"http://{address}/jobs/clicks")
    user.sees(".batches tbody tr", f"{EACH}")
    last = user.text(".batches tbody tr td")
    produce(project, kafka, EACH)
    user.wait_until(
        lambda: user.text(".batches tbody tr td") not in ("", last),
        "the page shows no new micro-batch",
    )
    user.sees("#heat", "2 partitions, none behind")
    user.wait_until(
        lambda: user.driver.find_elements(By.CSS_SELECTOR, "#plot-lag canvas"),
        "the page has no plot of the lag",
    )
    user.resizes(900, 400)
    user.resizes(400, 800)
    user.resizes(1280, 1000)
    user.sees(".executor tbody", "broker", "session")

    user.press("Pause")
    user.sees("#notice", "it pauses")
    user.sees(".is", "paused")
    assert "paused" == project.jobs()["clicks"]["phase"]
    produce(project, kafka, 2 * EACH)
    user.press("Resume")
    user.sees(".is", "running")
    user.wait_until(
        lambda: user.text(".batches tbody tr td:nth-child(3)") == f"{EACH}",
        "the resumed job reads nothing",
    )
    user.sees(".runs tbody", "still runs", "stopped")
    assert [] == user.browser_errors()

    user.driver.get(f"http://{address}/jobs/broken")
    user.sees(".error", "Start it again when the cause is gone", "no_such_column")
    user.sees(".runs tbody", "config")
    assert [] == user.browser_errors()
    assert user.driver.title.startswith("broken given up")


TOKEN = "a-token-of-the-shop-1"


def test_a_page_that_other_machines_reach_needs_a_log_in(
    supervised_project: Project, user: User
) -> None:
    """A wrong token is refused with a message. The right one leads to the page that the user asked
    for. It sets a cookie that no script and no other site can read. After a log-out, the page asks
    for the token again."""
    project = supervised_project
    file = project.directory / "jobs" / "clicks.yml"
    file.write_text(f"enabled: false\n{file.read_text()}")
    project.environ["KFETCH_TOKEN"] = TOKEN
    port = free_ports(1)[0]
    output = project.kfetch("up", "--detach", "--listen", f"0.0.0.0:{port}")
    assert (
        f"page: http://127.0.0.1:{port}/, from other machines at port {port} of this one; log"
        in output
    )

    page = f"http://127.0.0.1:{port}"
    user.driver.get(f"{page}/jobs/clicks")
    user.sees("h1", "Log in")
    assert [] == user.browser_errors()
    user.type("#token", "not-the-token-of-the-shop")
    user.press("Log in")
    user.sees("#wrong", "That is not the token.")
    (refused,) = user.browser_errors()
    assert "403" in refused
    assert [] == user.driver.get_cookies()

    user.type("#token", TOKEN)
    user.press("Log in")
    user.sees("h1", "clicks")
    assert f"{page}/jobs/clicks" == user.driver.current_url
    (cookie,) = user.driver.get_cookies()
    assert (True, "Strict") == (cookie["httpOnly"], cookie["sameSite"])
    assert 11 * 3600 < cookie["expiry"] - time.time() <= 12 * 3600
    assert "" == user.driver.execute_script("return document.cookie")
    assert TOKEN not in user.driver.page_source + cookie["value"]

    user.press("log out")
    user.sees("h1", "Log in")
    assert [] == user.driver.get_cookies()
    user.driver.get(f"{page}/")
    user.sees("h1", "Log in")
    assert [] == user.browser_errors()
