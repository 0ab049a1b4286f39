"""What the gateway itself refuses, in the client's dialect, before or after admission."""

from datetime import timedelta

import anthropic
import httpx
import openai
import pytest
from django.utils import timezone
from google.genai import errors as genai_errors

from billing.models import RequestRecord
from tenants.services import revoke_gateway_key
from tests.gateway import CHAT, MESSAGES, chat, ledger
from tests.proxy.asking import ask

ABSENT = "sk-pm-" + "A" * 40


def code_of(got: httpx.Response):
    return got.json()["error"]["code"]


def records_of(world):
    return RequestRecord.objects.filter(tenant=world.tenant).count()


class TestTheGatewayKey:
    """401 in every dialect, and no record: nobody was admitted."""

    def test_none_was_sent(self, gateway, up):
        gateway.serving(up, "k-1")
        got = gateway.post(None)
        assert (got.status_code, code_of(got)) == (401, "invalid_gateway_key")
        assert got.headers["x-should-retry"] == "false"
        assert got.headers["x-pointsman-error-source"] == "gateway"
        assert (got.headers["x-pointsman-attempts"], got.headers["x-pointsman-session"]) == ("0", "none")
        assert up.requests == []

    def test_an_unknown_one(self, gateway, up):
        world = gateway.serving(up, "k-1")
        with gateway.openai(world, api_key=ABSENT) as client, pytest.raises(openai.AuthenticationError) as caught:
            client.chat.completions.create(model="gpt-4o", messages=MESSAGES)
        assert (caught.value.code, caught.value.type) == ("invalid_gateway_key", "gateway_error")
        assert ABSENT not in str(caught.value)
        assert (up.requests, records_of(world)) == ([], 0)

    def test_in_anthropics_dialect(self, gateway, up):
        world = gateway.serving(up, "k-1")
        with gateway.anthropic(world, api_key=ABSENT) as client, pytest.raises(anthropic.AuthenticationError) as caught:
            client.messages.create(model="claude", max_tokens=9, messages=MESSAGES)
        assert caught.value.body["error"]["type"] == "authentication_error"
        assert caught.value.request_id.startswith("req_")

    def test_in_geminis_dialect(self, gateway, up):
        got = gateway.post(None, path="/v1beta/models/g:generateContent", headers={"x-goog-api-key": ABSENT})
        assert got.status_code == 401
        error = got.json()["error"]
        assert (error["code"], error["status"]) == (401, "UNAUTHENTICATED")
        assert error["details"][0]["reason"] == "INVALID_GATEWAY_KEY"

    def test_an_expired_one(self, gateway, up):
        world = gateway.serving(up, "k-1")
        world.gateway_key.expires = timezone.now() - timedelta(seconds=1)
        world.gateway_key.save()
        gateway.refresh()
        got = gateway.post(world)
        assert (got.status_code, code_of(got), up.requests, records_of(world)) == (401, "invalid_gateway_key", [], 0)
        assert "expired" in got.json()["error"]["message"]

    def test_one_that_expires_later_serves(self, gateway, up):
        world = gateway.serving(up, "k-1")
        world.gateway_key.expires = timezone.now() + timedelta(hours=1)
        world.gateway_key.save()
        gateway.refresh()
        assert gateway.post(world).status_code == 200

    def test_a_revoked_one_is_refused_within_two_seconds(self, gateway, up):
        """Report 55: seen without any help of the test."""
        world = gateway.serving(up, "k-1")
        assert gateway.post(world).status_code == 200
        assert revoke_gateway_key(key=world.gateway_key, now=timezone.now())
        assert within_two_seconds(lambda: gateway.post(world).status_code) == 401
        assert "revoked" in gateway.post(world).json()["error"]["message"]

    @pytest.mark.parametrize("what", ["key", "line", "tenant"])
    def test_what_is_switched_off_serves_no_more(self, gateway, up, what):
        """Report 55: the key, its line or its team."""
        world = gateway.serving(up, "k-1")
        row = {"key": world.gateway_key, "line": world.line, "tenant": world.tenant}[what]
        row.enabled = False
        row.save()
        gateway.refresh()
        got = gateway.post(world)
        assert (got.status_code, up.requests, records_of(world)) == (401, [], 0)
        row.enabled = True
        row.save()
        gateway.refresh()
        assert gateway.post(world).status_code == 200


def within_two_seconds(ask_status):
    until = timezone.now() + timedelta(seconds=2)
    while (code := ask_status()) == 200:
        assert timezone.now() < until
    return code


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"model": "m",\n "messages": [}', "line 2 column 15 (char 29)"),
        (b'{"model": "m"', "line 1 column 14"),
        (b'{"model": NaN}', "NaN"),
        (b'{"model": "\xff"}', "Invalid UTF-8"),
        (b"[1]", "must be a JSON object"),
        (b"", "no body"),
        (b"[" * 100_000, "nested"),
    ],
)
def test_a_malformed_body(gateway, up, body, told):
    world = gateway.serving(up, "k-1")
    got = gateway.post(world, body)
    assert (got.status_code, code_of(got)) == (400, "malformed_body")
    assert told in got.json()["error"]["message"]
    assert up.requests == []
    record = gateway.record(got)
    assert (record.status, record.http_status, record.charge, record.attempt_count) == ("failed", 400, 0, 0)
    assert ledger(record) == []


@pytest.mark.parametrize("body", [{"messages": MESSAGES}, {"model": 7}, {"model": None}, {"model": ""}])
def test_a_request_that_names_no_model(gateway, up, body):
    got = gateway.post(gateway.serving(up, "k-1"), body)
    assert (got.status_code, code_of(got)) == (400, "invalid_request")
    assert got.json()["error"]["param"] == "model"
    assert up.requests == []


