"""The period filter of big tables: a range on the indexed day column, seven days unless asked otherwise."""

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.timezone import now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

DEFAULT = "7d"


class PeriodFilter(admin.SimpleListFilter):
    """Days are those of each tenant's zone, as stored; today is UTC's, one day wider on both sides."""

    title = gettext_lazy("period")
    parameter_name = "period"

    def lookups(self, request: HttpRequest, _model_admin: Any) -> list[tuple[str, Any]]:
        named = [str(value) for name, value in sorted(request.GET.items()) if name.startswith("day") and value]
        self.named_days = list(dict.fromkeys(named))
        return [
            ("1d", _("today")),
            (DEFAULT, _("7 days")),
            ("30d", _("30 days")),
            ("90d", _("90 days")),
            ("all", _("all")),
        ]

    def choices(self, changelist: Any) -> Any:
        """Leave out Django's own "All": the default is a period. Days that a link names stand first."""
        chosen = self.value() or DEFAULT
        if self.named_days:
            span = " – ".join(self.named_days)
            yield {"selected": True, "query_string": changelist.get_query_string(), "display": span}
        for value, title in self.lookup_choices:
            yield {
                "selected": chosen == value and not self.named_days,
                "query_string": changelist.get_query_string({self.parameter_name: value}, remove=["day"]),
                "display": title,
            }

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        chosen = self.value() or (DEFAULT if not _is_pointed(request) else "all")
        days = {"1d": 1, "7d": 7, "30d": 30, "90d": 90}.get(chosen)
        if days is None:
            return queryset
        return queryset.filter(day__gte=now().date() - timedelta(days=days - 1))


def _is_pointed(request: HttpRequest) -> bool:
    """A search by id, or a link that names its days, is not cut to the last week."""
    return bool(request.GET.get("q")) or any(name.startswith("day") for name in request.GET)
