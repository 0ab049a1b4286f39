"""The classifier's workbench: paste an upstream's answer, see what it means and why, make a rule of it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.timezone import now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from config.pages import unmatched
from config.pages.classifier_words import (
    Answer,
    client_gets,
    effect_words,
    evidence_words,
    scope_words,
    verdict_words,
)
from config.pages.dryrun import DIALECTS
from keys.admin.history import WordingRuleForm
from keys.core.body import Kind
from keys.core.classify import classify
from keys.core.dialect import Dialect
from keys.core.evidence import Evidence, evidence_of
from keys.core.outcome import Outcome, Phase, Reply
from keys.core.policy import PRESETS, Policy, overridden
from keys.core.redact import redact
from keys.core.spotlight import Spot, spots, suggested
from keys.core.wording import Rules, WordingRule
from keys.standing import cause_words
from keys.wordings import read_rules
from tenants.adminchips import duration
from tenants.scoping import OPERATIONS, reach_of
from tenants.services import audit, touch_config

BODY_MAX = 64 * 1024
_STATUS_LINE = re.compile(r"HTTP/[\d.]+ (\d{3})\b")
_NOT_NAME = re.compile(r"[^a-z0-9]+")
PHASES = (
    (Phase.NONE.value, gettext_lazy("the answer itself")),
    (Phase.BEFORE_CONTENT.value, gettext_lazy("an event before any content")),
    (Phase.MID_STREAM.value, gettext_lazy("an event after content")),
)


class AnswerForm(forms.Form):
    """An upstream's answer as it was seen."""

    status = forms.IntegerField(label=gettext_lazy("status"), min_value=100, max_value=599)
    phase = forms.ChoiceField(label=gettext_lazy("where it stood"), choices=PHASES, required=False)
    dialect = forms.ChoiceField(label=gettext_lazy("dialect"), choices=DIALECTS, required=False)
    preset = forms.ChoiceField(
        label=gettext_lazy("failover policy"), choices=[(name, name) for name in PRESETS], required=False
    )
    headers = forms.CharField(
        label=gettext_lazy("headers, one a line"),
        required=False,
        max_length=BODY_MAX,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "lines"}),
    )
    body = forms.CharField(
        label=gettext_lazy("body"),
        required=False,
        strip=False,
        max_length=BODY_MAX,
        widget=forms.Textarea(attrs={"rows": 10, "spellcheck": "false", "class": "lines"}),
    )

    def clean_headers(self) -> dict[str, str]:
        """Read header lines; a status line above them is passed over."""
        found = {}
        for number, line in enumerate(self.cleaned_data["headers"].splitlines(), start=1):
            if not line.strip() or _STATUS_LINE.match(line):
                continue
            name, mark, value = line.partition(":")
            if not mark or not name.strip():
                raise forms.ValidationError(
                    _("Line %(line)s: write name %(mark)s value."), params={"line": number, "mark": ":"}
                )
            found[name.strip().lower()] = value.strip()
        return found

    def reply(self) -> Reply:
        """Return the answer as classification reads it; the form is valid."""
        data = self.cleaned_data
        reply = Reply(
            status=data["status"],
            headers=data["headers"],
            body=data["body"].encode(errors="replace"),
            phase=Phase(data["phase"] or Phase.NONE.value),
            dialect=Dialect(data["dialect"] or Dialect.OPENAI.value),
        )
        succeeded = data["status"] // 100 == 2  # noqa: PLR2004  # 2xx
        hollow = evidence_of(reply).kind in (Kind.EMPTY, Kind.HTML, Kind.TEXT)
        if not succeeded or not hollow:
            return reply
        return Reply(reply.status, reply.headers, reply.body, reply.phase, usable=False, dialect=reply.dialect)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the page shows. `marked` is the body, redacted, in pieces: (text, whether a rule matched it)."""

    outcome: Outcome
    cause: str
    scope: str
    verdict: str
    effects: Sequence[str]
    wait: str
    evidence: str
    rule: WordingRule | None
    spots: Sequence[Spot]
    marked: Sequence[tuple[str, bool]]
    answer: Answer | None
    unknown: bool


def classifier_page(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """Show the workbench; on POST judge what was pasted, and add the operator's rule when asked to."""
    reach = reach_of(request.user)
    if not (reach.operator or reach.tenants(OPERATIONS)):
        raise PermissionDenied
    form = AnswerForm(request.POST or None, initial=_initial(request), label_suffix="")
    rule_form: WordingRuleForm | None = None
    result: Verdict | None = None
    if request.method == "POST" and form.is_valid():
        moment, reply = now(), form.reply()
        evidence = evidence_of(reply)
        making = reach.operator and "make" in request.POST
        if making:
            rule_form = _rule_form(request.POST)
            made = _make(request, rule_form, evidence)
        result = judged(reply, read_rules(), form.cleaned_data["preset"], moment)
        if reach.operator and (not making or made):
            rule_form = _rule_form(None, proposal(result.outcome, evidence))
    context = {
        **site.each_context(request),
        "title": _("Classifier"),
        "form": form,
        "result": result,
        "rule_form": rule_form,
        "operator": reach.operator,
        "clusters": unmatched.clusters(reach) if request.method == "GET" else [],
    }
    return TemplateResponse(request, "admin/classifier.html", context)