class TestModels:
    def test_one_that_the_line_may_not_use(self, gateway, up):
        world = gateway.serving(up, "k-1", line={"model_globs": ["gpt-4o*", "o?"]})
        got = gateway.post(world, chat(model="gpt-4.1"))
        assert (got.status_code, code_of(got)) == (403, "model_not_allowed")
        assert up.requests == []
        record = gateway.record(got)
        assert (record.status, record.charge, record.model_requested) == ("failed", 0, "gpt-4.1")
        assert [gateway.post(world, chat(model=m)).status_code for m in ("GPT-4o-mini", "o3", "o")] == [200, 200, 403]

    def test_an_alias_or_rule_does_not_lead_around_the_list(self, gateway, up):
        """Enforced on every hop: what is sent must be allowed as well as what is asked."""
        world = gateway.serving(up, "k-1", line={"model_globs": ["gpt-4o"]})
        world.tenant.routes.get().rules.update(set={"model": "gpt-5-pro"})
        gateway.refresh()
        got = gateway.post(world)
        assert (got.status_code, code_of(got), up.requests) == (403, "model_not_allowed", [])

    def test_one_that_nobody_serves(self, gateway, up):
        other = gateway.serving(up, "k-9", upstream={"model_list": ["secret-model-of-others"]})
        world = gateway.serving(up, "k-1", upstream={"model_list": ["gpt-4o"]})
        got = gateway.post(world, chat(model="secret-model-of-others"))
        assert (got.status_code, code_of(got), up.requests) == (404, "model_not_found", [])
        assert other.tenant.slug not in got.text
        unknown = gateway.post(world, chat(model="no-such"))
        assert unknown.status_code == 404
        assert "secret" not in unknown.text
        assert "gpt-4o" not in unknown.text
        assert gateway.post(other, chat(model="secret-model-of-others")).status_code == 200

    def test_a_rule_denies(self, gateway, up):
        world = gateway.serving(up, "k-1")
        world.tenant.routes.get().rules.update(deny="Use the batch line at night.", group=None)
        gateway.refresh()
        with gateway.openai(world) as client, pytest.raises(openai.PermissionDeniedError) as caught:
            client.chat.completions.create(model="gpt-4o", messages=MESSAGES)
        assert caught.value.code == "denied_by_rule"
        assert "Use the batch line at night." in str(caught.value)
        assert up.requests == []

    def test_a_line_without_a_route(self, gateway, up):
        world = gateway.serving(up, "k-1")
        world.tenant.routes.update(is_default=False)
        gateway.refresh()
        assert gateway.post(world).status_code == 404
        assert up.requests == []


class TestPaths:
    @pytest.mark.parametrize(
        ("method", "path", "code"),
        [
            ("POST", "/v1/no-such", 404),
            ("GET", "/v1", 404),
            ("POST", "/v1beta/models/g:noSuch", 404),
            ("GET", "/v1/chat/completions", 405),
            ("PUT", "/v1/chat/completions", 405),
            ("DELETE", "/v1/models", 405),
            ("GET", "/v1beta/models/g:generateContent", 405),
            ("GET", "/v1/responses", 426),
        ],
    )
    def test_unknown_ones(self, gateway, up, method, path, code):
        world = gateway.serving(up, "k-1")
        with gateway.client(world) as client:
            got = client.request(method, path)
        assert got.status_code == code
        assert got.json()["error"]["code"] == (code if path.startswith("/v1beta") else code_of(got))
        assert (up.requests, records_of(world)) == ([], 0)

    def test_a_slash_at_the_end_is_no_other_path(self, gateway, up):
        assert gateway.post(gateway.serving(up, "k-1"), path=f"{CHAT}/").status_code == 200

    def test_the_admin_is_not_ours(self, gateway, up):
        assert gateway.get(None, "/admin/").status_code == 302


class TestTheSize:
    LIMIT = 32 * 1024 * 1024

    def test_at_the_limit_it_passes(self, gateway, up):
        world = gateway.serving(up, "k-1")
        head, tail = b'{"model":"gpt-4o","pad":"', b'"}'
        body = head + b"x" * (self.LIMIT - len(head) - len(tail)) + tail
        assert gateway.post(world, body).status_code == 200
        assert up.last.body == body

    @pytest.mark.parametrize("chunked", [False, True])
    def test_one_byte_more_is_refused(self, gateway, up, chunked):
        world = gateway.serving(up, "k-1")
        body = b"x" * (self.LIMIT + 1)
        with gateway.client(world) as client:
            got = client.post(CHAT, content=iter([body]) if chunked else body)
        assert (got.status_code, code_of(got)) == (413, "body_too_large")
        assert (up.requests, records_of(world)) == ([], 0)

    def test_in_anthropics_dialect(self, gateway, up):
        got = gateway.post(gateway.serving(up, "k-1"), b"x" * (self.LIMIT + 1), path="/v1/messages")
        assert (got.status_code, got.json()["error"]["type"]) == (413, "request_too_large")


def test_a_refused_call_in_the_sdk_of_gemini(gateway, up):
    world = gateway.serving(up, "k-1", line={"model_globs": ["other"]}, upstream={"dialect": "gemini"})
    client = gateway.gemini(world)
    with pytest.raises(genai_errors.ClientError) as caught:
        client.models.generate_content(model="gemini-x", contents="hi")
    client.close()
    assert (caught.value.code, caught.value.status) == (403, "PERMISSION_DENIED")


def test_a_request_id_of_the_clients_is_not_taken_over(gateway, up):
    world = gateway.serving(up, "k-1")
    said = ask(gateway, world, extra_headers={"x-request-id": "mine"})
    assert said.headers["x-request-id"].startswith("req_")
