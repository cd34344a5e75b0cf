"""``python -m tests.parity`` writes docs/reference/parity.md, and lists wrong marks."""

from __future__ import annotations

import sys

from tests.parity.marks import ROOT, read_marks
from tests.parity.page import sort_out

if __name__ == "__main__":
    parity = sort_out(read_marks())
    (ROOT / "docs/reference/parity.md").write_text(parity.page())
    sys.exit("\n".join(parity.problems))
