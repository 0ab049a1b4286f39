"""What happened to keys and accounts, and the operator's own wording rules."""

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from keys.core.outcome import Cause, Scope
from keys.core.wording import WordingRule as Rule
from keys.core.wording import checked
from keys.models import KeyEvent, WordingRule
from keys.standing import cause_words
from keys.wordings import rule_of
from tenants.adminbase import NOBODY, ReadOnlyAdmin, ScopedRelatedFilter, TenantScopedAdmin
from tenants.adminchips import ago, chip
from tenants.formfields import NumbersField
from tenants.scoping import OPERATIONS

TONES = {"healthy": "good", "cooling": "wait", "dead": "bad"}


@admin.register(KeyEvent)
class KeyEventAdmin(ReadOnlyAdmin):
    readers = OPERATIONS
    list_display = ("when", "about", "change", "why", "message", "request_id", "tenant")
    list_filter = ("after", ("tenant", ScopedRelatedFilter))
    list_select_related = ("tenant", "upstream_key__upstream", "account")
    extra_lookups = frozenset({"upstream_key__id__exact", "account__id__exact"})
    fields = ("at", "tenant", "about", "before", "after", "why", "message", "until", "request_id")

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
        return chip(TONES.get(row.after, "note"), _(row.after), title=f"{row.before} → {row.after}")

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
        choices=[(cause.value, cause.value) for cause in Cause if cause not in {Cause.SERVED, Cause.ABORTED}],
    )
    scope = forms.ChoiceField(
        label=gettext_lazy("scope"),
        required=False,
        choices=[("", gettext_lazy("as the class has it")), *((scope.value, scope.value) for scope in Scope)],
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
            raise ValidationError(str(problem)) from None

    def clean(self) -> dict[str, Any]:
        """Hold the whole row to what the classifier can read."""
        super().clean()
        if not self.errors:
            names = ("name", "field", "pattern", "cause", "scope", "reason", "statuses")
            try:
                self.rule = rule_of(WordingRule(**{name: self.cleaned_data.get(name) or "" for name in names}))
            except (ValueError, TypeError) as problem:
                raise ValidationError(str(problem)) from None
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
