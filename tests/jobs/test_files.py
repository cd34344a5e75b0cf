"""Files that several processes share."""

from __future__ import annotations

import os
from pathlib import Path

from jobs.files import claimed


def test_a_claim_is_exclusive_and_names_its_holder(tmp_path: Path) -> None:
    """Whoever comes second learns that the lock is held, and by which process."""
    path = tmp_path / "job" / "lock"
    with claimed(path) as first, claimed(path) as second:
        assert (True, False) == (first, second)
        assert str(os.getpid()) == path.read_text()
    with claimed(path) as again:
        assert again