def judged(reply: Reply, rules: Rules, preset: str, moment: datetime) -> Verdict:
    """Judge an answer as the gateway would, and say why."""
    outcome = classify(reply, now=moment, rules=rules)
    evidence = evidence_of(reply)
    rule = next((row for row in rules.rows if row.name == outcome.evidence), None)
    text = redact(reply.body.decode("utf-8", "replace"))
    found = spots(rule, evidence, text) if rule is not None else ()
    policy = overridden(Policy(), {"preset": preset or "standard"})
    return Verdict(
        outcome=outcome,
        cause=cause_words(outcome.cause),
        scope=scope_words(outcome.scope),
        verdict=verdict_words(outcome),
        effects=effect_words(outcome, policy, moment),
        wait=duration(outcome.wait_s) if outcome.wait_s is not None else "",
        evidence=evidence_words(outcome, rule),
        rule=rule,
        spots=found,
        marked=marked(text, [spot.span for spot in found if spot.span is not None]),
        answer=client_gets(reply, outcome, reply.dialect or Dialect.OPENAI),
        unknown=outcome.evidence.startswith("status:"),
    )


def marked(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[str, bool]]:
    """Cut a text into pieces, those of the spans marked; of spans that overlap the first counts."""
    pieces, at = [], 0
    for start, end in sorted(spans):
        if start >= at:
            pieces += [(text[at:start], False), (text[start:end], True)]
            at = end
    return [(piece, is_marked) for piece, is_marked in [*pieces, (text[at:], False)] if piece]


def proposal(outcome: Outcome, evidence: Evidence) -> dict[str, Any]:
    """Return the rule that would decide this answer as it is decided now; the person changes what is wrong."""
    pattern = suggested(evidence)
    return {
        "name": _NOT_NAME.sub("-", pattern).strip("-")[:50] or f"status-{evidence.status}",
        "field": "message" if pattern else "code",
        "pattern": pattern or next(iter(evidence.tokens), ""),
        "cause": outcome.cause.value,
        "statuses": [evidence.status] if evidence.status else [],
        "enabled": True,
    }


def _rule_form(data: Any, initial: Mapping[str, Any] | None = None) -> WordingRuleForm:
    """The fields stand beside the pasted answer's, in the same HTML form."""
    made = WordingRuleForm(data, prefix="rule", initial=dict(initial or {}), label_suffix="")
    for name in ("position", "enabled", "reason"):
        del made.fields[name]
    for field in made.fields.values():
        field.widget.attrs["form"] = "answer"
    return made


@transaction.atomic
def _make(request: HttpRequest, form: WordingRuleForm, evidence: Evidence) -> bool:
    """Store the rule; False, with the complaint in the form, when it is not one or does not match what was pasted."""
    if form.is_valid() and form.rule is not None and not form.rule.matches(evidence):
        form.add_error("pattern", _("This does not match the pasted answer."))
    if not form.is_valid():
        return False
    row = form.save()
    user: Any = request.user
    names = ("field", "pattern", "cause", "scope", "statuses")
    audit(user=user, action="added", target=row, tenant=None, fields={name: getattr(row, name) for name in names})
    touch_config()
    messages.success(request, _("The rule %(name)s decides from now on, everywhere.") % {"name": row.name})
    return True


def _initial(request: HttpRequest) -> dict[str, Any]:
    """Begin with an upstream's error of the list (`attempt`): its status and wording are what a record keeps."""
    asked = request.GET.get("attempt", "")
    found = unmatched.pasted(reach_of(request.user), int(asked)) if asked.isascii() and asked.isdigit() else None
    if found is None:
        return {}
    body = json.dumps({"error": {"message": found["message"]}}, ensure_ascii=False)
    phase = Phase.MID_STREAM if found["content"] else Phase.NONE
    return {"status": found["status"] or 200, "body": body, "phase": phase.value}
