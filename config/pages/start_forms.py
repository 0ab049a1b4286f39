"""The forms of the first steps, with defaults that fit most teams."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.text import slugify
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from keys.core.addresses import base_url_problem
from keys.core.dialect import Dialect
from keys.core.outcome import Cause
from keys.hosts import judge_address
from keys.models import DialectChoice, Upstream
from tenants.adminforms import ScopedForm
from tenants.core.credentials import malformed
from tenants.corewords import core_words
from tenants.formfields import SecretField
from tenants.models import BusinessLine, Tenant, slug_validator

OTHER = "other"


@dataclass(frozen=True, slots=True)
class Preset:
    """A provider as people name it, its dialect and its base address (as of November 2026)."""

    title: str
    dialect: Dialect
    base_url: str


PRESETS = {
    "openai": Preset("OpenAI", Dialect.OPENAI, "https://api.openai.com/v1"),
    "anthropic": Preset("Anthropic", Dialect.ANTHROPIC, "https://api.anthropic.com/v1"),
    "gemini": Preset("Gemini", Dialect.GEMINI, "https://generativelanguage.googleapis.com/v1beta"),
    "openrouter": Preset("OpenRouter", Dialect.OPENAI, "https://openrouter.ai/api/v1"),
    "deepseek": Preset("DeepSeek", Dialect.OPENAI, "https://api.deepseek.com/v1"),
}


class TeamForm(ScopedForm):
    """A tenant by its name; the slug follows from it where none is written."""

    class Meta:
        model = Tenant
        fields = ("name", "slug", "timezone", "currency")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **options})
        self.fields["slug"].required = False
        self.fields["slug"].help_text = _("Short name in files and addresses. Empty = made from the name.")
        self.fields["timezone"].help_text = _("Days and months of the bill begin here, such as Asia/Shanghai.")

    def clean_slug(self) -> str:
        taken = Tenant.objects.values_list("slug", flat=True)
        return self.cleaned_data["slug"] or free_slug(self.cleaned_data.get("name", ""), taken, "team")


class SecretForm(forms.Form):
    """One upstream key. It is never rendered back."""

    secret = SecretField(label=gettext_lazy("API key"), required=True)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **options})

    def clean_secret(self) -> str:
        """Refuse what cannot be sent as a header; the complaint never shows it."""
        secret: str = self.cleaned_data["secret"]
        if problem := malformed(secret):
            raise ValidationError(_("The secret %(problem)s."), params={"problem": core_words(problem)})
        return secret


class UpstreamForm(SecretForm):
    """A provider from the list, or any other by its dialect and address."""

    preset = forms.ChoiceField(
        label=gettext_lazy("provider"),
        widget=forms.RadioSelect,
        choices=[(name, preset.title) for name, preset in PRESETS.items()] + [(OTHER, gettext_lazy("another relay"))],
        initial="openai",
    )
    dialect = forms.ChoiceField(label=gettext_lazy("dialect"), choices=DialectChoice.choices, required=False)
    base_url = forms.CharField(
        label=gettext_lazy("base address"),
        required=False,
        max_length=500,
        help_text=gettext_lazy("Such as https://relay.example/v1"),
    )
    name = forms.CharField(
        label=gettext_lazy("name"),
        required=False,
        max_length=64,
        validators=[slug_validator],
        help_text=gettext_lazy("What you will see it by. Empty = the provider's name."),
    )
    field_order = ("preset", "dialect", "base_url", "name", "secret")

    def __init__(self, tenant: Tenant, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tenant = tenant
        self.warning = ""

    def clean_name(self) -> str:
        taken = Upstream.objects.for_tenant(self.tenant).values_list("name", flat=True)
        typed: str = self.cleaned_data["name"]
        if typed and typed in taken:
            raise ValidationError(_("There is an upstream of this name already."))
        return typed or free_slug(self.data.get("preset", ""), taken, "upstream")

    def clean(self) -> dict[str, Any]:
        """Fill in what the provider says, and judge the address like the page of an upstream does."""
        super().clean()
        preset = PRESETS.get(self.cleaned_data.get("preset", ""))
        if preset is not None:
            self.cleaned_data |= {"dialect": preset.dialect.value, "base_url": preset.base_url}
        elif not self.cleaned_data.get("dialect"):
            self.cleaned_data["dialect"] = Dialect.OPENAI.value
        self._judge(self.cleaned_data.get("base_url", "").strip())
        return self.cleaned_data

    def _judge(self, url: str) -> None:
        if not url:
            self.add_error("base_url", _("Another relay needs its address."))
            return
        if problem := base_url_problem(url):
            words = {"problem": core_words(problem)}
            self.add_error("base_url", ValidationError(_("The address %(problem)s."), params=words))
            return
        self.cleaned_data["base_url"] = url
        verdict = judge_address(url)
        if verdict.problem:
            self.add_error("base_url", core_words(verdict.problem))
        self.warning = core_words(verdict.warning) if verdict.warning else ""


class LineForm(forms.Form):
    """A business line by its name."""

    name = forms.CharField(
        label=gettext_lazy("name"), max_length=200, help_text=gettext_lazy("Who will call, such as Support bot.")
    )
    slug = forms.CharField(
        label=gettext_lazy("slug"),
        required=False,
        max_length=64,
        validators=[slug_validator],
        help_text=gettext_lazy("Short name in bills and rules. Empty = made from the name."),
    )

    def __init__(self, tenant: Tenant, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **options})
        self.tenant = tenant

    def clean_slug(self) -> str:
        taken = BusinessLine.objects.for_tenant(self.tenant).values_list("slug", flat=True)
        typed: str = self.cleaned_data["slug"]
        if typed and typed in taken:
            raise ValidationError(_("There is a line of this slug already."))
        return typed or free_slug(self.cleaned_data.get("name", ""), taken, "line")


def free_slug(name: str, taken: Collection[str], otherwise: str) -> str:
    """Return a slug made from a name, or from `otherwise` when nothing of it is left; numbered when it is taken."""
    base = slugify(name)[:56].strip("-_") or otherwise
    known = set(taken)
    numbered = (f"{base}-{n}" for n in range(2, len(known) + 3))
    return base if base not in known else next(slug for slug in numbered if slug not in known)


def advice(cause: Cause) -> str:
    """Return what to do after a test of a key that ended like this; "" where there is nothing to do."""
    words = {
        Cause.SERVED: "",
        Cause.AUTH_INVALID: _("The provider does not know this key: copy it again, whole, or make a new one there."),
        Cause.PERMISSION_DENIED: _("The key is known but may not list models: look at its rights at the provider."),
        Cause.INSUFFICIENT_BALANCE: _("The key is good; its account has no money left. Top it up at the provider."),
        Cause.QUOTA_EXHAUSTED: _("The key is good; its quota is used up. Wait, or raise it at the provider."),
        Cause.RATE_LIMITED: _("The key is good; it is asked too often right now. Test again in a minute."),
        Cause.MODEL_UNAVAILABLE: _("Nothing is found at this address: compare its path with the provider's manual."),
        Cause.CONNECTION: _("Nobody answers at this address: compare it with the provider's manual, and see whether"
                            " this machine may reach it."),
        Cause.TIMEOUT: _("The address answers too slowly or not at all. Test again; then see whether a firewall is"
                         " in between."),
    }  # fmt: skip
    return words.get(cause, _("The provider has trouble of its own, or the address belongs to something else."
                              " Test again in a minute."))  # fmt: skip
