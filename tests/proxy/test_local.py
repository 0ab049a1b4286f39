"""What the gateway answers itself: model lists, a line's requests, health."""

import json
import time

import pytest

from billing.models import RequestRecord
from tests.factories import GatewayKeyFactory, LineFactory
from tests.fake_upstream import Gate, answer, raw, status, stream
from tests.gateway import CHARGE, HELLO, chat, request_id_of, wait_until
from tests.proxy.asking import ask

MODELS = {"model_list": ["gpt-4o", "gpt-4o-mini", "o3", "claude-*"], "aliases": {"fast": "gpt-4o-mini"}}


class TestModels:
    @pytest.fixture
    def world(self, gateway, up):
        gateway.serving(up, "k-9", upstream={"model_list": ["of-another-tenant"]})
        return gateway.serving(up, "k-1", upstream=MODELS)

    def test_openai(self, gateway, world):
        with gateway.openai(world) as client:
            assert [model.id for model in client.models.list()] == ["fast", "gpt-4o", "gpt-4o-mini", "o3"]
            assert client.models.retrieve("gpt-4o").id == "gpt-4o"

    def test_anthropic(self, gateway, world):
        with gateway.anthropic(world) as client:
            assert [model.id for model in client.models.list()] == ["fast", "gpt-4o", "gpt-4o-mini", "o3"]
            assert client.models.retrieve("o3").display_name == "o3"

    def test_gemini(self, gateway, world):
        client = gateway.gemini(world)
        names = [model.name for model in client.models.list()]
        assert client.models.get(model="o3").name == "models/o3"
        client.close()
        assert names == ["models/fast", "models/gpt-4o", "models/gpt-4o-mini", "models/o3"]

    def test_the_shape_follows_the_headers(self, gateway, world):
        plain = gateway.get(world, "/v1/models").json()
        google = gateway.get(None, "/v1/models", headers={"x-goog-api-key": world.secret}).json()
        claude = gateway.get(world, "/v1/models", headers={"anthropic-version": "2023-06-01"}).json()
        assert (plain["object"], list(google), claude["has_more"]) == ("list", ["models"], False)

    def test_only_what_the_line_may_use(self, gateway, up):
        world = gateway.serving(up, "k-1", upstream=MODELS, line={"model_globs": ["gpt-4o*"]})
        got = gateway.get(world, "/v1/models").json()
        assert [model["id"] for model in got["data"]] == ["gpt-4o", "gpt-4o-mini"]

    def test_an_unknown_one_names_no_other(self, gateway, world):
        got = gateway.get(world, "/v1/models/of-another-tenant")
        assert (got.status_code, got.json()["error"]["code"]) == (404, "model_not_found")
        assert "gpt-4o" not in got.text

    def test_it_needs_a_key_and_leaves_no_record(self, gateway, world):
        assert gateway.get(None, "/v1/models").status_code == 401
        assert gateway.get(world, "/v1/models").headers["x-request-id"].startswith("req_")
        assert not RequestRecord.objects.filter(tenant=world.tenant).exists()


