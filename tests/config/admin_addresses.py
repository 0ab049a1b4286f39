"""Every address that Django's application serves, and what is asked of each about a team's rows.

A new page without a case here fails test_admin_addresses.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils.timezone import now

from keys.models import UpstreamKey
from tenants.models import GatewayKey
from tests.config.admin_world import Team

MODEL_PAGES = ("changelist", "add", "change", "history", "delete")
# Served to whom has not logged in.
OPEN = {"admin:login", "admin:login_code", "admin:welcome", "admin:jsi18n", "set_language"}
# Nothing of a team is there to be asked for; test_admin_login.py, test_headers.py and others look at them.
NO_TEAM = OPEN | {
    "admin:security", "admin:logout", "admin:password_change", "admin:password_change_done", "admin:app_list",
    "schema", "docs",
}  # fmt: skip
# Django's redirects: to the admin, to a row's page (walked under its name), to the login.
UNNAMED = {"", "favicon.ico", "<path:object_id>/", "(?P<url>.*)$"}
OLD_SECRET = "sk-old-never-shown-{}-0123456789abcdef"


@dataclass(frozen=True)
class Ask:
    """One address about a team's rows, and the form that would write to them. The search for errors gets both ways."""

    url: str
    data: dict[str, Any] = field(default_factory=dict)


