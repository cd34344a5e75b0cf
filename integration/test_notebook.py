"""The notebook of ``examples/`` runs from its first cell to its last, and what it says is true."""

from __future__ import annotations

import json
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode

from integration.notebook import NOTEBOOK, run, shown

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

CHECK = """
print(json.dumps({
    "lags": table["lag"].tolist(),
    "full": table["full requests"].tolist(),
    "full_bytes": table["full bytes"].tolist(),
    "incremental": table["incremental requests"].tolist(),
    "incremental_bytes": table["incremental bytes"].tolist(),
    "named": table["partitions named"].tolist(),
    "left": directory.exists(),
}))
"""


def kinds(notebook: NotebookNode) -> list[list[str]]:
    """Returns the kinds of output of each code cell, as a reader sees them."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [[output.output_type for output in shown(cell)] for cell in cells]


def test_the_notebook() -> None:
    """The lag falls to 0. One full request names 200 partitions, and later ones name three.

    The stored notebook shows the same kinds of outputs as this run.
    """
    done = run(CHECK)
    *_, last = done.cells.pop().outputs
    facts: dict[str, Any] = json.loads(last.text)

    first, second, third, *rest = facts["lags"]
    assert 2001 > first > second > third > 0
    assert {0} == set(rest)
    assert [1, *[0] * (len(facts["full"]) - 1)] == facts["full"]
    assert facts["full_bytes"][0] > 200 * 25
    assert sum(facts["incremental"]) >= 1
    assert max(facts["named"][-3:]) <= 2 * 3
    assert max(facts["incremental_bytes"][-3:]) < facts["full_bytes"][0] / 10
    assert not facts["left"]
    assert kinds(nbformat.read(NOTEBOOK, as_version=4)) == kinds(done)
