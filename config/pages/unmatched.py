"""Upstream errors that no wording rule knew, put together by what they said: where a new rule is worth its while."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.utils.safestring import SafeString

from billing.models import Attempt
from keys.standing import cause_words
from tenants.adminchips import ago
from tenants.scoping import OPERATIONS, Reach, scoped

WINDOW = 50_000  # the newest attempts that are looked at
READ_MAX = 2000
SHOWN_MAX = 25

_NUMBER = re.compile(r"\d+")
_ID = re.compile(r"\b(?=[\w-]*\d)[\w-]{12,}\b")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Errors of one status and wording, numbers and ids left out. `attempt_id` and `record_id` are the newest one's."""

    status: int | None
    wording: str
    outcome: str
    upstreams: tuple[str, ...]
    count: int
    attempt_id: int
    record_id: int
    at: datetime

    @property
    def cause(self) -> str:
        """Its class in words."""
        return cause_words(self.outcome)

    @property
    def last(self) -> SafeString:
        """When it came last."""
        return ago(self.at)


def clusters(reach: Reach) -> list[Cluster]:
    """Return the most frequent first. Two queries over a bounded number of rows."""
    newest = Attempt.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    rows = Attempt.objects.filter(pk__gt=newest - WINDOW, evidence__startswith="status:").order_by("-pk")
    names = ("pk", "record_id", "record__created", "status", "message", "outcome", "upstream")
    found = scoped(rows, reach, OPERATIONS).values(*names)[:READ_MAX]
    return sorted(_joined(found), key=lambda cluster: -cluster.count)[:SHOWN_MAX]


def _joined(rows: Iterable[dict[str, Any]]) -> Iterable[Cluster]:
    made: dict[tuple[int | None, str], Cluster] = {}
    for row in rows:
        key = (row["status"], generalised(row["message"]))
        known = made.get(key)
        if known is None:
            made[key] = Cluster(
                status=row["status"],
                wording=row["message"],
                outcome=row["outcome"],
                upstreams=(row["upstream"],),
                count=1,
                attempt_id=row["pk"],
                record_id=row["record_id"],
                at=row["record__created"],
            )
            continue
        upstreams = tuple(dict.fromkeys([*known.upstreams, row["upstream"]]))
        made[key] = replace(known, count=known.count + 1, upstreams=upstreams)
    return made.values()


def generalised(wording: str) -> str:
    """Return a wording without what differs from call to call."""
    return " ".join(_NUMBER.sub("#", _ID.sub("…", wording.casefold())).split())


def pasted(reach: Reach, attempt_id: int) -> Mapping[str, Any] | None:
    """Return the status and the wording of an attempt as the workbench's form takes them."""
    rows = scoped(Attempt.objects.filter(pk=attempt_id), reach, OPERATIONS)
    found: Mapping[str, Any] | None = rows.values("status", "message", "content").first()
    return found
