"""A directory for the temporary files of one Spark session. A killed session leaves them behind.

<job>/tmp/lock          held while a session looks for directories of killed ones
<job>/tmp/<random>/     the files of one session
<job>/tmp/<random>/lock held by the session; the kernel releases it when its process dies
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from kfetch_jobs.util.files import try_lock, wait_for_lock

_LOCK = "lock"


@contextmanager
def temporary_directory(parent: Path) -> Iterator[Path]:
    """Yield a new directory below ``parent``, and remove it at the end.

    Also removes what killed sessions have left there. Directories of living sessions stay.
    """
    with ExitStack() as held:
        with wait_for_lock(parent / _LOCK):
            for path in parent.iterdir():
                if path.name != _LOCK:
                    _remove_abandoned(path)
            own = Path(tempfile.mkdtemp(prefix="", dir=parent))
            held.enter_context(try_lock(own / _LOCK))
        try:
            yield own
        finally:
            shutil.rmtree(own, ignore_errors=True)


def _remove_abandoned(path: Path) -> None:
    with suppress(OSError):  # another user's, or a killed JVM still writes there: the next time
        if path.is_symlink() or not path.is_dir():
            path.unlink()
            return
        with try_lock(path / _LOCK) as free:
            if free:
                shutil.rmtree(path)
