"""What SQLite lacks for exact money: an aggregate that adds decimals."""

from decimal import Context, Decimal
from typing import Any

from django.db.backends.signals import connection_created  # house: the only hook into new connections

_EXACT = Context(prec=60)


class DecimalTotal:
    """The aggregate `money_sum(text)`. Null over no rows, like SUM."""

    def __init__(self) -> None:
        self.total: Decimal | None = None

    def step(self, value: str | None) -> None:
        """Add one row."""
        if value is not None:
            self.total = _EXACT.add(self.total or Decimal(0), Decimal(value))

    def finalize(self) -> str | None:
        """Return plain text, so that no float comes between."""
        return None if self.total is None else format(self.total, "f")


def _prepare(connection: Any, **_more: Any) -> None:
    if connection.vendor == "sqlite":
        connection.connection.create_aggregate("money_sum", 1, DecimalTotal)


def install() -> None:
    """Add the aggregate to every new connection (the only hook Django has for this is its signal)."""
    connection_created.connect(_prepare, dispatch_uid="billing.sqlite")
