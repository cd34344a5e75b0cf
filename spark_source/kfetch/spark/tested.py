"""The newest Spark with which kfetch is tested, and a warning for later ones."""

from __future__ import annotations

import logging
import re

log = logging.getLogger(__name__)

NEWEST = (4, 3)
"""``make sparks`` runs the tests with it."""


def warn_if_untested(version: str) -> None:
    """Log a warning if this version of Spark is later than the newest tested one."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is not None and (int(found[1]), int(found[2])) > NEWEST:
        newest = ".".join(map(str, NEWEST))
        log.warning(
            "kfetch: nobody has tested this release with Spark %s. The newest tested one is %s",
            version,
            newest,
        )
