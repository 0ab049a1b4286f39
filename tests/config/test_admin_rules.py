"""The form of a rule: a field for every condition, nothing lost that it does not know, and what can never match."""

import re
from html.parser import HTMLParser

import pytest
from django.urls import reverse

from routing.models import RoutingRule
from tests import factories
from tests.config.admin_forms import add, change, errors, version
from tests.config.admin_world import member, team

pytestmark = pytest.mark.django_db


@pytest.fixture
def alpha():
    made = team("alpha")
    RoutingRule.objects.update(position=0)
    return made


@pytest.fixture
def boss(client, alpha):
    user = member(alpha.tenant, "admin")
    client.force_login(user)
    return user


class Controls(HTMLParser):
    def __init__(self):
        super().__init__()
        self.data, self.select = {}, None

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        name = attrs.get("name")
        if tag == "select":
            self.select = name
        elif tag == "option" and ("selected" in attrs or self.select not in self.data):
            self.data[self.select] = attrs.get("value", "")
        elif tag == "input" and attrs.get("type") in {"checkbox", "radio"}:
            if "checked" in attrs:
                self.data.setdefault(name, []).append(attrs.get("value", "on"))
        elif tag == "input" and name:
            self.data[name] = attrs.get("value", "")


def comparison(name, operator, number, unit="", row=0):
    at = f"when_{name}-{row}"
    return {f"{at}-is": operator, f"{at}-number": number, f"{at}-unit": unit}


def window(start, end, *days, row=0):
    at = f"when_hours-{row}"
    return {f"{at}-from": start, f"{at}-to": end, f"{at}-days": list(days)}


def setting(**values):
    pairs = {}
    for row, (name, value) in enumerate(values.items()):
        pairs |= {f"set-{row}-name": name, f"set-{row}-value": value}
    return pairs


def rule_data(alpha, **data):
    base = {"route": alpha.rows["routing.Route"].pk, "name": "r", "position": "", "enabled": "on"}
    return base | {"group": alpha.rows["routing.StrategyGroup"].pk} | data


def write(client, alpha, **data):
    answer = add(client, "routing_routingrule", **rule_data(alpha, **data))
    assert answer.status_code == 302, errors(answer)
    return RoutingRule.objects.get(name="r")


def form_of(client, rule):
    page = client.get(reverse("admin:routing_routingrule_change", args=[rule.pk]))
    return page.context["adminform"].form


def posted(form):
    """What a browser sends back when nobody touches the form: every control as it was rendered."""
    reader = Controls()
    for field in form:
        reader.feed(str(field))
    return reader.data


def test_a_rule_is_written_field_by_field(client, alpha, boss):
    rule = write(
        client, alpha, when_model="gpt-*, o1*", when_stream="no", when_tools="yes", when_dialect=["openai"],
        **comparison("input_tokens", ">=", "32", "k"), **comparison("input_tokens", "<", "1", "M", row=1),
        **comparison("tool_count", "==", "8"), **window("22", "7:00", "mon", "wed"), **window("08:00", "09:30", row=1),
        **setting(temperature="0.2", model="gpt-4o", store="false", user='"7"'),
    )  # fmt: skip
    assert rule.when == {
        "model": ["gpt-*", "o1*"], "stream": False, "tools": True, "input_tokens": [">= 32k", "< 1M"],
        "tool_count": "== 8", "hours": ["mon,wed 22:00-07:00", "08:00-09:30"], "dialect": "openai",
    }  # fmt: skip
    assert rule.set == {"temperature": 0.2, "model": "gpt-4o", "store": False, "user": "7"}


@pytest.mark.parametrize(
    ("days", "text"),
    [
        ((), "09:00-18:00"),
        (("mon", "tue", "wed", "thu", "fri", "sat", "sun"), "09:00-18:00"),
        (("mon", "tue", "wed", "thu", "fri"), "mon-fri 09:00-18:00"),
        (("sun", "mon", "fri"), "mon,fri,sun 09:00-18:00"),
        (("mon", "tue", "sat", "sun"), "mon-tue,sat-sun 09:00-18:00"),
    ],
)
def test_days_are_written_as_runs(client, alpha, boss, days, text):
    assert write(client, alpha, **window("09:00", "18:00", *days)).when == {"hours": text}


STORED = {
    "hours": ["FRI-MON 9:00-24:00", "12:00-13:00"],
    "input_tokens": [">=32_000", "!= 40k", "< 1m"],
    "max_tokens": 8,
    "model": ["a", "b"],
    "thinking": True,
    "dialect": ["openai", "gemini"],
}


def test_a_form_that_nobody_touches_changes_nothing(client, alpha, boss):
    values = {"response_format": {"type": "json_object"}, "stop": ["x"], "top_p": 1, "user": "0.5", "seed": None}
    rule = factories.RuleFactory(
        route=alpha.rows["routing.Route"], group=alpha.rows["routing.StrategyGroup"], when=STORED, set=values
    )
    form = form_of(client, rule)
    data = posted(form)
    shown = {data[f"set-{row}-name"]: data[f"set-{row}-value"] for row in range(len(values))}
    assert shown == {"response_format": "…", "stop": "…", "top_p": "1", "user": '"0.5"', "seed": "null"}
    assert "json_object" not in str(form["set"])
    assert form.fields["when_input_tokens"].prepare_value(STORED["input_tokens"])[2] == {
        "is": "<", "number": "1", "unit": "M",
    }  # fmt: skip
    before = version()
    assert change(client, "routing_routingrule", rule, **data).status_code == 302
    rule.refresh_from_db()
    assert rule.when == STORED
    assert rule.set == values
    assert version() > before


