"""The classifier's workbench: says what an answer means and by what; the operator makes rules of it."""

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from config.pages.classifier import marked
from config.pages.unmatched import generalised
from keys.models import WordingRule
from tenants.models import AuditEntry, ConfigVersion
from tests import factories
from tests.config.admin_world import member, person, team

pytestmark = pytest.mark.django_db

NAP = {"status": 503, "body": json.dumps({"error": {"message": "the hamster 41 is asleep"}})}
RULE = {"rule-name": "nap", "rule-field": "message", "rule-pattern": "hamster # is asleep",
        "rule-cause": "quota_exhausted", "rule-scope": "account", "rule-statuses": "503"}  # fmt: skip


@pytest.fixture
def alpha():
    return team("alpha")


@pytest.fixture
def operator():
    return person("root", is_superuser=True)


def judge(client, **data):
    return client.post(reverse("admin:classifier"), {**NAP, **data})


def test_an_answer_is_judged_with_its_evidence(client, alpha):
    client.force_login(member(alpha.tenant, "viewer"))
    body = json.dumps({"error": {"message": "Your credit balance is too low to access the Anthropic API."}})
    answer = judge(client, status=400, body=body, dialect="anthropic")
    result = answer.context["result"]
    assert (result.cause, result.scope) == ("no balance", "the account (all keys that share its balance)")
    assert result.effects == ["The account cools for 30 min."]
    assert result.verdict == "Another key is tried."
    assert [piece for piece, is_marked in result.marked if is_marked] != []
    assert result.answer.status == 503
    assert "<mark>" in answer.content.decode()


@pytest.mark.parametrize(
    ("data", "cause", "effects"),
    [
        (
            {"status": 429, "headers": "HTTP/1.1 429 Too Many\nRetry-After: 40", "body": "slow down"},
            "rate_limited",
            ["The key cools for 40 s."],
        ),
        (
            {"status": 429, "body": "slow down"},
            "rate_limited",
            ["The key cools for 60 s. Nobody said how long: it doubles each time."],
        ),
        (
            {"status": 401, "body": "bad key"},
            "auth_invalid",
            ["The key is dead at once, until a person acts; an alert goes out."],
        ),
        (
            {"status": 503, "body": "oops"},
            "overloaded",
            ["One strike of 3; the last one cools the key 60 s, doubling up to 10 min."],
        ),
        (
            {"status": 503, "body": "oops", "preset": "keypool"},
            "overloaded",
            ["One strike of 3; the last one cools the key 5 min, doubling up to 5 min."],
        ),
        (
            {"status": 404, "body": "no such model"},
            "model_unavailable",
            ["The key rests for this model for 10 min; other models go on."],
        ),
        (
            {"status": 400, "body": "bad"},
            "bad_request",
            ["Nothing happens to the key: neither a strike nor a success."],
        ),
        ({"status": 200, "body": "<html>hi</html>"}, "server_error", None),
        (
            {"status": 200, "body": '{"choices": [{"message": {"content": "hi"}}]}'},
            "served",
            ["A success: strikes and trips of the key are forgotten."],
        ),
    ],
)
def test_effects_are_said_under_the_policy(client, alpha, data, cause, effects):
    client.force_login(member(alpha.tenant, "admin"))
    result = judge(client, **data).context["result"]
    assert result.outcome.cause == cause
    assert effects is None or list(result.effects) == effects


def test_a_death_after_content_ends_with_an_event(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))
    result = judge(client, phase="mid_stream", dialect="anthropic").context["result"]
    assert result.answer.body.startswith("event: error\n")
    assert "hamster" in result.answer.body


def test_pasted_secrets_are_shown_redacted_beside_the_form(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))
    body = json.dumps({"error": {"message": "Incorrect API key provided: sk-live-abcdef0123456789abcdef"}})
    result = judge(client, status=401, body=body).context["result"]
    for shown in ("".join(piece for piece, _ in result.marked), result.outcome.message, result.answer.body):
        assert "abcdef0123456789" not in shown


@pytest.mark.parametrize(
    ("data", "field", "said"),
    [
        ({"status": ""}, "status", "required"),
        ({"status": "99"}, "status", "greater than or equal to 100"),
        ({"headers": "nonsense"}, "headers", "Line 1: write name : value."),
        ({"phase": "later"}, "phase", "Select a valid choice"),
        ({"body": "x" * 70_000}, "body", "at most 65536"),
        ({"preset": "none"}, "preset", "Select a valid choice"),
    ],
)
def test_bad_input_is_said_at_its_field(client, alpha, data, field, said):
    client.force_login(member(alpha.tenant, "admin"))
    answer = judge(client, **data)
    assert answer.context["result"] is None
    assert said in " ".join(answer.context["form"].errors[field])