class TestRequests:
    @pytest.fixture
    def world(self, gateway, up):
        return gateway.serving(up, "k-1", "k-2")

    def explained(self, gateway, world, request_id):
        return gateway.get(world, f"/v1/requests/{request_id}")

    def test_one_request(self, gateway, up, world):
        up.script("k-1", status(429, "Slow down", retry_after=5))
        said = ask(gateway, world, stream=True, extra_headers={"x-session-id": "s"})
        got = self.explained(gateway, world, request_id_of(said)).json()
        first, second = got.pop("attempts")
        assert {name: got[name] for name in ("id", "line", "key", "model_requested", "model_served")} == {
            "id": said.headers["x-request-id"],
            "line": world.line.slug,
            "key": "prod",
            "model_requested": "gpt-4o",
            "model_served": "gpt-4o",
        }
        assert (got["dialect"], got["stream"], got["status"], got["http_status"]) == ("openai", True, "finished", 200)
        assert (got["session"], got["refusal"]) == ("new", None)
        assert got["usage"] == {
            "input_tokens": 25,
            "cached_read_tokens": 0,
            "cache_write_tokens": 0,
            "cache_write_1h_tokens": 0,
            "output_tokens": 7,
            "reasoning_tokens": 0,
            "source": "upstream",
        }
        assert got["charge"] == {"amount": str(CHARGE), "currency": "USD", "priced": True, "estimated": False}
        assert 0 <= got["first_content_ms"] <= got["duration_ms"]
        assert got["created"].endswith("+00:00")
        told = [(a["n"], a["upstream"], a["outcome"], a["content"], a["skipped"], a["status"]) for a in (first, second)]
        assert told == [(1, "u1", "rate_limited", False, None, 429), (2, "u2", "served", True, None, 200)]
        assert (first["message"], second["queued_ms"]) == ("Slow down", 0)
        assert {"ms", "reason", "key"} <= set(second)

    def test_of_another_line_it_is_not_there(self, gateway, up, world):
        """Report 53: own line only, also within a tenant."""
        request_id = request_id_of(gateway.post(world))
        other = gateway.serving(up, "k-1")
        neighbour = GatewayKeyFactory(line=LineFactory(tenant=world.tenant), secret="sk-pm-" + "n" * 40)
        gateway.refresh()
        strangers = [gateway.get(other, f"/v1/requests/{request_id}")]
        strangers.append(gateway.get(None, f"/v1/requests/{request_id}", headers={"x-api-key": "sk-pm-" + "n" * 40}))
        assert [got.status_code for got in strangers] == [404, 404]
        assert gateway.get(None, "/v1/requests", headers={"x-api-key": "sk-pm-" + "n" * 40}).json()["data"] == []
        assert neighbour.pk
        assert self.explained(gateway, world, request_id).status_code == 200

    @pytest.mark.parametrize("path", ["/v1/requests/req_none", "/v1/requests/..%2f..%2f", "/v1/requests/%00"])
    def test_an_unknown_one(self, gateway, world, path):
        assert gateway.get(world, path).status_code == 404

    def test_one_that_is_running(self, gateway, up, world):
        gate = Gate()
        up.script("k-1", stream(["a", "b"]).but(holds=((2, gate),)))
        with gateway.streaming(world) as got:
            parts = got.iter_raw()
            next(parts)
            running = self.explained(gateway, world, request_id_of(got)).json()
            gate.open()
            list(parts)
        assert (running["status"], running["http_status"], running["model_requested"]) == ("running", None, "gpt-4o")
        assert running["stream"] is True
        assert running["charge"] is None
        assert set(running) <= set(self.explained(gateway, world, request_id_of(got)).json()) | {"charge", "usage"}
        assert self.explained(gateway, world, request_id_of(got)).json()["status"] == "finished"

    def test_a_page_at_a_time_newest_first(self, gateway, world):
        ids = [request_id_of(gateway.post(world)) for _ in range(5)][::-1]
        page = gateway.get(world, "/v1/requests?limit=2").json()
        assert [row["id"] for row in page["data"]] == ids[:2]
        page = gateway.get(world, f"/v1/requests?limit=2&before={ids[1]}").json()
        assert [row["id"] for row in page["data"]] == ids[2:4]
        assert gateway.get(world, f"/v1/requests?before={ids[4]}").json()["data"] == []
        assert [row["id"] for row in gateway.get(world, "/v1/requests").json()["data"]] == ids

    @pytest.mark.parametrize("limit", ["0", "101", "-1", "x", "1.5", "", "%D9%A3", "9" * 5000])
    def test_a_limit_that_is_none(self, gateway, world, limit):
        got = gateway.get(world, f"/v1/requests?limit={limit}")
        expected = 200 if limit == "" else 400  # an empty value is no value
        assert got.status_code == expected
        if expected == 400:
            assert got.json()["error"]["param"] == "limit"

    @pytest.mark.parametrize("before", ["%00", "req_%20", "x" * 65])
    def test_what_is_no_id_of_a_request(self, gateway, up, before):
        world = gateway.serving(up, "k-1")
        got = gateway.get(world, f"/v1/requests?before={before}")
        assert (got.status_code, got.json()["error"]["param"]) == (400, "before")

    def test_refused_and_failed_ones(self, gateway, up, world):
        up.default(status(500))
        request_id = request_id_of(gateway.post(world))
        got = self.explained(gateway, world, request_id).json()
        assert (got["status"], got["http_status"], got["error"]["code"]) == ("failed", 502, "upstream_failed")
        assert (got["charge"]["amount"], got["model_served"], got["usage"]["source"]) == ("0.00", None, "none")
        assert got["usage"]["input_tokens"] is None


