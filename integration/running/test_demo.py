"""``kfetch demo --open``: the plot in the terminal, and the page of a supervisor until Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(600)]

# The browser: it stores the page, and tells so by the last file's name.
BROWSER = """\
#!{python}
import sys, urllib.request, pathlib
page = urllib.request.urlopen(sys.argv[1], timeout=30).read()
pathlib.Path("draft").write_bytes(page)
pathlib.Path("draft").rename("page.html")
"""


def test_the_page_of_the_demo(tmp_path: Path) -> None:
    """The demo prints the plot, opens the page with its job, and ends well by Ctrl-C."""
    browser = tmp_path / "browser"
    browser.write_text(BROWSER.format(python=sys.executable))
    browser.chmod(0o755)
    words = ("demo", "--seconds", "3", "--rate", "1000", "--open")
    demo = subprocess.Popen(
        [sys.executable, "-m", "kfetch", *words],
        cwd=tmp_path,
        env=os.environ | {"BROWSER": str(browser)},
        stdout=subprocess.PIPE,
        text=True,
    )
    root = psutil.Process(demo.pid)
    page = tmp_path / "page.html"
    while not page.exists():
        assert demo.poll() is None
        time.sleep(0.1)
    children = root.children(recursive=True)
    demo.send_signal(signal.SIGINT)
    printed, _ = demo.communicate(timeout=120)

    assert 0 == demo.returncode
    assert "in Delta  " in printed
    assert "✗ SIGKILL" in printed
    assert "clicks" in page.read_text()
    assert [] == [child for child in children if child.is_running()]