def test_the_operator_makes_a_rule_that_decides_at_once(client, operator):
    client.force_login(operator)
    before = ConfigVersion.objects.get(pk=1).version
    proposed = judge(client).context["rule_form"].initial
    assert proposed["pattern"] == "the hamster # is asleep"
    assert proposed["cause"] == "overloaded"
    answer = judge(client, make="1", **RULE)
    row = WordingRule.objects.get()
    assert (row.name, row.cause, row.scope, row.statuses, row.enabled) == (
        "nap", "quota_exhausted", "account", [503], True,
    )  # fmt: skip
    result = answer.context["result"]
    assert (result.outcome.evidence, result.cause) == ("operator:nap", "quota used up")
    assert "".join(piece for piece, is_marked in result.marked if is_marked) == "hamster 41 is asleep"
    assert ConfigVersion.objects.get(pk=1).version == before + 1
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_name, entry.fields["cause"]) == ("added", "nap", "quota_exhausted")


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"rule-pattern": "((("}, "pattern"),
        ({"rule-pattern": "no such words"}, "pattern"),
        ({"rule-statuses": "429"}, "pattern"),
        ({"rule-cause": "served"}, "cause"),
        ({"rule-name": ""}, "name"),
        ({"rule-scope": "galaxy"}, "scope"),
        ({"rule-statuses": "many"}, "statuses"),
    ],
)
def test_a_rule_that_is_none_or_does_not_match_is_refused(client, operator, changed, field):
    client.force_login(operator)
    answer = judge(client, make="1", **{**RULE, **changed})
    assert field in answer.context["rule_form"].errors
    assert (WordingRule.objects.count(), AuditEntry.objects.count()) == (0, 0)


def test_a_name_is_used_once(client, operator):
    client.force_login(operator)
    judge(client, make="1", **RULE)
    answer = judge(client, make="1", **RULE)
    assert "name" in answer.context["rule_form"].errors
    assert WordingRule.objects.count() == 1


@pytest.mark.parametrize(("role", "status"), [("admin", 200), ("viewer", 200), ("finance", 403)])
def test_a_team_reads_and_makes_no_rules(client, alpha, role, status):
    client.force_login(member(alpha.tenant, role))
    assert client.get(reverse("admin:classifier")).status_code == status
    answer = judge(client, make="1", **RULE)
    assert answer.status_code == status
    assert WordingRule.objects.count() == 0
    assert "Add this rule" not in answer.content.decode()


def unmatched(made, n=1, message="Pool {n} is full, see req-0a1b2c3d4e5f{n}", **fields):
    for number in range(n):
        factories.AttemptFactory(
            record=made.rows["billing.RequestRecord"],
            **{"n": 10 + number + fields.pop("first", 0), "outcome": "overloaded", "status": 503,
               "evidence": "status:503", "message": message.format(n=number), **fields},
        )  # fmt: skip


def test_errors_that_no_rule_knew_are_put_together(client, alpha):
    bravo = team("bravo")
    unmatched(alpha, 3)
    unmatched(alpha, 1, "quite another", first=20)
    unmatched(alpha, 1, "known", first=30, evidence="text-busy")
    unmatched(bravo, 1, "bravo is full")
    client.force_login(member(alpha.tenant, "viewer"))
    answer = client.get(reverse("admin:classifier"))
    found = answer.context["clusters"]
    assert [(cluster.count, cluster.status) for cluster in found] == [(3, 503), (1, 503)]
    assert "bravo" not in answer.content.decode()
    taken = client.get(reverse("admin:classifier") + f"?attempt={found[1].attempt_id}").context["form"].initial
    assert taken == {"status": 503, "body": '{"error": {"message": "quite another"}}', "phase": "none"}


def test_an_attempt_of_another_team_is_not_taken(client, alpha):
    bravo = team("bravo")
    unmatched(bravo, 1, "bravo is full")
    client.force_login(member(alpha.tenant, "admin"))
    theirs = bravo.rows["billing.RequestRecord"].attempts.last()
    for asked in (theirs.pk, "x", "9" * 30):
        answer = client.get(reverse("admin:classifier") + f"?attempt={asked}")
        assert answer.context["form"].initial == {}


def test_the_list_is_bounded_and_costs_the_same(client, alpha, monkeypatch):
    client.force_login(member(alpha.tenant, "admin"))

    def cost():
        with CaptureQueriesContext(connection) as asked:
            client.get(reverse("admin:classifier"))
        return [query["sql"] for query in asked.captured_queries]

    cost()
    few = cost()
    unmatched(alpha, 9)
    many = cost()
    assert len(many) == len(few)
    (listed,) = [sql for sql in many if "LIKE" in sql]
    assert "LIMIT 2000" in listed
    monkeypatch.setattr("config.pages.unmatched.WINDOW", 4)
    assert sum(cluster.count for cluster in client.get(reverse("admin:classifier")).context["clusters"]) == 4


def test_numbers_and_ids_do_not_tell_wordings_apart():
    assert generalised("Try again in 41 s (id 0a1b2c3d4e5f6a7b)") == generalised(
        "try  again in 3 s (id ffff00001111-x)"
    )
    assert generalised("model a") != generalised("model b")


def test_overlapping_marks_stay_whole():
    assert marked("abcdef", [(3, 5), (1, 4)]) == [("a", False), ("bcd", True), ("ef", False)]
    assert marked("", []) == []
