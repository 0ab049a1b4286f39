"""`Idempotency-Key`: one upstream call and one charge for a key, whoever asks how often (reports.md 16)."""

from contextlib import closing
from datetime import timedelta
from http.client import HTTPConnection

import pytest
from django.utils import timezone

from billing import answers
from billing.models import StoredAnswer
from billing.monthly import Total, month_rows, month_text
from tests.factories import GatewayKeyFactory, LineFactory
from tests.fake.delivery import Ending
from tests.fake_upstream import answer, broken, sse_error_after, status, stream
from tests.gateway import CHARGE, CHAT, MESSAGES, attempts, chat, encoded, ledger, request_id_of
from tests.proxy.keyed import KEY, charged, records, replayed

GEMINI = "/v1beta/models/gemini-2.5-flash"
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
DIALECTS = {
    "openai": (CHAT, chat()),
    "openai stream": (CHAT, chat(stream=True)),
    "responses": ("/v1/responses", {"model": "gpt-4o", "input": "hi"}),
    "responses stream": ("/v1/responses", {"model": "gpt-4o", "input": "hi", "stream": True}),
    "anthropic": ("/v1/messages", {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": MESSAGES}),
    "anthropic stream": (
        "/v1/messages", {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": MESSAGES, "stream": True}
    ),
    "gemini": (f"{GEMINI}:generateContent", CONTENTS),
    "gemini stream": (f"{GEMINI}:streamGenerateContent?alt=sse", CONTENTS),
    "gemini array": (f"{GEMINI}:streamGenerateContent", CONTENTS),
    "embeddings": ("/v1/embeddings", {"model": "gpt-4o", "input": "hi"}),
    "speech": ("/v1/audio/speech", {"model": "gpt-4o", "input": "hi", "voice": "alloy"}),
}  # fmt: skip


class TestAfterItFinished:
    @pytest.mark.parametrize("name", DIALECTS)
    @pytest.mark.parametrize("upstream", ["openai", "own"])
    def test_the_same_bytes_without_a_second_call(self, gateway, up, name, upstream):
        path, body = DIALECTS[name]
        family = name.split(" ", maxsplit=1)[0]
        dialect = {"responses": "openai-responses", "anthropic": "anthropic", "gemini": "gemini"}.get(family, "openai")
        world = gateway.serving(up, "k-1", upstream={"dialect": "openai" if upstream == "openai" else dialect})
        first = gateway.post(world, body, path=path, headers=KEY)
        again = gateway.post(world, body, path=path, headers=KEY)
        assert (first.status_code, again.status_code) == (200, 200), first.text
        assert again.content == first.content
        assert len(first.content) > 10
        assert again.headers["content-type"] == first.headers["content-type"]
        assert (replayed(first), replayed(again)) == (None, "true")
        assert request_id_of(again) != request_id_of(first)
        assert len(up.requests) == 1
        one, other = records(world)
        assert (one.request_id, other.request_id) == (request_id_of(first), request_id_of(again))
        assert (one.replay_of, other.replay_of) == ("", one.request_id)
        assert (other.status, other.http_status, other.charge, other.cost) == ("finished", 200, 0, None)
        assert (other.attempt_count, attempts(other), ledger(other)) == (0, [], [])
        assert (other.model_requested, other.stream) == (one.model_requested, one.stream)
        assert (other.input_tokens, other.usage_source, other.priced) == (None, "none", True)
        assert charged(world) == [amount for kind, amount in ledger(one) if kind == "charge"]

    def test_what_the_answer_says_of_one_exchange_is_not_repeated(self, gateway, up):
        up.script("k-1", status(500), status(500))
        world = gateway.serving(up, "k-1", "k-2")
        up.script("k-2", answer().but(headers=(("openai-version", "2020-10-01"), ("x-ratelimit-limit-rpm", "9"))))
        first = gateway.post(world, headers=KEY | {"x-session-id": "s"})
        again = gateway.post(world, headers=KEY | {"x-session-id": "s"})
        assert (first.headers["x-pointsman-attempts"], first.headers["x-pointsman-session"]) == ("2", "new")
        assert (again.headers["x-pointsman-attempts"], again.headers["x-pointsman-session"]) == ("0", "none")
        assert again.headers["openai-version"] == "2020-10-01"
        assert again.headers["request-id"] == again.headers["x-request-id"] == request_id_of(again)

    def test_a_replay_explains_itself(self, gateway, up):
        world = gateway.serving(up, "k-1")
        first, again = (gateway.post(world, headers=KEY) for _ in range(2))
        told = gateway.get(world, f"/v1/requests/{request_id_of(again)}").json()
        assert (told["replay_of"], told["status"], told["attempts"]) == (request_id_of(first), "finished", [])
        assert told["charge"] == {"amount": "0.00", "currency": "USD", "priced": True, "estimated": False}
        assert gateway.get(world, f"/v1/requests/{request_id_of(first)}").json()["replay_of"] is None
        listed = gateway.get(world, "/v1/requests").json()["data"]
        assert [row["id"] for row in listed] == [request_id_of(again), request_id_of(first)]

    def test_another_body_is_refused(self, gateway, up):
        world = gateway.serving(up, "k-1")
        gateway.post(world, headers=KEY)
        other = gateway.post(world, chat(temperature=1), headers=KEY)
        assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_mismatch")
        assert (other.headers["x-should-retry"], replayed(other)) == ("false", None)
        elsewhere = gateway.post(world, path="/v1/embeddings", headers=KEY)
        assert elsewhere.status_code == 422
        assert len(up.requests) == 1
        assert [(row.status, row.replay_of) for row in records(world)[1:]] == [("failed", "")] * 2
        assert gateway.post(world, headers=KEY).status_code == 200  # the answer stands

    def test_other_keys_and_other_lines_are_other_calls(self, gateway, up):
        world = gateway.serving(up, "k-1")
        line = LineFactory(tenant=world.tenant)
        secret = "sk-pm-" + "z" * 40
        GatewayKeyFactory(line=line, secret=secret)
        gateway.refresh()
        gateway.post(world, headers=KEY)
        assert replayed(gateway.post(world, headers={"idempotency-key": "Order-66"})) is None
        assert replayed(gateway.post(None, headers=KEY | {"authorization": f"Bearer {secret}"})) is None
        assert len(up.requests) == 3
        assert len(charged(world)) == 3

    def test_another_gateway_key_of_the_line_is_the_same_caller(self, gateway, up):
        world = gateway.serving(up, "k-1")
        secret = "sk-pm-" + "y" * 40
        GatewayKeyFactory(line=world.line, secret=secret, name="second")
        gateway.refresh()
        gateway.post(world, headers=KEY)
        again = gateway.post(None, headers=KEY | {"authorization": f"Bearer {secret}"})
        assert (replayed(again), gateway.record(again).key_name, len(up.requests)) == ("true", "second", 1)

    def test_a_form_is_known_by_its_fields(self, gateway, up):
        """Clients draw a new boundary when they try again."""
        world = gateway.serving(up, "k-1")

        def transcribe(sound):
            with gateway.client(world) as client:
                files = {"file": ("a.mp3", sound, "audio/mpeg")}
                return client.post(
                    "/v1/audio/transcriptions", data={"model": "whisper-1"}, files=files, headers=KEY
                )  # fmt: skip

        first, again = transcribe(b"\xff\xfb1"), transcribe(b"\xff\xfb1")
        assert up.requests[0].body.count(b"whisper-1") == 1
        assert (first.status_code, again.content, replayed(again)) == (200, first.content, "true")
        assert transcribe(b"\xff\xfb2").status_code == 422
        assert len(up.requests) == 1

    def test_after_a_day_it_runs_again(self, gateway, up):
        world = gateway.serving(up, "k-1")
        gateway.post(world, headers=KEY)
        StoredAnswer.objects.filter(line=world.line).update(created=timezone.now() - answers.KEPT_FOR)
        assert replayed(gateway.post(world, chat(temperature=1), headers=KEY)) is None
        assert replayed(gateway.post(world, chat(temperature=1), headers=KEY)) == "true"
        assert (len(up.requests), len(charged(world)), StoredAnswer.objects.filter(line=world.line).count()) == (
            2,
            2,
            1,
        )

    def test_what_is_older_than_a_day_is_dropped(self, gateway, up):
        world = gateway.serving(up, "k-1")
        for key in ("a", "b"):
            gateway.post(world, headers={"idempotency-key": key})
        now = timezone.now()
        oldest = StoredAnswer.objects.filter(line=world.line).order_by("pk").first()
        StoredAnswer.objects.filter(pk=oldest.pk).update(created=now - timedelta(hours=24))
        assert answers.drop_old(now=now) == 1
        assert StoredAnswer.objects.filter(line=world.line).count() == 1
        assert answers.drop_old(now=now) == 0

    def test_the_bill_knows_nothing_of_replays(self, gateway, up):
        world = gateway.serving(up, "k-1")
        for _ in range(3):
            gateway.post(world, headers=KEY)
        total = Total()
        first = records(world)[0].day.replace(day=1)
        lines = list(month_text(month_rows(world.tenant, first), total))
        assert (len(lines), total.row.calls, total.row.failed_calls, total.row.charge) == (3, 1, 0, CHARGE)

    def test_nothing_readable_is_stored(self, gateway, up):
        world = gateway.serving(up, "k-1")
        gateway.post(world, headers=KEY)
        row = StoredAnswer.objects.filter(line=world.line).extra(select={"raw": "body"}).values("key_digest", "raw")[0]
        assert row["raw"].startswith("gAAAA")
        assert "order-66" not in str(row)


class TestRefused:
    @pytest.mark.parametrize("key", ["", "a b", "a" * 256, "schl\u00fcssel", "tab\tbed"])
    def test_a_key_that_none_can_be(self, gateway, up, key):
        world = gateway.serving(up, "k-1")
        got = gateway.post(world, headers={"idempotency-key": key.encode("latin-1")})
        assert (got.status_code, got.json()["error"]["param"]) == (400, "Idempotency-Key")
        assert "Idempotency-Key" in got.json()["error"]["message"]
        assert (up.requests, records(world)[0].error_code) == ([], "invalid_request")

    def test_two_keys_are_none(self, gateway, up):
        world = gateway.serving(up, "k-1")
        with gateway.client(world) as client:
            headers = [("idempotency-key", "a"), ("idempotency-key", "b")]
            assert client.post(CHAT, json=chat(), headers=headers).status_code == 400
        assert up.requests == []

    @pytest.mark.parametrize("key", ["!", "~" * 255, '"8e03978e-40d5-43dd-bc93-6894a57f9324"'])
    def test_every_visible_key_will_do(self, gateway, up, key):
        world = gateway.serving(up, "k-1")
        got = [replayed(gateway.post(world, headers={"idempotency-key": key})) for _ in range(2)]
        assert got == [None, "true"]

    def test_blanks_around_a_key_are_no_part_of_it(self, gateway, up):
        world = gateway.serving(up, "k-1")
        gateway.post(world, headers=KEY)
        with closing(HTTPConnection("127.0.0.1", gateway.port)) as client:
            client.request("POST", CHAT, encoded(chat()), world.headers | {"idempotency-key": " \torder-66 \t "})
            got = client.getresponse()
            assert (got.status, got.headers["idempotent-replayed"], len(up.requests)) == (200, "true", 1)

    def test_counts_and_reads_do_not_heed_it(self, gateway, up):
        world = gateway.serving(up, "k-1", upstream={"dialect": "anthropic"})
        body = {"model": "claude-sonnet-4-5", "messages": MESSAGES}
        got = [gateway.post(world, body, path="/v1/messages/count_tokens", headers=KEY) for _ in range(2)]
        assert [one.status_code for one in got] == [200, 200]
        assert [replayed(one) for one in got] == [None, None]
        assert gateway.get(world, "/v1/models", headers={"idempotency-key": "a b"}).status_code == 200
        assert StoredAnswer.objects.filter(line=world.line).count() == 0


class TestFailures:
    def test_a_fault_of_the_request_is_kept(self, gateway, up):
        up.default(status(400, "messages: must alternate"), key="k-1")
        world = gateway.serving(up, "k-1")
        first, again = (gateway.post(world, headers=KEY) for _ in range(2))
        assert (first.status_code, again.status_code) == (400, 400)
        assert (again.content, replayed(again)) == (first.content, "true")
        assert again.headers["x-pointsman-error-source"] == "upstream"
        assert len(up.requests) == 1
        assert [(row.status, row.http_status, bool(row.replay_of)) for row in records(world)] == [
            ("failed", 400, False), ("failed", 400, True),
        ]  # fmt: skip

    @pytest.mark.parametrize("failing", [status(500), status(429, retry_after=1), status(401), status(404)])
    def test_any_other_frees_the_key(self, gateway, up, failing):
        up.script("k-1", failing)
        world = gateway.serving(up, "k-1", group={"policy": {"slot_wait_s": 0}})
        first = gateway.post(world, headers=KEY)
        assert first.status_code >= 404
        assert StoredAnswer.objects.filter(line=world.line).count() == 0
        gateway.post(world, headers=KEY)
        one, other = records(world)
        assert (one.status, other.replay_of) == ("failed", "")

    def test_a_refusal_of_ours_is_not_kept(self, gateway, up):
        world = gateway.serving(up, "k-1")
        for _ in range(2):
            got = gateway.post(world, b"{", headers=KEY)
            assert (got.status_code, got.json()["error"]["code"]) == (400, "malformed_body")
            assert replayed(got) is None

    @pytest.mark.parametrize(
        "failing", [sse_error_after(2), broken(stream(["a", "b", "c"]), Ending.CLOSE, events=3)], ids=["error", "cut"]
    )
    def test_a_stream_that_broke_is_not_kept(self, gateway, up, failing):
        up.script("k-1", failing)
        world = gateway.serving(up, "k-1")
        first = gateway.post(world, chat(stream=True), headers=KEY)
        assert b"upstream_failed" in first.content
        again = gateway.post(world, chat(stream=True), headers=KEY)
        assert (again.content.endswith(b"data: [DONE]\n\n"), replayed(again)) == (True, None)
        assert [row.status for row in records(world)] == ["failed", "finished"]
        assert len(charged(world)) == 1
