"""A local file for finished requests while the database cannot take them: appended, synced, replayed later.

One file per process, locked while its owner lives, so that a survivor may replay a dead process's file. A last line
that was torn by a crash was never confirmed to anybody and is left out; a whole one that cannot be read is kept for a
person. Replaying twice is harmless: rows that are there already are left alone.
"""

import dataclasses
import fcntl
import json
import logging
import os
import threading
import types
import typing
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from billing.core.jsonline import json_line
from billing.core.record import AnswerRow, AttemptRow, Bundle, LedgerRow, RecordRow

logger = logging.getLogger(__name__)

SUFFIX = ".jsonl"
REFUSED = "refused.json"  # one request a line; never replayed


def encode(bundle: Bundle) -> bytes:
    """Return a bundle as one line."""
    return json_line(dataclasses.asdict(bundle)) + b"\n"


def decode(line: bytes) -> Bundle:
    """Read a line back. Raises ValueError for anything that `encode` did not write."""
    try:
        value = json.loads(line)
        answer = value.get("answer")
        return Bundle(
            record=_row(RecordRow, value["record"]),
            attempts=tuple(_row(AttemptRow, row) for row in value["attempts"]),
            ledger=tuple(_row(LedgerRow, row) for row in value["ledger"]),
            answer=_row(AnswerRow, answer) if answer is not None else None,
        )
    except (KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as problem:
        raise ValueError(f"not a spooled request: {type(problem).__name__}") from problem


def _row(kind: type[Any], values: dict[str, Any]) -> Any:
    hints = typing.get_type_hints(kind)
    return kind(**{name: _restored(hints[name], value) for name, value in values.items()})


def _restored(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(hint, types.UnionType):
        hint = next(kind for kind in typing.get_args(hint) if kind is not types.NoneType)
    if hint is Decimal:
        return Decimal(value)
    if hint is datetime:
        return datetime.fromisoformat(value)
    return date.fromisoformat(value) if hint is date else value


class Spool:
    """This process's spool file and those that dead processes left in the same folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._file: Any = None
        self._path = folder / f"{os.getpid()}{SUFFIX}"

    def append(self, bundles: Sequence[Bundle]) -> None:
        """Write bundles so that they survive a crash. Raises OSError when the disk does not take them."""
        with self._lock:
            if self._file is None:
                self._open()
            _add(self._file, b"".join(map(encode, bundles)))

    def close(self) -> None:
        """Let go of this process's file; it stays to be replayed."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    @property
    def refused(self) -> Path:
        """The file of what the database will never take."""
        return self._folder / REFUSED

    def set_aside(self, bundle: Bundle) -> None:
        """Keep a request that no replay can write. Raises OSError."""
        self._keep(encode(bundle))

    def _keep(self, lines: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(self.refused, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab", 0) as file:
            _add(file, lines)

    def waiting(self) -> bool:
        """Whether any spool file stands in the folder."""
        return self._folder.is_dir() and any(self._folder.glob(f"*{SUFFIX}"))

    def take(self) -> Iterator[tuple[list[Bundle], typing.Callable[[], None]]]:
        """Yield the contents of each file that no living process owns, with what removes it once replayed."""
        with self._lock:
            # Later appends go to a new file; this one may now be replayed.
            self._put_away()
            if self._file is not None:
                self._file.close()
                self._file = None
        for path in sorted(self._folder.glob(f"*{SUFFIX}")) if self._folder.is_dir() else ():
            with path.open("rb") as handle:
                if path == self._path or not _lock(handle):
                    continue
                bundles, odd = _read(handle)
                if odd:
                    self._keep(b"".join(odd))
                    logger.critical("lines of %s cannot be read: %d set aside in %s", path, len(odd), self.refused)
                yield bundles, path.unlink

    def _open(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._put_away()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "ab", 0)
        _sync_folder(self._folder)
        _lock(self._file)

    def _put_away(self) -> None:
        """Rename the file of this process's id: it may be a dead process's, its last line torn."""
        if self._path.exists():
            self._path.rename(self._path.with_name(f"{os.getpid()}-{os.urandom(4).hex()}{SUFFIX}"))


def _lock(handle: Any) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _add(file: Any, data: bytes) -> None:
    """Write and sync all of it or, on an error, none: what follows must not stand behind half a line."""
    size = os.fstat(file.fileno()).st_size
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            os.ftruncate(file.fileno(), size)
        raise


def _sync_folder(folder: Path) -> None:
    """Make a new file's name survive a power cut too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(handle: Any) -> tuple[list[Bundle], list[bytes]]:
    """Return the requests, and the whole lines that are none."""
    bundles, odd = [], []
    for line in handle:
        try:
            bundles.append(decode(line))
        except ValueError:
            if line.endswith(b"\n") and line.strip():
                odd.append(line)
    return bundles, odd
