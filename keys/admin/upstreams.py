"""Upstreams."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Count, Q
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.text import format_lazy
from django.utils.timezone import now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from keys.adminfields import (
    TIMEOUTS,
    USAGE_SEMANTICS,
    ModelListField,
    check_header,
    check_timeout,
    read_scalar,
    show_scalar,
)
from keys.core.addresses import base_url_problem
from keys.core.pool import Pool
from keys.hosts import HostVerdict, judge_address
from keys.models import Upstream, UpstreamKey
from keys.standing import pool_of, state_chip
from tenants.adminbase import LinkedRows, ScopedRelatedFilter, TenantScopedAdmin
from tenants.adminchips import chip, listing, tail
from tenants.adminforms import ScopedForm
from tenants.core.decimals import trimmed
from tenants.corewords import core_words
from tenants.formfields import HiddenPairsField, LinesField, PairsField
from tenants.scoping import OPERATIONS


class UpstreamForm(ScopedForm):
    verdict: HostVerdict | None = None  # judged before the transaction began

    model_list = ModelListField(
        label=gettext_lazy("models"),
        help_text=gettext_lazy(
            "One a line; or auto = read from the upstream daily; empty = not known, every one tried."
        ),
    )
    extra_models = LinesField(label=gettext_lazy("further models"), help_text=gettext_lazy("One a line."))
    aliases = PairsField(
        label=gettext_lazy("aliases"), help_text=gettext_lazy("One a line: client's name = upstream's name.")
    )
    headers = HiddenPairsField(
        label=gettext_lazy("extra headers"),
        check=check_header,
        help_text=gettext_lazy("One a line: Name: value. Values are not shown again; … keeps one."),
    )
    timeouts = PairsField(
        label=gettext_lazy("timeouts"),
        read=read_scalar,
        show=show_scalar,
        check=check_timeout,
        help_text=format_lazy(
            "{}{}", gettext_lazy("One a line, in seconds: "), " / ".join(f"{name} = …" for name in TIMEOUTS)
        ),
    )
    usage_semantics = forms.ChoiceField(
        label=gettext_lazy("usage semantics"),
        required=False,
        choices=[(name, name or gettext_lazy("found out from the answers")) for name in USAGE_SEMANTICS],
        help_text=gettext_lazy("Whether reported input tokens include the cached ones."),
    )

    class Meta:
        model = Upstream
        fields = "__all__"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if isinstance(hidden := self.fields.get("headers"), HiddenPairsField):
            hidden.stored = dict(self.instance.headers)
        if "base_url" in self.fields:
            self.fields["base_url"].help_text = _(
                "Such as https://api.example.com/v1. A version at the end is kept, else the dialect's own is added;"
                " a trailing # means exactly this."
            )

    def clean_base_url(self) -> str:
        """Refuse addresses that are malformed or lead inside."""
        typed: str = self.cleaned_data["base_url"].strip()
        if problem := base_url_problem(typed):
            raise ValidationError(_("The address %(problem)s."), params={"problem": core_words(problem)})
        if self.verdict is not None and self.verdict.problem:
            raise ValidationError(core_words(self.verdict.problem))
        return typed


class UpstreamKeyRows(LinkedRows):
    model = UpstreamKey
    fields = ("name", "shown_tail", "state", "account", "weight", "rpm", "concurrency")
    readonly_fields = fields
    readers = OPERATIONS
    extra = 0

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).select_related("account").defer("secret")

    @admin.display(description=gettext_lazy("key"))
    def shown_tail(self, row: UpstreamKey) -> SafeString:
        return tail(row.tail)

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: UpstreamKey) -> SafeString:
        pool = self._pool(row)
        return state_chip(row, pool.sheet(row.pk, row.account_id), pool.now)

    def _pool(self, row: UpstreamKey) -> Pool:
        """Read the states of all keys of the upstream once; an inline lives for one request."""
        known: Pool | None = getattr(self, "_known_pool", None)
        if known is None:
            known = pool_of(UpstreamKey.objects.filter(upstream=row.upstream_id).defer("secret"), now())
            self._known_pool = known
        return known


@admin.register(Upstream)
class UpstreamAdmin(TenantScopedAdmin):
    form = UpstreamForm
    readers = OPERATIONS
    list_display = ("name", "tenant", "state", "dialect", "base_url", "key_count", "models", "multiplier")
    list_filter = (("tenant", ScopedRelatedFilter), "dialect", "enabled")
    list_select_related = ("tenant",)
    ordering = ("tenant", "name")  # said here: counting the keys drops the order of the model
    search_fields = ("name", "base_url")
    autocomplete_fields = ("tenant",)
    hidden_values = frozenset({"headers"})
    inlines = (UpstreamKeyRows,)
    change_form_template = "admin/keys/upstream/change_form.html"
    fieldsets = (
        (None, {"fields": ("tenant", "name", "dialect", "base_url", "enabled")}),
        (
            gettext_lazy("Models"),
            {"fields": ("model_list", "extra_models", "models_read", "aliases", "max_context_tokens")},
        ),
        (gettext_lazy("Keys and cost"), {"fields": ("rotation", "cost_multiplier")}),
        (
            gettext_lazy("Wire"),
            {"fields": ("auth", "headers", "timeouts", "usage_semantics"), "classes": ("collapse",)},
        ),
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return (*super().get_readonly_fields(request, obj), "models_read", "header_names")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """A reader sees the names of the headers, never their values."""
        if obj is None or self.has_change_permission(request, obj):
            return self.fieldsets
        swap = {"headers": "header_names"}
        return [
            (title, {**options, "fields": tuple(swap.get(str(name), name) for name in options["fields"])})
            for title, options in self.fieldsets
        ]

    def get_queryset(self, request: HttpRequest) -> Any:
        rows = super().get_queryset(request)
        return rows.annotate(usable_keys=Count("keys", filter=Q(keys__enabled=True)))

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Look the host up before the transaction begins."""
        typed = request.POST.get("base_url", "").strip()
        verdict = judge_address(typed) if typed and not base_url_problem(typed) else None
        request.host_verdict = verdict  # type: ignore[attr-defined]  # read by get_form
        if verdict is not None and verdict.warning:
            self.message_user(request, core_words(verdict.warning), messages.WARNING)
        return super().changeform_view(request, *args, **kwargs)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        made = super().get_form(request, obj, change, **kwargs)
        made.verdict = getattr(request, "host_verdict", None)  # type: ignore[attr-defined]  # made for this request
        return made

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: Upstream) -> SafeString:
        return chip("good", _("on")) if row.enabled else chip("off", _("off"))

    @admin.display(description=gettext_lazy("keys"), ordering="usable_keys")
    def key_count(self, row: Any) -> int:
        return int(row.usable_keys)

    @admin.display(description=gettext_lazy("cost multiplier"), ordering="cost_multiplier")
    def multiplier(self, row: Upstream) -> str:
        return trimmed(row.cost_multiplier)

    @admin.display(description=gettext_lazy("models"))
    def models(self, row: Upstream) -> str:
        if row.model_list == "auto":
            return _("auto (%(n)s)") % {"n": len(row.read_models)}
        return listing(row.model_list, "–") if row.model_list else _("not known")

    @admin.display(description=gettext_lazy("models read from the upstream"))
    def models_read(self, row: Upstream) -> str:
        return listing(row.read_models, "–", most=20)

    @admin.display(description=gettext_lazy("extra headers"))
    def header_names(self, row: Upstream) -> str:
        return ", ".join(row.headers) or "–"
