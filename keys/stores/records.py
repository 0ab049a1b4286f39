"""Small values that outlive a request: sticky sessions, owners of ids. Kept for a time, the longest unused go first."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

RECORDS_MAX = 100_000
ROW_PREFIX = "record:"


@dataclass(frozen=True, slots=True)
class Record:
    """A JSON value with its end, in seconds since 1970."""

    value: Any
    until: float


class RecordBook:
    """Records in memory. `unsaved` names those that changed since it was last emptied."""

    def __init__(self, most: int = RECORDS_MAX) -> None:
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._most = most
        self.unsaved: set[str] = set()

    def get(self, name: str, now: datetime) -> Any:
        """The value, None when there is none or its time is over."""
        record = self._records.get(name)
        if record is None or record.until <= now.timestamp():
            return None
        self._records.move_to_end(name)
        return record.value

    def put(self, name: str, value: Any, until: float) -> None:
        self._records[name] = Record(value, until)
        self._records.move_to_end(name)
        self.unsaved.add(name)
        while len(self._records) > self._most:
            oldest, _ = self._records.popitem(last=False)
            self.unsaved.add(oldest)

    def drop(self, names: Iterable[str]) -> None:
        for name in names:
            if self._records.pop(name, None) is not None:
                self.unsaved.add(name)

    def drop_elapsed(self, now: datetime) -> None:
        at = now.timestamp()
        self.drop([name for name, record in self._records.items() if record.until <= at])

    def rows(self) -> dict[str, dict[str, Any] | None]:
        """Rows to save for what changed; None = delete. Empties `unsaved`."""
        names, self.unsaved = self.unsaved, set()
        return {f"{ROW_PREFIX}{name}": self._row(name) for name in names}

    def load(self, rows: Mapping[str, object]) -> None:
        """Take in saved rows; damaged ones are passed over."""
        for name, row in rows.items():
            if not name.startswith(ROW_PREFIX) or not isinstance(row, Mapping):
                continue
            until = row.get("until")
            if isinstance(until, int | float):
                self._records[name.removeprefix(ROW_PREFIX)] = Record(row.get("value"), float(until))

    def _row(self, name: str) -> dict[str, Any] | None:
        record = self._records.get(name)
        return None if record is None else {"value": record.value, "until": record.until}
