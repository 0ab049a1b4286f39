"""The sentences at the top of the home page: what needs somebody, each with the way to the row that settles it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings
from django.db.models import Count
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from billing.adminmoney import shown
from billing.core.budget import percent_used
from billing.models import Price, RequestRecord
from config.dashboard.scope import View
from config.pages.budget_bars import Bar
from keys.core.outcome import Cause
from keys.core.pool import Pool, Sheet
from keys.core.state import Status
from keys.models import UpstreamKey
from keys.standing import why_words
from routing.models import Route
from tenants.models import Alert, AlertKind, BusinessLine, GatewayKey
from tenants.scoping import ADMINS

NAMED = 5  # rows named one by one before the rest is only counted
BROKE = (Cause.INSUFFICIENT_BALANCE.value, Cause.QUOTA_EXHAUSTED.value)
_ELSEWHERE = (AlertKind.KEY_DEAD, AlertKind.NO_BALANCE, AlertKind.QUOTA, AlertKind.UNPRICED, AlertKind.BUDGET)
_NEAR = Decimal(80)


@dataclass(frozen=True, slots=True)
class Sentence:
    """`tone`: bad | wait | slow | note. `url` leads to what settles it."""

    tone: str
    text: str
    url: str
    link: str


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of the view's tenants and how they stand."""

    rows: Sequence[UpstreamKey]
    pool: Pool
    slow: Mapping[int, tuple[float, float]] = field(default_factory=dict)  # mean and usual ms, of the marked ones

    def sheets(self) -> Iterator[tuple[UpstreamKey, Sheet]]:
        """Yield the keys that are switched on."""
        return ((key, self.pool.sheet(key.pk, key.account_id)) for key in self.rows if key.enabled)


def sentences(view: View, keys: Keys, bars: Sequence[Bar], behind: datetime | None) -> list[Sentence]:
    """Return what needs somebody, worst first. `behind`: since when the figures of the page are incomplete."""
    found = [
        *_first_steps(view, keys),
        *_dead(keys),
        *_broke(keys),
        *_budgets(view, bars),
        *_slow(keys),
        *_behind(view, behind),
        *_unpriced(view),
        *_alerts(view),
        *_mail(view),
    ]
    order = {"bad": 0, "wait": 1, "slow": 2, "note": 3}
    return sorted(found, key=lambda sentence: order[sentence.tone])


def _dead(keys: Keys) -> Iterator[Sentence]:
    dead = [(key, sheet) for key, sheet in keys.sheets() if sheet.status is Status.DEAD]
    for key, sheet in dead[:NAMED]:
        text = _("Key %(key)s is dead: %(why)s") % {"key": _name(key), "why": why_words(sheet)}
        yield Sentence("bad", text, reverse("admin:keys_upstreamkey_change", args=[key.pk]), _("Look at the key"))
    if len(dead) > NAMED:
        more = len(dead) - NAMED
        text = ngettext("%(n)s more key is dead.", "%(n)s more keys are dead.", more) % {"n": more}
        yield Sentence("bad", text, reverse("admin:pool"), _("Look at the pool"))


def _broke(keys: Keys) -> Iterator[Sentence]:
    seen: set[object] = set()
    for key, sheet in keys.sheets():
        owner = key.account_id or f"key {key.pk}"
        if sheet.status is not Status.COOLING or not sheet.reason.startswith(BROKE) or owner in seen:
            continue
        seen.add(owner)
        name = _("Account %(name)s") % {"name": key.account.name} if key.account is not None else _name(key)
        until = sheet.cooling_left_s
        text = _("%(name)s: %(why)s. Tried again in %(minutes)s min.") % {
            "name": name, "why": why_words(sheet), "minutes": max(1, round(until / 60)),
        }  # fmt: skip
        page = (
            ("admin:keys_account_change", key.account_id)
            if key.account_id
            else ("admin:keys_upstreamkey_change", key.pk)
        )
        yield Sentence("wait", text, reverse(page[0], args=[page[1]]), _("Look at it"))


def _name(key: UpstreamKey) -> str:
    return f"{key.upstream.name} · …{key.tail}"


def _slow(keys: Keys) -> Iterator[Sentence]:
    marked = [key for key in keys.rows if key.enabled and key.pk in keys.slow]
    for key in marked[:NAMED]:
        mean, usual = keys.slow[key.pk]
        text = _("Key %(key)s is slow: %(mean)s ms to first content, usually %(usual)s ms. It is tried last.") % {
            "key": _name(key), "mean": f"{mean:,.0f}", "usual": f"{usual:,.0f}",
        }  # fmt: skip
        yield Sentence("slow", text, reverse("admin:pool"), _("Look at the pool"))
    if len(marked) > NAMED:
        more = len(marked) - NAMED
        text = ngettext("%(n)s more key is slow.", "%(n)s more keys are slow.", more) % {"n": more}
        yield Sentence("slow", text, reverse("admin:pool"), _("Look at the pool"))


def _behind(view: View, behind: datetime | None) -> Iterator[Sentence]:
    if behind is not None:
        since = f"{behind.astimezone(view.zone):%Y-%m-%d %H:%M}"
        text = _("Figures since %(since)s are incomplete: the worker that sums calls up is behind, or not running.")
        url = reverse("admin:billing_requestrecord_changelist")
        yield Sentence("wait", text % {"since": since}, url, _("Look at the requests"))


