"""Secrets that the first start makes and every later one reads, in the data folder."""

import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path


def read_or_create(path: Path, make: Callable[[], str]) -> str:
    """Return the text of `path`, made by `make` when there is no such file yet.

    Of several processes starting at once one writes and all read the same text: the folder's lock is held over look
    and write, and the file appears whole by rename. Mode 600. Raises OSError when the folder is not writable.
    """
    if not path.exists():
        with (path.parent / "secrets.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                _write_whole(path, make())
    return path.read_text(encoding="utf-8").strip()


def is_private(path: Path) -> bool:
    """Tell whether only the owner may read the file."""
    return not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def _write_whole(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)  # left by a process of the same id that was killed here
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
