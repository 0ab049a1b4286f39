"""Taking over catalogue prices into the price list."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from django.db import transaction
from django.db.models import Exists, OuterRef

from billing.core.pricediff import RATES, Act, Change, Kept, Listed, Rates, changes
from billing.core.pricing import PriceBook, PriceRow
from billing.models import Price, RequestRecord
from billing.pricebook import read_prices
from tenants.services import touch_config

CURRENCY = "USD"
_USES = RequestRecord.objects.filter(price_id=OuterRef("pk"))
_FOREVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Plan:
    """`theirs`: models that an operator's price stands for."""

    changes: Sequence[Change]
    theirs: Sequence[str]


def plan(listed: Sequence[Listed], today: date) -> Plan:
    """Compare the catalogue with the price list; writes nothing."""
    own = _operators_prices()
    theirs = [model.model for model in listed if own.find(None, [model.model], _FOREVER) is not None]
    taken = set(theirs)
    kept: defaultdict[str, list[Kept]] = defaultdict(list)
    for row in Price.objects.filter(tenant=None, imported=True).annotate(used=Exists(_USES)):
        rates = Rates(**{name: getattr(row, name) for name in RATES})
        kept[row.model].append(Kept(row.starts, rates, row.used))
    return Plan(changes([model for model in listed if model.model not in taken], kept, today), theirs)


@transaction.atomic
def carry_out(planned: Plan) -> int:
    """Write the changes; returns how many rows were. A row that came into use meanwhile is left alone."""
    written = 0
    for change in planned.changes:
        rates = {name: getattr(change.rates, name) for name in RATES}
        if change.act is Act.ADD:
            _row, made = Price.objects.get_or_create(
                tenant=None,
                model=change.model,
                starts=change.starts,
                defaults={"currency": CURRENCY, "imported": True, **rates},
            )
            written += made
        else:
            rows = Price.objects.filter(tenant=None, imported=True, model=change.model, starts=change.starts)
            written += rows.exclude(Exists(_USES)).update(currency=CURRENCY, **rates)
    if written:
        touch_config()
    return written


def _operators_prices() -> PriceBook:
    imported = set(Price.objects.filter(imported=True).values_list("pk", flat=True))
    rows: list[PriceRow] = [row for row in read_prices({}).prices if row.tenant_id is None and row.id not in imported]
    return PriceBook(prices=tuple(rows))
