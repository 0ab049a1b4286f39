"""The price list and the exchange rates, read from the database as one frozen value."""

from collections.abc import Mapping
from zoneinfo import ZoneInfo

from billing.core.pricing import PriceBook, PriceRow, RateRow
from billing.models import ExchangeRate, Price
from tenants.models import Tenant


def read_prices(zones: Mapping[int, str] | None = None) -> PriceBook:
    """Return all prices and rates. `zones` maps tenant id -> name of its time zone; None = read them."""
    if zones is None:
        zones = dict(Tenant.objects.values_list("pk", "timezone"))
    return PriceBook(
        prices=tuple(
            PriceRow(
                id=row.pk,
                tenant_id=row.tenant_id,
                model=row.model,
                unit=row.unit,
                currency=row.currency,
                input=row.input,
                cached_input=row.cached_input,
                cache_write=row.cache_write,
                cache_write_1h=row.cache_write_1h,
                output=row.output,
                call=row.call,
                starts=row.starts,
            )
            for row in Price.objects.all()
        ),
        rates=tuple(RateRow(row.source, row.target, row.rate, row.starts) for row in ExchangeRate.objects.all()),
        zones={pk: ZoneInfo(name) for pk, name in zones.items()},
    )
