"""What the lists of requests and attempts are narrowed by beyond their columns, and what a narrowed list adds up to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from billing.kinds import ATTEMPTS, RECORDS, of_model
from billing.models.fields import MoneySum
from keys.core.outcome import Cause
from keys.standing import cause_words
from tenants.models import BusinessLine
from tenants.scoping import EVERYONE, reach_of, scoped

_IDS_MAX = 1000


class LineFilter(admin.SimpleListFilter):
    """Lines by id: the record refers to its line without a constraint, so a deleted line must not be joined."""

    title = gettext_lazy("line")
    parameter_name = "line_id"
    OFFERED_MAX = 200

    def lookups(self, request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        lines = scoped(BusinessLine.objects.all(), reach_of(request.user), EVERYONE).select_related("tenant")
        return [(str(line.pk), str(line)) for line in lines[: self.OFFERED_MAX]]

    def queryset(self, _request: HttpRequest, queryset: Any) -> Any:
        """Keep the rows of one line, or of several ids with commas between."""
        given = (self.value() or "").split(",")[:_IDS_MAX]
        ids = [int(text) for text in given if text.isascii() and text.isdigit()]
        if not ids:
            return queryset
        return queryset.filter(line_id=ids[0]) if len(ids) == 1 else queryset.filter(line_id__in=ids)


class _Kinds(admin.SimpleListFilter):
    """Sets of rows by name, as the home page counts them."""

    title = gettext_lazy("counted as")
    parameter_name = "kind"
    sets: Mapping[str, Q]

    def queryset(self, _request: HttpRequest, queryset: Any) -> Any:
        chosen = self.sets.get(self.value() or "")
        return queryset if chosen is None else queryset.filter(chosen)


class RecordKinds(_Kinds):
    sets = RECORDS

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [
            ("admitted", _("calls")),
            ("billed", _("billed")),
            ("failed", _("failed")),
            ("lost", _("lost: no fault of the client")),
            ("cancelled", _("cancelled")),
            ("judged", _("answered or lost")),
            ("retried", _("more than one attempt")),
            ("rescued", _("rescued by failover")),
            ("refused", _("refused by a limit")),
            ("unpriced", _("unpriced")),
            ("estimated", _("estimated")),
            ("timed", _("with first content")),
            ("talking", _("in a conversation")),
        ]


class AttemptKinds(_Kinds):
    sets = ATTEMPTS

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [
            ("tried", _("really tried")),
            ("failed", _("failed by the key")),
            ("moved_on", _("followed by another key")),
        ]


class _Known(admin.SimpleListFilter):
    """The values that a column may have, by heart: Django's own filter would read the whole table for them."""

    values: tuple[str, ...] = ()

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [(value, cause_words(value)) for value in self.values]

    def queryset(self, _request: HttpRequest, queryset: Any) -> Any:
        value = self.value()
        return queryset.filter(**{str(self.parameter_name): value}) if value in self.values else queryset


class OutcomeFilter(_Known):
    title = gettext_lazy("outcome")
    parameter_name = "outcome"
    values = tuple(cause.value for cause in Cause)


class SkippedFilter(_Known):
    title = gettext_lazy("skipped")
    parameter_name = "skipped"
    values = ("cooling", "dead", "busy", "model", "context", "quota")


class ModelFilter(admin.SimpleListFilter):
    """The model that a call is counted under: the one served, else the one asked. Shown while it narrows."""

    title = gettext_lazy("model")
    parameter_name = "model"

    def lookups(self, request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        name = request.GET.get(self.parameter_name)
        return [(name, name)] if name else []

    def queryset(self, _request: HttpRequest, queryset: Any) -> Any:
        name = self.value()
        return queryset.filter(of_model(name)) if name else queryset


@dataclass(frozen=True, slots=True)
class Total:
    """What the rows of a list come to in one currency."""

    currency: str
    rows: int
    charge: Decimal | None
    cost: Decimal | None
    waste: Decimal | None


def totals(rows: "QuerySet[Any]") -> Sequence[Total]:
    """Add up a narrowed list of requests, by currency. The caller makes sure that it is short enough."""
    summed = (
        rows.order_by()
        .values("currency")
        .annotate(n=Count("pk"), charged=MoneySum("charge"), paid=MoneySum("cost"), wasted=MoneySum("waste"))
        .order_by("currency")
    )
    return [Total(row["currency"], row["n"], row["charged"], row["paid"], row["wasted"]) for row in summed]
