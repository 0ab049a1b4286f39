"""One web process a data folder, where key state lives in that process (no REDIS_URL)."""

import fcntl
import os
from pathlib import Path


class Taken(Exception):
    """Another live process holds the lock; the text says what to change."""


def acquire(folder: Path) -> int:
    """Take the lock for as long as this process lives; return its descriptor, which is not inherited.

    Raises Taken. The kernel frees the lock when the holder dies, whatever killed it; the file stays.
    """
    fd = os.open(folder / "web.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise Taken(
            f"Another web process uses {folder}: without REDIS_URL there can be only one. "
            "Stop it, or set REDIS_URL, or set another POINTSMAN_DATA."
        ) from None
    return fd
