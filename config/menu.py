"""The menu of the admin: the pages of the product in the order of its work, cut down to what a person may see."""

from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.functional import Promise
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy

from tenants.scoping import ADMINS, EVERYONE, OPERATIONS, reach_of

Title = str | Promise
# A model's label, or (name of a page, its title, the roles that may see it).
Item = str | tuple[str, Title, frozenset[Any]]

MENU: tuple[tuple[Title, tuple[Item, ...]], ...] = (
    (
        gettext_lazy("Traffic"),
        (
            ("live", gettext_lazy("Live"), OPERATIONS),
            "billing.RequestRecord",
            ("dry_run", gettext_lazy("Dry run"), OPERATIONS),
            ("classifier", gettext_lazy("Classifier"), OPERATIONS),
        ),
    ),
    (
        gettext_lazy("Keys"),
        (
            ("pool", gettext_lazy("Pool"), OPERATIONS),
            "keys.Upstream",
            "keys.UpstreamKey",
            "keys.Account",
            "keys.KeyEvent",
            "keys.WordingRule",
        ),
    ),
    (gettext_lazy("Routing"), ("routing.StrategyGroup", "routing.Route", "routing.RoutingRule")),
    (
        gettext_lazy("Clients"),
        (("start", gettext_lazy("First steps"), ADMINS), "tenants.BusinessLine", "tenants.GatewayKey"),
    ),
    (
        gettext_lazy("Money"),
        (
            ("statements", gettext_lazy("Statements"), EVERYONE),
            "billing.Budget",
            "billing.Price",
            "billing.ExchangeRate",
            "billing.LedgerEntry",
        ),
    ),
    (
        gettext_lazy("Team"),
        ("tenants.Tenant", "tenants.Membership", "auth.User", "tenants.Alert", "tenants.AuditEntry"),
    ),
)


@dataclass(frozen=True, slots=True)
class Entry:
    title: str
    url: str
    current: bool


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    entries: tuple[Entry, ...]

    @property
    def current(self) -> bool:
        """Whether the page that is shown belongs here."""
        return any(entry.current for entry in self.entries)


def menu_of(site: AdminSite, request: HttpRequest) -> list[Section]:
    """Return the sections that hold anything for this person."""
    sections = [
        Section(str(title), tuple(entry for item in items if (entry := _entry(site, request, item)) is not None))
        for title, items in MENU
    ]
    return [section for section in sections if section.entries]


def _entry(site: AdminSite, request: HttpRequest, item: Item) -> Entry | None:
    if isinstance(item, str):
        return _model_entry(site, request, item)
    name, title, roles = item
    reach = reach_of(request.user)
    if not (reach.operator or reach.tenants(roles)):
        return None
    try:
        url = reverse(f"{site.name}:{name}")
    except NoReverseMatch:
        return None
    return Entry(str(title), url, request.path == url)


def _model_entry(site: AdminSite, request: HttpRequest, label: str) -> Entry | None:
    model = apps.get_model(label)
    page = site._registry.get(model)
    if page is None or not page.has_view_permission(request):
        return None
    url = reverse(f"{site.name}:{model._meta.app_label}_{model._meta.model_name}_changelist")
    return Entry(str(capfirst(model._meta.verbose_name_plural)), url, request.path.startswith(url))