class TestHealth:
    @pytest.mark.parametrize("path", ["/healthz", "/readyz", "/api/hello"])
    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_it_answers(self, gateway, method, path):
        with gateway.client() as client:
            got = client.request(method, path)
        assert (got.status_code, got.text) == (200, "ok\n" if method == "GET" else "")

    def test_a_database_that_is_down_is_named(self, gateway):
        gateway.runtime.keeper.healthy = False
        got = gateway.get(None, "/readyz")
        assert (got.status_code, got.text) == (200, "degraded: database\n")
        assert wait_until(lambda: gateway.get(None, "/readyz").text == "ok\n", 3)

    def test_recording_that_met_the_unforeseen_is_named_for_a_minute(self, gateway, monkeypatch):
        monkeypatch.setattr(gateway.runtime.recorder, "_faulty_until", time.monotonic() + 30)
        got = gateway.get(None, "/readyz")
        assert (got.status_code, got.text) == (200, "degraded: recording\n")
        monkeypatch.setattr(gateway.runtime.recorder, "_faulty_until", time.monotonic() - 1)
        assert gateway.get(None, "/readyz").text == "ok\n"

    def test_without_a_writer_it_is_not_ready(self, gateway, monkeypatch):
        monkeypatch.setattr(type(gateway.runtime.recorder), "alive", property(lambda _self: False))
        got = gateway.get(None, "/readyz")
        assert (got.status_code, got.text) == (503, "not ready: recorder\n")

    def test_without_any_configuration_it_is_not_ready(self, gateway, up, monkeypatch):
        world = gateway.serving(up, "k-1")
        monkeypatch.setattr(gateway.runtime.keeper, "_look", lambda: None)
        monkeypatch.setattr(gateway.runtime.keeper, "table", None)
        monkeypatch.setattr(gateway.runtime.keeper, "healthy", False)
        assert gateway.get(None, "/readyz").status_code == 503
        got = gateway.post(world)
        assert (got.status_code, got.json()["error"]["code"], got.headers["retry-after"]) == (503, "not_ready", "2")
        assert gateway.get(None, "/healthz").status_code == 200

    def test_an_unknown_key_is_no_401_while_the_database_is_down(self, gateway, up, monkeypatch):
        """It may be newer than what is known."""
        world = gateway.serving(up, "k-1")
        monkeypatch.setattr(gateway.runtime.keeper, "_look", lambda: None)
        monkeypatch.setattr(gateway.runtime.keeper, "healthy", False)
        got = gateway.get(None, "/v1/models", headers={"x-api-key": "sk-pm-" + "z" * 40})
        assert (got.status_code, got.json()["error"]["code"]) == (503, "not_ready")
        assert gateway.post(world).status_code == 200


def test_an_answer_that_is_empty_but_stopped_is_an_answer(gateway, up):
    up.script("k-1", answer("").but(finish="length"))
    got = gateway.post(gateway.serving(up, "k-1", "k-2"))
    assert got.json()["choices"][0]["finish_reason"] == "length"
    assert up.keys() == ["k-1"]


def test_bodies_may_begin_with_blanks_and_a_mark(gateway, up):
    world = gateway.serving(up, "k-1")
    body = b"\xef\xbb\xbf \n" + json.dumps(chat()).encode()
    got = gateway.post(world, body)
    assert got.status_code in (200, 400)
    if got.status_code == 200:
        assert got.json()["choices"][0]["message"]["content"] == HELLO


def test_a_bare_404_of_another_endpoint_says_nothing_about_the_model(gateway, up):
    """A caller's mistake must not take a model from everybody."""
    up.script("k-1", raw(b"404: Not Found", status=404, content_type="text/plain"), path="/v1/embeddings")
    world = gateway.serving(up, "k-1")
    mistaken = gateway.post(world, {"model": "gpt-4o", "input": "hi"}, path="/v1/embeddings")
    assert mistaken.status_code == 404
    wait_until(gateway.is_idle)
    assert gateway.post(world, chat()).status_code == 200


def test_a_body_that_is_too_large_is_told_like_any_other_refusal(gateway, up):
    world = gateway.serving(up, "k-1")
    refused = gateway.post(world, b" " * (32 * 1024 * 1024 + 1))
    assert refused.status_code == 413
    assert refused.headers["x-request-id"].startswith("req_")
    assert (refused.headers["x-pointsman-attempts"], refused.headers["x-pointsman-session"]) == ("0", "none")