def served(patterns: Any = None, space: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name (with its namespace) and the pattern of every address."""
    for entry in get_resolver().url_patterns if patterns is None else patterns:
        if isinstance(entry, URLResolver):
            inner = f"{space}{entry.namespace}:" if entry.namespace else space
            yield from served(entry.url_patterns, inner)
        elif isinstance(entry, URLPattern):
            yield (f"{space}{entry.name}" if entry.name else "", str(entry.pattern))


def keep_old_secrets(made: Team) -> None:
    """Let a gateway key and an upstream key be in the middle of a rotation."""
    until = now() + timedelta(days=1)
    GatewayKey.objects.filter(pk=made.gateway_key.pk).update(
        old_digest=f"old-{made.mark}", old_last4="wxyz", old_until=until
    )
    key = UpstreamKey.objects.get(pk=made.rows["keys.UpstreamKey"].pk)
    key.old_secret, key.old_tail, key.old_until = OLD_SECRET.format(made.mark), "uvwxyz", until
    key.old_digest = f"old-{made.mark}"
    key.save()


def model_asks(made: Team) -> dict[str, list[Ask]]:
    """Return the five pages of every model, asked about a team's row."""
    found: dict[str, list[Ask]] = {}
    for model in admin.site._registry:
        name, pk = f"admin:{model._meta.app_label}_{model._meta.model_name}", made.rows[model._meta.label].pk
        acted = {"action": "delete_selected", "_selected_action": [pk], "post": "yes"}
        for page in MODEL_PAGES:
            listed = page in {"changelist", "add"}
            url = reverse(f"{name}_{page}", args=[] if listed else [pk])
            found[f"{name}_{page}"] = [Ask(url, acted if page == "changelist" else {"post": "yes"})]
    return found


def asks(made: Team) -> dict[str, list[Ask]]:
    """Return what is asked about a team's rows, by the name of the address."""
    pages = {**_pages(made), **_key_pages(made), **_statement_pages(made), **model_asks(made)}
    for name, action, label in (
        ("tenants_gatewaykey", "revoke_selected", "tenants.GatewayKey"),
        ("tenants_membership", "invite_selected", "tenants.Membership"),
        *(("keys_upstreamkey", f"{deed}_selected", "keys.UpstreamKey") for deed in ("test", "enable", "disable")),
        ("auth_user", "unlock_selected", "auth.User"),
        ("auth_user", "remove_factors", "auth.User"),
    ):
        url = reverse(f"admin:{name}_changelist")
        pages[f"admin:{name}_changelist"] += [Ask(url, {"action": action, "_selected_action": [made.rows[label].pk]})]
    return pages


def _pages(made: Team) -> dict[str, list[Ask]]:
    rows, team = made.rows, made.tenant.pk
    line, record = made.line.pk, rows["billing.RequestRecord"]
    upstream, account = rows["keys.Upstream"].pk, rows["keys.Account"].pk
    route, rule = rows["routing.Route"].pk, rows["routing.RoutingRule"].pk
    start, dry, live = reverse("admin:start"), reverse("admin:dry_run"), reverse("admin:live")
    paste = reverse("admin:pool_paste")
    chooser = reverse("admin:autocomplete") + "?app_label=tenants&model_name=gatewaykey&field_name=line&term="
    steps = ("tenant", "upstream", "test", "replace", "skip", "group", "line", "key")
    typed = {"secret": "sk-typed-0123456789abcdef", "name": "typed", "slug": "typed", "preset": "openai"}
    asked = {"line": line, "dialect": "openai", "model": "gpt-4o", "session": "s"}
    return {
        "admin:index": [Ask(reverse("admin:index") + f"?team={team}&line={line}&days=90"), Ask(reverse("admin:index"))],
        "admin:start": [
            *(Ask(f"{start}?team={team}", {"step": step, **typed}) for step in steps),
            Ask(f"{start}?team={team}&fragment=1", {"step": "key"}),
        ],
        "admin:pool": [Ask(reverse("admin:pool") + f"?team={team}"), Ask(reverse("admin:pool") + "?fragment=1")],
        "admin:pool_paste": [
            Ask(f"{paste}?upstream={upstream}", {"upstream": upstream, "account": account, "name_prefix": "k",
                                                 "secrets": "sk-pasted-0123456789abcdef"}),
        ],
        "admin:live": [Ask(f"{live}?team={team}"), Ask(f"{live}?team={team}&fragment=1")],
        "admin:live_abort": [Ask(reverse("admin:live_abort"), {"request": f"req_{made.mark}_flight"})],
        "admin:dry_run": [
            Ask(f"{dry}?line={line}", asked),
            Ask(f"{dry}?route={route}&rule={rule}", {**asked, "download": "1"}),
            Ask(f"{dry}?like={record.request_id}"),  # type: ignore[attr-defined]
        ],
        "admin:classifier": [
            Ask(reverse("admin:classifier") + f"?attempt={rows['billing.Attempt'].pk}",
                {"status": 400, "body": "{}", "make": "1", "rule-name": "typed", "rule-field": "message",
                 "rule-pattern": "x", "rule-cause": "rate_limited"}),
        ],
        "admin:audit_csv": [
            Ask(reverse("admin:audit_csv")), Ask(reverse("admin:audit_csv") + f"?tenant__id__exact={team}"),
        ],
        "admin:autocomplete": [Ask(chooser), Ask(f"{chooser}{made.mark[:3]}")],
        "admin:auth_user_password_change": [
            Ask(reverse("admin:auth_user_password_change", args=[rows["auth.User"].pk]),
                {"password1": "a-long-passphrase-7", "password2": "a-long-passphrase-7", "usable_password": "true"}),
        ],
        "admin:view_on_site": [Ask(reverse("admin:view_on_site", args=[1, team]))],
    }  # fmt: skip


def _key_pages(made: Team) -> dict[str, list[Ask]]:
    gateway, upstream = made.gateway_key.pk, made.rows["keys.UpstreamKey"].pk
    rotate, end_old = "admin:tenants_gatewaykey_rotate", "admin:tenants_gatewaykey_end_old"
    replace, deed = "admin:keys_upstreamkey_rotate", "admin:keys_upstreamkey_now"
    deeds = ("test", "revive", "enable", "disable", "use-old", "forget-old", "unheard-of")
    return {
        "admin:tenants_gatewaykey_revoke": [Ask(reverse("admin:tenants_gatewaykey_revoke") + f"?ids={gateway}")],
        rotate: [Ask(reverse(rotate, args=[gateway]), {"overlap": "24", "seen": made.gateway_key.last4})],
        end_old: [Ask(reverse(end_old, args=[gateway]), {"seen": "wxyz"})],
        replace: [
            Ask(reverse(replace, args=[upstream]), {"new_secret": "sk-typed-0123456789abcdef", "keep": keep})
            for keep in ("0", "24")
        ],
        deed: [Ask(reverse(deed, args=[upstream, one]), {"next": "https://elsewhere.example/"}) for one in deeds],
    }


def _statement_pages(made: Team) -> dict[str, list[Ask]]:
    csv, close = reverse("admin:statements_csv"), reverse("admin:statements_close")
    asked = f"?team={made.tenant.pk}&month="
    kinds = ("bill", "requests", "credits")
    statement = made.rows["billing.Statement"].pk
    return {
        "admin:statements": [Ask(reverse("admin:statements") + f"?team={made.tenant.pk}")],
        "admin:statements_csv": [
            *(Ask(f"{csv}{asked}2026-10&kind={kind}") for kind in kinds),
            Ask(f"{csv}{asked}2026-10&line={made.line.slug}"),
        ],
        "admin:statements_close": [Ask(f"{close}{asked}2026-09"), Ask(f"{close}{asked}2026-10")],
        "admin:billing_statement_csv": [Ask(reverse("admin:billing_statement_csv", args=[statement]))],
    }