def _budgets(view: View, bars: Sequence[Bar]) -> Iterator[Sentence]:
    """Judge budgets of lines and teams; those of accounts tell by their alerts."""
    for bar in bars:
        budget = bar.budget
        used = percent_used(budget.amount, bar.spent)
        if budget.account_id is not None or used is None:
            continue
        if used >= min([_NEAR, *(Decimal(percent) for percent in budget.alert_at)]):
            yield _budget_sentence(view, bar, used)


def _budget_sentence(view: View, bar: Bar, used: Decimal) -> Sentence:
    budget, full = bar.budget, used >= Decimal(100)
    text = _("%(name)s has spent %(share)s %% of its budget per %(period)s: %(spent)s of %(amount)s %(currency)s.") % {
        "name": budget.line.name if budget.line is not None else budget.tenant.name,
        "share": int(used),
        "spent": shown(bar.spent, 2),
        "amount": shown(budget.amount, 2),
        "currency": budget.currency,
        "period": budget.get_period_display(),
    }
    if full and budget.hard:
        text += " " + _("New calls are refused.")
    elif not full and bar.exhausted_at is not None and (bar.resets_at is None or bar.exhausted_at < bar.resets_at):
        text += " " + _("At this pace it is used up on %(day)s.") % {
            "day": f"{bar.exhausted_at.astimezone(view.zone):%Y-%m-%d}"
        }
    url = reverse("admin:billing_budget_change", args=[budget.pk])
    return Sentence("bad" if full else "wait", text, url, _("Look at the budget"))


def _unpriced(view: View) -> Iterator[Sentence]:
    rows = (
        RequestRecord.objects.filter(tenant__in=view.tenants, day__gte=view.today - timedelta(days=6))
        .filter(priced=False, status="finished")
        .order_by()
        .values_list("model_served")
        .annotate(calls=Count("pk"))
        .order_by("-calls")[: NAMED + 1]
    )
    for model, calls in rows[:NAMED]:
        text = ngettext(
            "Model %(model)s has no price: %(n)s call of the last 7 days is not billed.",
            "Model %(model)s has no price: %(n)s calls of the last 7 days are not billed.",
            calls,
        ) % {"model": model or "–", "n": calls}
        may = view.reach.operator or view.reach.tenants(ADMINS)
        url = (
            f"{reverse('admin:billing_price_add')}?model={model}" if may else reverse("admin:billing_price_changelist")
        )
        yield Sentence("bad", text, url, _("Add a price") if may else _("Look at the prices"))


def _alerts(view: View) -> Iterator[Sentence]:
    """Say what only the alerts know. Alerts of no tenant are the operator's."""
    elsewhere = _ELSEWHERE if settings.POINTSMAN_MAIL_CONFIGURED else (*_ELSEWHERE, AlertKind.MAIL)
    rows = Alert.objects.filter(closed=None).exclude(kind__in=elsewhere)
    rows = (
        rows if view.reach.operator and len(view.tenants) == len(view.offered) else rows.filter(tenant__in=view.tenants)
    )
    for alert in rows[:NAMED]:
        url = reverse("admin:tenants_alert_change", args=[alert.pk])
        yield Sentence("wait", f"{alert.get_kind_display()}: {alert.text}", url, _("Look at the alert"))


def _mail(view: View) -> Iterator[Sentence]:
    if settings.POINTSMAN_MAIL_CONFIGURED or not (view.reach.operator or view.reach.tenants(ADMINS)):
        return
    text = _("Mail is not set up: alerts are only written to the log. The operator sets EMAIL_URL.")
    yield Sentence("note", text, reverse("admin:tenants_alert_changelist"), _("Look at the alerts"))


def _first_steps(view: View, keys: Keys) -> Iterator[Sentence]:
    """Name the one next step of a new installation or team."""
    reach = view.reach
    if not (reach.operator or reach.tenants(ADMINS)):
        return
    steps = (
        (bool(view.tenants), _("There is no team yet."), "admin:tenants_tenant_add", _("Add a team")),
        (bool(keys.rows), _("There is no upstream key yet."), "admin:keys_upstream_add", _("Add an upstream")),
        (
            _any(Route, view),
            _("No route leads anywhere yet."),
            "admin:routing_strategygroup_add",
            _("Add a group and a route"),
        ),
        (
            _any(BusinessLine, view),
            _("No business line may call yet."),
            "admin:tenants_businessline_add",
            _("Add a line"),
        ),
        (
            _any(GatewayKey, view),
            _("No gateway key was issued yet."),
            "admin:tenants_gatewaykey_add",
            _("Create a gateway key"),
        ),
        (
            Price.objects.exists(),
            _("No price is known: calls are not billed."),
            "admin:billing_price_add",
            _("Add a price"),
        ),
    )
    step = next((step for step in steps if not step[0]), None)
    if step is not None:
        yield Sentence("bad", str(step[1]), reverse(str(step[2])), str(step[3]))


def _any(model: type[Route | BusinessLine | GatewayKey], view: View) -> bool:
    return model.objects.for_tenants(view.tenants).exists()
