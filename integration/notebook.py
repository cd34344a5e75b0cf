"""Runs the notebook of ``examples/`` in a kernel of its own.

python -m integration.notebook       runs it and stores what the cells print and draw
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOK = Path(__file__).parents[1] / "examples" / "tour.ipynb"
CELL_TIMEOUT_S = 120


def run(check: str = "pass") -> NotebookNode:
    """Returns the notebook with the output of each cell. Raises CellExecutionError.

    ``check`` is the code of one more cell at the end. The kernel is this Python, whatever kernels
    the user has installed.
    """
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(check))
    with tempfile.TemporaryDirectory() as empty:
        client = NotebookClient(
            notebook,
            timeout=CELL_TIMEOUT_S,
            km=_manager(),
            resources={"metadata": {"path": empty}},
        )
        # nbclient leaves the kernel of a caller's manager running, unless it is told.
        return client.execute(cleanup_kc=True)


def shown(cell: NotebookNode) -> list[NotebookNode]:
    """Returns a cell's outputs for readers: all but stderr."""
    return [output for output in cell.outputs if output.get("name") != "stderr"]


def _manager() -> AsyncKernelManager:
    manager = AsyncKernelManager()
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager.kernel_spec.argv = command
    return manager


def main() -> None:
    """Run the notebook, and write it back without what Spark's JVM logs."""
    notebook = run()
    notebook.cells.pop()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = shown(cell)
    nbformat.write(notebook, NOTEBOOK)


if __name__ == "__main__":
    main()
