"""Upstream keys: secrets go in and never come out; states, test, revive."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from keys.admin.rotation import judge_secret, rotate_view
from keys.adminfields import PolicyField
from keys.core.pool import Sheet
from keys.core.state import Status
from keys.models import UpstreamKey
from keys.panels import panels_of
from keys.probe_words import effect_words, result_words
from keys.prober import probe
from keys.probing import note as note_probe
from keys.services import forget_old_secret, revive, save_key, use_old_secret
from keys.standing import pool_of, rest_words, rests_of, state_chip, why_words
from keys.trail import event_words, events_of
from tenants.adminbase import ScopedRelatedFilter, TenantScopedAdmin
from tenants.adminchips import ago, tail
from tenants.adminforms import ScopedForm
from tenants.formfields import SecretField
from tenants.scoping import OPERATIONS
from tenants.services import BadSecretError, touch_config

TESTED_AT_ONCE = 5


class UpstreamKeyForm(ScopedForm):
    constraint_words = {
        "upstream_key_name_once_per_upstream": gettext_lazy("The upstream has a key of this name already.")
    }
    new_secret = SecretField(label=gettext_lazy("secret"))
    policy = PolicyField(
        label=gettext_lazy("failover policy"),
        base=gettext_lazy(
            "None chosen: the key does as the group says that a request came by, but for what is written here."
        ),
        help_text=gettext_lazy("What this key does otherwise than its group: one a line, name = value."),
    )

    class Meta:
        model = UpstreamKey
        fields = (
            "upstream", "account", "name", "weight", "concurrency", "rpm", "tpm", "per_hour", "per_day",
            "policy", "enabled",
        )  # fmt: skip

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.warning = ""
        if self.instance.pk is not None:
            self.fields.pop("new_secret", None)  # a page of its own replaces it
        elif "new_secret" in self.fields:
            self.fields["new_secret"].required = True

    def clean(self) -> dict[str, Any] | None:
        """Refuse a secret that cannot be used; the complaint never shows it."""
        super().clean()
        secret = self.cleaned_data.get("new_secret")
        if secret:
            try:
                self.warning = judge_secret(secret, self.cleaned_data.get("upstream"), self.instance.pk)
            except ValidationError as problem:
                self.add_error("new_secret", problem)
        return self.cleaned_data


def old_actions(key: UpstreamKey, moment: datetime) -> list[tuple[str, str]]:
    """Return what may be done with the secret before the last rotation."""
    if not key.keeps_old(moment):
        return []
    tail = {"tail": key.old_tail}
    return [("use-old", _("Use …%(tail)s again") % tail), ("forget-old", _("Forget …%(tail)s") % tail)]


def key_actions(key: UpstreamKey, sheet: Sheet) -> list[tuple[str, str]]:
    """Return what may be done to a key now, with the words on its buttons."""
    revivable = sheet.status is not Status.HEALTHY or bool(sheet.strikes)
    return [
        ("test", _("Test now")),
        *([("revive", _("Revive"))] if revivable else []),
        ("disable", _("Switch off")) if key.enabled else ("enable", _("Switch on")),
    ]


@admin.register(UpstreamKey)
class UpstreamKeyAdmin(TenantScopedAdmin):
    form = UpstreamKeyForm
    readers = OPERATIONS
    list_display = ("name", "shown_tail", "upstream", "state", "why", "calls", "failure_rate", "account", "weight")
    list_filter = (("upstream__tenant", ScopedRelatedFilter), ("upstream", ScopedRelatedFilter), "enabled")
    list_select_related = ("upstream__tenant", "account")
    search_fields = ("name", "tail", "upstream__name", "account__name")
    autocomplete_fields = ("upstream", "account")
    actions = ("test_selected", "revive_selected", "enable_selected", "disable_selected")
    change_form_template = "admin/keys/upstreamkey/change_form.html"

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        head: list[str] = ["upstream", "name"]
        if obj is None:
            head += ["new_secret"]
        else:
            head += ["shown_tail", *(["old_kept"] if obj.keeps_old(now()) else []), "state", "why"]
        return [
            (None, {"fields": [*head, "account", "weight", "enabled"]}),
            (
                _("Caps"),
                {
                    "fields": (("rpm", "tpm"), ("per_hour", "per_day"), "concurrency"),
                    "description": _("What this key may be used for; empty = no cap."),
                },
            ),
            (_("Failover"), {"fields": ("policy",), "classes": ("collapse",)}),
            *([(_("History"), {"fields": ("recent_events",)})] if obj is not None else []),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return (*super().get_readonly_fields(request, obj), "shown_tail", "old_kept", "state", "why", "recent_events")

    def get_queryset(self, request: HttpRequest) -> Any:
        """Pages never load the secret; what saves or tests a key reads its row again."""
        return super().get_queryset(request).select_related("upstream__tenant", "account").defer("secret", "old_secret")

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Attach how each listed key stands: one query for all."""
        listed = super().get_changelist_instance(request)
        moment = now()
        pool = pool_of(listed.result_list, moment)
        for row in listed.result_list:
            row.sheet, row.moment = pool.sheet(row.pk, row.account_id), moment
        return listed

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        row: Any = super().get_object(request, object_id, from_field)
        if row is not None:
            row.moment = now()
            row.sheet = pool_of([row], row.moment).sheet(row.pk, row.account_id)
        return row

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Offer the buttons that make sense for the key's state."""
        row = self.get_object(request, object_id)
        deeds = [*key_actions(row, row.sheet), *old_actions(row, row.moment)] if row is not None else []
        panels = panels_of(row) if row is not None else []
        extra = {**(extra_context or {}), "key_actions": deeds, "panels": panels}
        return super().change_view(request, object_id, form_url, extra)

    # --- columns ---

    @admin.display(description=gettext_lazy("key"), ordering="tail")
    def shown_tail(self, row: UpstreamKey) -> SafeString:
        return tail(row.tail)

    @admin.display(description=gettext_lazy("old secret"))
    def old_kept(self, row: UpstreamKey) -> SafeString:
        words = _("is kept and comes back by itself should the new one be refused. It is erased")
        return format_html("{} {} {}", tail(row.old_tail), words, ago(row.old_until))

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: Any) -> Any:
        return state_chip(row, row.sheet, row.moment) if hasattr(row, "sheet") else "–"

    @admin.display(description=gettext_lazy("why"))
    def why(self, row: Any) -> Any:
        if not hasattr(row, "sheet"):
            return "–"
        said = [why_words(row.sheet), *(rest_words(rest) for rest in rests_of(row.sheet, row.moment))]
        return format_html_join(mark_safe("<br>"), "{}", ((part,) for part in said if part)) or "–"

    @admin.display(description=gettext_lazy("calls"))
    def calls(self, row: Any) -> int:
        return int(row.sheet.calls)

    @admin.display(description=gettext_lazy("failures, 1 h"))
    def failure_rate(self, row: Any) -> str:
        return f"{row.sheet.failure_rate_1h:.0%}"

    @admin.display(description=gettext_lazy("latest changes"))
    def recent_events(self, row: UpstreamKey) -> SafeString:
        events = events_of(row)
        if not events:
            return format_html("<p>{}</p>", _("Its state and that of its account have not changed yet."))
        items = ((event_words(event, row),) for event in events)
        return format_html('<ul class="events">{}</ul>', format_html_join("", "<li>{}</li>", items))

    # --- writes ---

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save through the service."""
        save_key(key=obj, secret=form.cleaned_data.get("new_secret") or None)
        if form.warning:
            self.message_user(request, form.warning, messages.WARNING)

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.key_view)
        rotate = never_cache(self.admin_site.admin_view(sensitive_post_parameters("new_secret")(self.rotate)))
        return [
            path("<int:key_id>/<str:action>/now/", view, name="keys_upstreamkey_now"),
            path("<int:key_id>/rotate/", rotate, name="keys_upstreamkey_rotate"),
            *super().get_urls(),
        ]

    def rotate(self, request: HttpRequest, key_id: int) -> HttpResponse:
        """Replace the secret."""
        return rotate_view(self, request, key_id)

    def key_view(self, request: HttpRequest, key_id: int, action: str) -> HttpResponse:
        """Do one thing to one key (POST), then go back to where the button stood."""
        deeds: dict[str, Callable[[HttpRequest, UpstreamKey], None]] = {
            "test": self._test,
            "revive": self._revive,
            "enable": self._enable,
            "disable": self._disable,
            "use-old": self._use_old,
            "forget-old": self._forget_old,
        }
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        key = get_object_or_404(self.writable(request, self.get_queryset(request)), pk=key_id)
        if action not in deeds:
            get_object_or_404(UpstreamKey.objects.none())
        deeds[action](request, key)
        back = request.POST.get("next", "")
        if not url_has_allowed_host_and_scheme(back, {request.get_host()}, require_https=request.is_secure()):
            back = reverse("admin:keys_upstreamkey_change", args=[key.pk])
        return HttpResponseRedirect(back)

    def _test(self, request: HttpRequest, key: UpstreamKey) -> None:
        moment = now()
        whole = UpstreamKey.objects.select_related("upstream").get(pk=key.pk)
        sheet = pool_of([whole], moment).sheet(whole.pk, whole.account_id)
        result = probe(whole, moment)
        note_probe(key=whole, result=result, now=moment)
        level, words = result_words(result, whole.upstream)
        effect = effect_words(result, sheet)
        said = f"{key.upstream.name} · …{key.tail}: {words}"
        self.message_user(request, f"{said.rstrip('.')}. {effect}".strip(), level)

    @transaction.atomic
    def _use_old(self, request: HttpRequest, key: UpstreamKey) -> None:
        try:
            back = use_old_secret(key=key, now=now())
        except BadSecretError:
            back = None
        if back is None:
            text = _("The old secret is not kept any more, or another key of this upstream has it.")
            self.message_user(request, text, messages.WARNING)
            return
        self.note(request, "rotated", back, {"secret": "changed", "old_until": str(back.old_until)})
        self.log_change(request, back, [{"changed": {"fields": ["secret"]}}])
        text = _("%(key)s is used again within 2 seconds; …%(tail)s is kept in its place.")
        names = {"key": f"{back.upstream.name} · …{back.tail}", "tail": back.old_tail}
        self.message_user(request, text % names, messages.SUCCESS)

    @transaction.atomic
    def _forget_old(self, request: HttpRequest, key: UpstreamKey) -> None:
        if forget_old_secret(key=key):
            self.note(request, "changed", key, {"old_secret": "erased"})
            self.log_change(request, key, [{"changed": {"fields": ["old_secret"]}}])
            self.message_user(request, _("…%(tail)s is erased.") % {"tail": key.old_tail}, messages.SUCCESS)

    @transaction.atomic
    def _revive(self, request: HttpRequest, key: UpstreamKey) -> None:
        revive(key=UpstreamKey.objects.get(pk=key.pk))
        self.note(request, "revived", key, {})
        self.log_change(request, key, _("Revived."))
        name = f"{key.upstream.name} · …{key.tail}"
        self.message_user(request, _("%(key)s is usable again.") % {"key": name}, messages.SUCCESS)

    def _enable(self, request: HttpRequest, key: UpstreamKey) -> None:
        self._switch(request, UpstreamKey.objects.filter(pk=key.pk), on=True)

    def _disable(self, request: HttpRequest, key: UpstreamKey) -> None:
        self._switch(request, UpstreamKey.objects.filter(pk=key.pk), on=False)

    @transaction.atomic
    def _switch(self, request: HttpRequest, rows: Any, *, on: bool) -> None:
        changing = list(rows.filter(enabled=not on).select_related("upstream__tenant"))
        if UpstreamKey.objects.filter(pk__in=[row.pk for row in changing]).update(enabled=on):
            touch_config()
        for row in changing:
            self.note(request, "changed", row, {"enabled": on})
            self.log_change(request, row, [{"changed": {"fields": ["enabled"]}}])
        if on:
            words = ngettext("%(n)s key is on now.", "%(n)s keys are on now.", len(changing))
        else:
            words = ngettext("%(n)s key is off now.", "%(n)s keys are off now.", len(changing))
        self.message_user(request, words % {"n": len(changing)}, messages.SUCCESS)

    # --- actions on several ---

    @admin.action(description=gettext_lazy("Test the selected keys now"), permissions=["change"])
    def test_selected(self, request: HttpRequest, rows: Any) -> None:
        """List the models with each; a few at a time, as the page waits for the answers."""
        chosen = list(self.writable(request, rows)[: TESTED_AT_ONCE + 1])
        for key in chosen[:TESTED_AT_ONCE]:
            self._test(request, key)
        if len(chosen) > TESTED_AT_ONCE:
            text = _("Only the first %(n)s were tested.") % {"n": TESTED_AT_ONCE}
            self.message_user(request, text, messages.WARNING)

    @admin.action(description=gettext_lazy("Revive the selected keys"), permissions=["change"])
    def revive_selected(self, request: HttpRequest, rows: Any) -> None:
        """Start a new epoch for each."""
        for key in self.writable(request, rows):
            self._revive(request, key)

    @admin.action(description=gettext_lazy("Switch the selected keys on"), permissions=["change"])
    def enable_selected(self, request: HttpRequest, rows: Any) -> None:
        self._switch(request, self.writable(request, rows), on=True)

    @admin.action(description=gettext_lazy("Switch the selected keys off"), permissions=["change"])
    def disable_selected(self, request: HttpRequest, rows: Any) -> None:
        self._switch(request, self.writable(request, rows), on=False)
