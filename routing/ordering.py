"""Places of members and rules: 0, 1, 2 … without gaps, each once, whoever writes.

The row that owns them is locked first, so two people who save at once come one after the other.
"""

from collections.abc import Mapping
from typing import Any

from django.db.models import Model

LAST = 1_000_000  # a place behind all others


def lock_owner(owner: Model) -> None:
    """Let nobody else order this owner's rows until the transaction ends. SQLite's transactions exclude each other."""
    list(type(owner)._default_manager.select_for_update().filter(pk=owner.pk).values_list("pk"))


def settle(
    model: type[Model], owner: Model, through: str, wanted: Mapping[int, tuple[int, int]] | None = None
) -> list[int]:
    """Number the rows anew and return their ids in order. `through`: the field that names the owner.

    `wanted`: by id, the place from 0 and whether the row comes there from above (1), from below (-1) or stays (0). Of
    two rows at one place, who came from below stands before, who came from above behind. Rows that it does not name
    keep their order. Call it in the transaction of the change.
    """
    lock_owner(owner)
    named = wanted or {}
    rows: list[Any] = list(model._default_manager.filter(**{through: owner}).order_by("position", "pk"))
    others = {row.pk: (rank, 0) for rank, row in enumerate(row for row in rows if row.pk not in named)}
    rows.sort(key=lambda row: named.get(row.pk) or others[row.pk])
    for place, row in enumerate(rows):
        if row.position != place:
            model._default_manager.filter(pk=row.pk).update(position=place)
    return [row.pk for row in rows]