def test_a_condition_that_the_form_does_not_know_is_kept(client, alpha, boss):
    rule = factories.RuleFactory(
        route=alpha.rows["routing.Route"],
        group=alpha.rows["routing.StrategyGroup"],
        when={"weather": "rain", "stream": True},
    )
    data = posted(form_of(client, rule)) | {"when_stream": "no", "when_model": "x"}
    assert change(client, "routing_routingrule", rule, **data).status_code == 302
    rule.refresh_from_db()
    assert rule.when == {"model": "x", "stream": False, "weather": "rain"}


@pytest.mark.parametrize(
    ("data", "field", "words"),
    [
        (window("sometimes", "07:00"), "when_hours", "'sometimes-07:00' is no time window such as"),
        (window("", "", "mon"), "when_hours", "A window needs both times"),
        (comparison("max_tokens", ">=", "many"), "when_max_tokens", "'>= many' is no comparison such as"),
        ({"deny": "no"}, "deny", "then: group and deny exclude each other"),
        ({"group": ""}, "group", "then: has no effect; give group, upstream, deny or set"),
        (setting(stream="true"), "set", "cannot be set by a rule"),
        (setting(max_tokens="0"), "set", "must be a whole number above 0"),
        ({"set-0-name": "", "set-0-value": "5"}, "set", "5 is the value of which field?"),
        ({"set-0-name": "n", "set-0-value": ""}, "set", "n has no value yet: write one."),
        ({"set-0-name": "n", "set-0-value": "1", "set-1-name": "n", "set-1-value": "2"}, "set", "n stands twice."),
        ({"when_upstream": "official"}, "group", "a rule with an upstream condition may only set or deny"),
        (comparison("tool_count", ">", "8") | {"when_tools": "no"}, "__all__", "these conditions exclude each other"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_at_the_field(client, alpha, boss, data, field, words):
    answer = add(client, "routing_routingrule", **rule_data(alpha, **data))
    assert answer.status_code == 200
    found = errors(answer)
    assert list(found) == [field]
    assert words in found[field][0]
    assert not RoutingRule.objects.filter(name="r").exists()


def test_what_was_typed_is_still_there_after_an_error(client, alpha, boss):
    answer = add(client, "routing_routingrule", **rule_data(
        alpha, name="Not a name", **setting(temperature="0.2"), **window("22:00", "07:00", "sat"),
    ))  # fmt: skip
    form = answer.context["adminform"].form
    text = str(form["set"]) + str(form["when_hours"])
    assert 'value="temperature"' in text
    assert 'value="22:00"' in text
    assert re.search(r'value="sat"[^>]*checked', text)


def test_a_rule_that_is_never_reached_says_so(client, alpha, boss):
    answer = client.post(
        reverse("admin:routing_routingrule_add"), rule_data(alpha, when_model="x", position="99999"), follow=True
    )
    assert answer.redirect_chain[-1][0] == reverse("admin:routing_route_change", args=[alpha.rows["routing.Route"].pk])
    text = answer.content.decode()
    assert "Rule r can never match: alpha-rule, which stands before it, decides every request that it matches." in text
    assert "never matches" in text


def test_a_new_rule_is_put_before_the_one_that_takes_everything(client, alpha, boss):
    route = alpha.rows["routing.Route"]
    page = client.get(reverse("admin:routing_routingrule_add") + f"?route={route.pk}")
    assert page.context["adminform"].form["position"].value() == 1
    write(client, alpha, when_model="x", position="1")
    assert list(route.rules.values_list("name", "position")) == [("r", 0), ("alpha-rule", 1)]


def test_a_rule_that_is_switched_off_neither_warns_nor_shadows(client, alpha, boss):
    route = alpha.rows["routing.Route"]
    factories.RuleFactory(route=route, name="below", group=alpha.rows["routing.StrategyGroup"], position=1)
    address = reverse("admin:routing_route_change", args=[route.pk])
    assert "never matches" in client.get(address).content.decode()
    RoutingRule.objects.filter(name="alpha-rule").update(enabled=False)
    text = client.get(address).content.decode()
    assert "never matches" not in text
    assert "switched off" in text
    RoutingRule.objects.update(enabled=True)
    RoutingRule.objects.filter(name="below").update(enabled=False)
    assert "never matches" not in client.get(address).content.decode()


def test_a_reader_sees_sentences_and_no_form(client, alpha):
    client.force_login(member(alpha.tenant, "viewer"))
    rule = alpha.rows["routing.RoutingRule"]
    text = client.get(reverse("admin:routing_routingrule_change", args=[rule.pk])).content.decode()
    assert "Always: use group alpha-group." in text
    assert "when_model" not in text
    text = client.get(reverse("admin:routing_route_change", args=[rule.route_id])).content.decode()
    assert "Always: use group alpha-group." in text
    assert '-position"' not in text
    assert '<td class="field-place">' in text
