"""The form of a routing rule: a field per condition, checked as the declarative file is."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from keys.models import DialectChoice
from routing.adminorder import PlaceField
from routing.core.conditions import FLAGS, GLOBS, NAMES, listed
from routing.core.rule_checks import validate_rule
from routing.models import Route, RoutingRule
from routing.rulefields import ComparisonsField, HoursField, SetField
from tenants.adminforms import ScopedForm
from tenants.corewords import core_words

_ANY, _YES, _NO = "", "yes", "no"
_FLAG_CHOICES = [(_ANY, _("either way")), (_YES, _("yes")), (_NO, _("no"))]
PREFIX = "when_"
WHEN_FIELDS = tuple(f"{PREFIX}{name}" for name in NAMES)


def _flag(label: Any) -> forms.ChoiceField:
    return forms.ChoiceField(label=label, choices=_FLAG_CHOICES, required=False)


def _globs(label: Any, example: str) -> forms.CharField:
    widget = forms.TextInput(attrs={"class": "vTextField", "placeholder": example, "spellcheck": "false"})
    return forms.CharField(label=label, required=False, widget=widget)


class RuleForm(ScopedForm):
    """Commas separate alternatives. Conditions that the form does not know are kept as they are stored."""

    constraint_words = {
        "rule_name_once_per_route": _("The route has a rule of this name already."),
        "rule_has_at_most_one_target": _("Choose one target: a group, an upstream, or a refusal."),
    }

    position = PlaceField(help_text=_("Rules are tried from the top. Empty = at the end."))
    when_model = _globs(_("model"), "gpt-*, claude-*")
    when_line = _globs(_("line"), "nightly-*")
    when_key = _globs(_("gateway key"), "prod")
    when_upstream = _globs(_("upstream"), "official")
    when_dialect = forms.MultipleChoiceField(
        label=_("dialect"), choices=DialectChoice.choices, required=False, widget=forms.CheckboxSelectMultiple
    )
    when_stream = _flag(_("streamed"))
    when_tools = _flag(_("offers tools"))
    when_image = _flag(_("sends an image"))
    when_thinking = _flag(_("thinking"))
    when_input_tokens = ComparisonsField(label=_("input tokens"))
    when_max_tokens = ComparisonsField(label=_("max tokens"), help_text=_("A request that states none never matches."))
    when_tool_count = ComparisonsField(label=_("number of tools"))
    when_hours = HoursField(
        label=_("hours"),
        help_text=_("In the team's time zone; no day ticked = every day. A window over midnight belongs to the day on"
                    " which it begins."),
    )  # fmt: skip
    set = SetField(
        label=_("set"),
        help_text=_("Fields of the request's body: numbers, true and false as they are, anything else is text. A value"
                    " shown as … is a list or an object that the file set; it is kept."),
    )  # fmt: skip

    class Meta:
        model = RoutingRule
        fields = ("route", "position", "name", "enabled", "set", "group", "upstream", "deny", "proceed")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name, value in self.instance.when.items():
            self.initial[f"{PREFIX}{name}"] = _initial(name, value)
        if "set" in self.fields:
            self.fields["set"].stored = self.instance.set  # type: ignore[attr-defined]  # a SetField
        if self.instance.pk is not None:  # its place is changed on the route, among the others
            self.fields.pop("position", None)
        else:
            self.initial["position"] = first_free_place(self.initial.get("route"))

    def clean(self) -> dict[str, Any] | None:
        super().clean()
        data = self.cleaned_data
        if not any(name in self.fields for name in WHEN_FIELDS):
            return data
        when = {name: value for name in NAMES if (value := self._condition(name)) not in ("", [])}
        group, upstream = data.get("group"), data.get("upstream")
        then: dict[str, Any] = {
            "group": group.name if group is not None else None,
            "upstream": upstream.name if upstream is not None else None,
            "deny": data.get("deny") or None,
            "set": data.get("set") or None,
            "continue": bool(data.get("proceed")),
        }
        if not self.errors:
            for error in validate_rule(when, then):
                self._place(error)
        unknown = {name: value for name, value in self.instance.when.items() if name not in NAMES}
        self.instance.when = when | unknown
        return data

    def _condition(self, name: str) -> Any:
        """Return a condition as it is stored: one that nobody changed keeps its spelling."""
        field = f"{PREFIX}{name}"
        if field not in self.fields or (name in self.instance.when and field not in self.changed_data):
            return self.instance.when.get(name, "")
        return _value(name, self.cleaned_data.get(field))

    def _place(self, error: str) -> None:
        """Put a complaint (`when.hours: ...`) at the field that it is about."""
        path, _sep, text = error.partition(": ")
        part, _dot, name = path.partition(".")
        if error.startswith("then: "):
            field = self._chosen_last()
            text = error  # its words speak of several fields
        else:
            field = f"{PREFIX}{name}" if part == "when" else {"continue": "proceed"}.get(name, name.partition(".")[0])
        self.add_error(field if field in self.fields else None, core_words(text if field in self.fields else error))

    def _chosen_last(self) -> str:
        """Return the last target that is filled in: the one too many; the group when there is none."""
        filled = [name for name in ("group", "upstream", "deny") if self.cleaned_data.get(name)]
        return filled[-1] if filled else "group"


def first_free_place(route: Any) -> int | None:
    """Return where a new rule belongs: before the rule that takes everything; None = at the end.

    `route` is a Route or its id, as a link gave it.
    """
    pk = route.pk if isinstance(route, Route) else route
    if pk is None or not str(pk).isdecimal():
        return None
    for rank, rule in enumerate(RoutingRule.objects.filter(route_id=int(pk)).order_by("position", "pk")):
        decides = rule.group_id is not None or rule.upstream_id is not None or rule.deny
        if rule.enabled and decides and not rule.proceed and not rule.when:
            return rank
    return None


def _initial(name: str, value: Any) -> Any:
    if name in FLAGS:
        return _YES if value else _NO
    if name in GLOBS:
        return ", ".join(str(item) for item in listed(value))
    return [str(item) for item in listed(value)] if name == "dialect" else value


def _value(name: str, given: Any) -> Any:
    """Return the condition as it is stored, "" for none: a single item alone, several as a list."""
    if name in FLAGS:
        return given == _YES if given else ""
    items = str(given or "").split(",") if name in GLOBS else list(given or ())
    items = [item.strip() for item in items if item.strip()]
    return "" if not items else items[0] if len(items) == 1 else items
