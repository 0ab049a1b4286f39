"""What happened to keys and accounts, and the operator's own wording rules."""

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.functional import lazy
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from keys.core.outcome import Cause, Scope
from keys.core.state import Status
from keys.core.wording import WordingRule as Rule
from keys.core.wording import checked
from keys.models import KeyEvent, WordingRule
from keys.standing import cause_words, status_words
from keys.trail import tone_of
from keys.wordings import rule_of
from tenants.adminbase import NOBODY, ReadOnlyAdmin, ScopedRelatedFilter, TenantScopedAdmin
from tenants.adminchips import ago, chip
from tenants.corewords import core_words
from tenants.formfields import NumbersField
from tenants.scoping import OPERATIONS

SCOPES = (
    (Scope.NONE.value, gettext_lazy("nothing")),
    (Scope.REQUEST.value, gettext_lazy("this request alone")),
    (Scope.KEY.value, gettext_lazy("the key")),
    (Scope.KEY_MODEL.value, gettext_lazy("the key with this model")),
    (Scope.ACCOUNT.value, gettext_lazy("the account (all keys that share its balance)")),
)
_CAUSE = lazy(cause_words, str)


class StateFilter(admin.SimpleListFilter):
    title = gettext_lazy("after")
    parameter_name = "after"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, Any]]:
        return [(status.value, status_words(status)) for status in Status]

    def queryset(self, _request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(after=self.value()) if self.value() else queryset


def _change(row: KeyEvent) -> str:
    return f"{status_words(row.before)} → {status_words(row.after)}"


@admin.register(KeyEvent)
class KeyEventAdmin(ReadOnlyAdmin):
    readers = OPERATIONS
    list_display = ("when", "about", "change", "why", "message", "request_id", "tenant")
    list_filter = (StateFilter, ("tenant", ScopedRelatedFilter))
    list_select_related = ("tenant", "upstream_key__upstream", "account")
    extra_lookups = frozenset({"upstream_key__id__exact", "account__id__exact"})
    fields = ("at", "tenant", "about", "was", "became", "why", "message", "until", "request_id")

    @admin.display(description=gettext_lazy("when"), ordering="at")
    def when(self, row: KeyEvent) -> SafeString:
        return ago(row.at)

    @admin.display(description=gettext_lazy("key or account"))
    def about(self, row: KeyEvent) -> str:
        if row.upstream_key is not None:
            return f"{row.upstream_key.upstream.name} · …{row.upstream_key.tail}"
        return row.account.name if row.account is not None else "–"

    @admin.display(description=gettext_lazy("state"))
    def change(self, row: KeyEvent) -> SafeString:
        return chip(tone_of(row.after), status_words(row.after), title=_change(row))

    @admin.display(description=gettext_lazy("before"))
    def was(self, row: KeyEvent) -> str:
        return status_words(row.before) or "–"

    @admin.display(description=gettext_lazy("after"))
    def became(self, row: KeyEvent) -> str:
        return status_words(row.after) or "–"

    @admin.display(description=gettext_lazy("why"))
    def why(self, row: KeyEvent) -> str:
        return cause_words(row.reason) if row.reason else "–"


class WordingRuleForm(forms.ModelForm):  # type: ignore[type-arg]  # django-stubs' generics do not subscript at run time
    statuses = NumbersField(
        label=gettext_lazy("HTTP statuses"), least=0, most=599, help_text=gettext_lazy("Empty = any; 5 = every 5xx.")
    )
    field = forms.ChoiceField(
        label=gettext_lazy("looks at"),
        choices=[("message", gettext_lazy("the wording")), ("code", gettext_lazy("the error code"))],
    )
    cause = forms.ChoiceField(
        label=gettext_lazy("class"),
        choices=[(cause.value, _CAUSE(cause.value)) for cause in Cause if cause not in {Cause.SERVED, Cause.ABORTED}],
    )
    scope = forms.ChoiceField(
        label=gettext_lazy("scope"),
        required=False,
        choices=[("", gettext_lazy("as the class has it")), *SCOPES],
    )

    rule: Rule | None = None  # as the classifier reads it; set by clean()

    class Meta:
        model = WordingRule
        fields = "__all__"

    def clean_pattern(self) -> str:
        """Hold the pattern to the matcher's rules."""
        pattern: str = self.cleaned_data["pattern"].lower()
        try:
            return checked(pattern)
        except ValueError as problem:
            raise ValidationError(core_words(str(problem))) from None

    def clean(self) -> dict[str, Any]:
        """Hold the whole row to what the classifier can read."""
        super().clean()
        if not self.errors:
            names = ("name", "field", "pattern", "cause", "scope", "reason", "statuses")
            try:
                self.rule = rule_of(WordingRule(**{name: self.cleaned_data.get(name) or "" for name in names}))
            except (ValueError, TypeError) as problem:
                raise ValidationError(core_words(str(problem))) from None
        return self.cleaned_data


@admin.register(WordingRule)
class WordingRuleAdmin(TenantScopedAdmin):
    """Rules for every tenant: the operator's page."""

    form = WordingRuleForm  # type: ignore[assignment]  # no tenant owns it
    readers = NOBODY
    writers = NOBODY
    list_display = ("position", "name", "pattern", "cause", "enabled")
    list_display_links = ("name",)
    search_fields = ("name", "pattern")
    fields = ("name", "position", "enabled", "statuses", "field", "pattern", "cause", "scope", "reason")
