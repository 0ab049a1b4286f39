"""The endpoints beside generating text, through the official SDKs: embeddings, pictures, sound, moderation, ranking."""

import io
import json
from decimal import Decimal

import httpx
import pytest

from tests.fake.lists import SOUND
from tests.fake_upstream import Ending, Tokens, answer, broken, raw, sse, status
from tests.gateway import ledger, outcomes
from tests.proxy.dialects.gemini_speaker import client_of as gemini_client
from tests.proxy.dialects.speaking import Ears

AUDIO = b"RIFF\x00\x01\r\n--not-the-boundary\r\n\xff\xfe" * 50
PER_CALL = {"unit": "per_call", "currency": "USD", "call": "0.04", "input": None, "cached_input": None, "output": None}


def tokens_of(record):
    return (record.input_tokens, record.output_tokens, record.usage_source)


class TestEmbeddings:
    def test_openai(self, gateway, up):
        up.default(answer(tokens=Tokens(input=9)))
        world = gateway.serving(up, "k-1")
        with gateway.openai(world) as client:
            got = client.embeddings.create(model="text-embedding-3-small", input=["a", "b"], encoding_format="float")
        assert [row.embedding for row in got.data] == [[0.25, -0.5, 0.125]] * 2
        assert up.last.path == "/v1/embeddings"
        record = gateway.only_record(world)
        assert tokens_of(record) == (9, 0, "upstream")
        assert record.charge == Decimal("0.0000225")
        assert (record.endpoint, record.status) == ("embeddings", "finished")

    def test_failover(self, gateway, up):
        up.script("k-1", status(500))
        world = gateway.serving(up, "k-1", "k-2")
        got = gateway.post(world, {"model": "e", "input": "a"}, path="/v1/embeddings")
        assert got.status_code == 200
        assert outcomes(gateway.record(got)) == [("k1", "server_error"), ("k2", "served")]

    @pytest.mark.parametrize("version", ["v1", "v1beta"])
    def test_gemini_in_a_batch(self, gateway, up, version):
        world = gateway.serving(up, "k-1", upstream={"dialect": "gemini", "aliases": {"emb": "vendor-emb"}})
        with gemini_client(gateway, world, Ears(), version) as client:
            got = client.models.embed_content(model="emb", contents=["x", "y"])
        assert [row.values for row in got.embeddings] == [[0.25, -0.5, 0.125]] * 2
        assert up.last.path == "/v1/models/vendor-emb:batchEmbedContents"
        assert [one["model"] for one in up.last.json["requests"]] == ["models/vendor-emb"] * 2
        record = gateway.only_record(world)
        assert (record.endpoint, record.usage_source) == ("batchEmbedContents", "estimated")

    def test_gemini_single(self, gateway, up):
        world = gateway.serving(up, "k-1", upstream={"dialect": "gemini"})
        body = b'{ "content" : {"parts":[{"text":"x"}]}, "outputDimensionality": 3 }'
        got = gateway.post(world, body, path="/v1beta/models/emb:embedContent")
        assert got.json() == {"embedding": {"values": [0.25, -0.5, 0.125]}}
        assert (up.last.path, up.last.body) == ("/v1/models/emb:embedContent", body)

    @pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/rerank", "/v1/completions"])
    def test_no_upstream_of_the_dialect(self, gateway, up, path):
        world = gateway.serving(up, "k-1", upstream={"dialect": "anthropic"})
        got = gateway.post(world, {"model": "e", "input": "a", "prompt": "a"}, path=path)
        assert (got.status_code, got.json()["error"]["code"]) == (404, "model_not_found")
        assert path.removeprefix("/v1/") in got.json()["error"]["message"]
        assert up.requests == []


class TestPictures:
    def test_usage_is_metered(self, gateway, up):
        up.default(answer(tokens=Tokens(input=12)))
        world = gateway.serving(up, "k-1")
        with gateway.openai(world) as client:
            got = client.images.generate(model="gpt-image-1", prompt="a train")
        assert got.data is not None
        assert got.data[0].b64_json == "iVBORw0KGgo="
        assert tokens_of(gateway.only_record(world)) == (12, 1056, "upstream")

    def test_a_price_per_call_needs_no_usage(self, gateway, up):
        up.default(raw({"created": 1, "data": [{"url": "https://x.example/p.png"}]}))
        world = gateway.serving(up, "k-1", price=PER_CALL)
        got = gateway.post(world, {"model": "dall-e-3", "prompt": "x"}, path="/v1/images/generations")
        record = gateway.record(got)
        assert (record.charge, record.priced, record.usage_source) == (Decimal("0.04"), True, "none")

    def test_pictures_without_usage_are_unpriced_by_token_never_guessed(self, gateway, up):
        up.default(raw({"created": 1, "data": [{"url": "https://x.example/p.png"}]}))
        world = gateway.serving(up, "k-1")
        got = gateway.post(world, {"model": "dall-e-3", "prompt": "x"}, path="/v1/images/generations")
        record = gateway.record(got)
        assert (record.charge, record.priced, record.estimated) == (None, False, False)

    def test_a_stream_of_pictures(self, gateway, up):
        events = (
            b'event: image_generation.partial_image\ndata: {"type":"image_generation.partial_image","b64_json":"eA==",'
            b'"partial_image_index":0}\n\n',
            b'event: image_generation.completed\ndata: {"type":"image_generation.completed","b64_json":"eQ==",'
            b'"usage":{"input_tokens":5,"output_tokens":7,"total_tokens":12}}\n\n',
        )
        up.default(sse(*events))
        world = gateway.serving(up, "k-1")
        body = {"model": "gpt-image-1", "prompt": "x", "stream": True}
        got = gateway.post(world, body, path="/v1/images/generations")
        assert got.content == b"".join(events)
        assert up.last.json == body
        assert tokens_of(gateway.record(got)) == (5, 7, "upstream")

    def test_a_model_must_be_named(self, gateway, up):
        got = gateway.post(gateway.serving(up, "k-1"), {"prompt": "x"}, path="/v1/images/generations")
        assert (got.status_code, got.json()["error"]["param"]) == (400, "model")


class TestTranscriptions:
    def test_the_form_passes_byte_for_byte(self, gateway, up):
        world = gateway.serving(up, "k-1")
        with gateway.openai(world) as client:
            got = client.audio.transcriptions.create(
                model="whisper-1", file=("talk.wav", io.BytesIO(AUDIO), "audio/wav"), temperature=0.0
            )
        assert got.text == "fake words"
        assert up.last.path == "/v1/audio/transcriptions"
        assert AUDIO in up.last.body
        sent_type = up.last.header("content-type") or ""
        assert sent_type.startswith("multipart/form-data; boundary=")
        assert up.last.body.startswith(b"--" + sent_type.partition("boundary=")[2].encode())

    def test_an_alias_changes_the_one_field(self, gateway, up):
        world = gateway.serving(up, "k-1", upstream={"aliases": {"whisper": "openai/whisper-large"}})
        body, kind = form([("model", None, b"whisper"), ("file", "model", AUDIO), ("language", None, b"de")])
        got = gateway.post(world, body, path="/v1/audio/transcriptions", headers={"content-type": kind})
        assert got.status_code == 200
        assert up.last.body == body.replace(b"\r\n\r\nwhisper\r\n", b"\r\n\r\nopenai/whisper-large\r\n")
        assert gateway.record(got).model_served == "openai/whisper-large"

    @pytest.mark.parametrize(
        ("kind", "text"), [("text/plain; charset=utf-8", "Hallo\n"), ("text/vtt", "WEBVTT\n\n1\n")]
    )
    def test_answers_that_are_no_json(self, gateway, up, kind, text):
        up.default(raw(text, content_type=kind))
        body, sent = form([("model", None, b"whisper-1"), ("file", "a.wav", AUDIO), ("response_format", None, b"vtt")])
        world = gateway.serving(up, "k-1", price=PER_CALL)
        got = gateway.post(world, body, path="/v1/audio/transcriptions", headers={"content-type": sent})
        assert (got.text, got.headers["content-type"]) == (text, kind)
        record = gateway.record(got)
        assert (record.charge, record.usage_source, record.priced) == (Decimal("0.04"), "none", True)

    def test_megabytes_of_sound_are_not_billed_as_text(self, gateway, up):
        body, sent = form([("model", None, b"whisper-1"), ("file", "a.wav", AUDIO * 1000)])
        got = gateway.post(
            gateway.serving(up, "k-1"), body, path="/v1/audio/transcriptions", headers={"content-type": sent}
        )
        record = gateway.record(got)
        assert (record.charge, record.priced, record.input_tokens) == (None, False, None)

    def test_html_is_no_transcript(self, gateway, up):
        up.script("k-1", raw("<html>oops</html>", content_type="text/plain"))
        body, sent = form([("model", None, b"whisper-1"), ("file", "a.wav", AUDIO)])
        got = gateway.post(
            gateway.serving(up, "k-1", "k-2"), body, path="/v1/audio/transcriptions", headers={"content-type": sent}
        )
        assert outcomes(gateway.record(got)) == [("k1", "server_error"), ("k2", "served")]

    def test_a_stream(self, gateway, up):
        events = (
            b'data: {"type":"transcript.text.delta","delta":"Hal"}\n\n',
            b'data: {"type":"transcript.text.done","text":"Hallo","usage":{"type":"tokens","input_tokens":14,'
            b'"output_tokens":3,"total_tokens":17}}\n\n',
        )
        up.default(sse(*events))
        body, sent = form([("model", None, b"gpt-4o-transcribe"), ("stream", None, b"true"), ("file", "a", AUDIO)])
        got = gateway.post(
            gateway.serving(up, "k-1"), body, path="/v1/audio/transcriptions", headers={"content-type": sent}
        )
        assert got.content == b"".join(events)
        assert tokens_of(gateway.record(got)) == (14, 3, "upstream")

    def test_a_model_that_does_not_stream(self, gateway, up):
        body, sent = form([("model", None, b"whisper-1"), ("stream", None, b"true"), ("file", "a", AUDIO)])
        got = gateway.post(
            gateway.serving(up, "k-1"), body, path="/v1/audio/transcriptions", headers={"content-type": sent}
        )
        assert got.json() == {"text": "fake words"}

    @pytest.mark.parametrize(
        ("content_type", "body"),
        [
            ("application/json", b'{"model":"whisper-1"}'),
            ("multipart/form-data", b"--x\r\n\r\n"),
            ("multipart/form-data; boundary=x", b""),
            ("multipart/form-data; boundary=x", b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nwhisper'),
        ],
    )
    def test_what_is_no_form_is_told(self, gateway, up, content_type, body):
        got = gateway.post(
            gateway.serving(up, "k-1"), body, path="/v1/audio/transcriptions", headers={"content-type": content_type}
        )
        assert (got.status_code, got.json()["error"]["code"]) == (400, "malformed_body")
        assert up.requests == []


class TestSpeech:
    ASKED = {"model": "tts-1", "voice": "alloy", "input": "Hello"}

    def test_the_sound_comes_as_it_is(self, gateway, up):
        world = gateway.serving(up, "k-1", price=PER_CALL)
        with gateway.openai(world) as client:
            got = client.audio.speech.create(**self.ASKED)
        assert got.content == SOUND
        assert got.response.headers["content-type"] == "audio/mpeg"
        record = gateway.only_record(world)
        assert (record.status, record.charge, record.usage_source) == ("finished", Decimal("0.04"), "none")

    def test_it_is_passed_on_in_pieces(self, gateway, up):
        pieces = tuple(bytes([number]) * 1000 for number in range(1, 9))
        up.default(raw(pieces, content_type="audio/mpeg").but(delay_s=0.02))
        world = gateway.serving(up, "k-1")
        with gateway.client(world) as client, client.stream("POST", "/v1/audio/speech", json=self.ASKED) as got:
            heard = list(got.iter_raw())
        assert b"".join(heard) == b"".join(pieces)
        assert len(heard) > 3

    def test_a_failure_before_the_sound_moves_on(self, gateway, up):
        up.script("k-1", status(500), raw({"error": {"message": "no"}}), raw(b"", content_type="audio/mpeg"))
        world = gateway.serving(up, "k-1", "k-2")
        for _ in range(3):
            assert gateway.post(world, self.ASKED, path="/v1/audio/speech").content == SOUND

    def test_a_broken_sound_ends_too_early_for_the_client_as_well(self, gateway, up):
        up.default(broken(raw((b"a" * 500, b"b" * 500), content_type="audio/mpeg"), Ending.RESET, size=700))
        world = gateway.serving(up, "k-1", price=PER_CALL)
        with pytest.raises(httpx.RemoteProtocolError):
            gateway.post(world, self.ASKED, path="/v1/audio/speech")
        record = gateway.only_record(world)
        assert (record.status, record.charge) == ("failed", 0)
        assert [kind for kind, _ in ledger(record)] in ([], ["waste"])

    def test_events_on_request(self, gateway, up):
        events = (
            b'data: {"type":"speech.audio.delta","audio":"eA=="}\n\n',
            b'data: {"type":"speech.audio.done","usage":{"input_tokens":4,"output_tokens":9,"total_tokens":13}}\n\n',
        )
        up.default(sse(*events))
        got = gateway.post(gateway.serving(up, "k-1"), {**self.ASKED, "stream_format": "sse"}, path="/v1/audio/speech")
        assert got.content == b"".join(events)
        assert tokens_of(gateway.record(got)) == (4, 9, "upstream")


class TestModerations:
    def test_without_a_model_the_providers_default_is_meant(self, gateway, up):
        world = gateway.serving(up, "k-1", line={"model_globs": ["omni-*"]})
        with gateway.openai(world) as client:
            got = client.moderations.create(input="x")
        assert got.results[0].flagged is False
        assert up.last.json == {"input": "x"}
        assert gateway.only_record(world).model_requested == "omni-moderation-latest"

    def test_the_default_is_no_way_around_the_lines_models(self, gateway, up):
        got = gateway.post(
            gateway.serving(up, "k-1", line={"model_globs": ["gpt-*"]}), {"input": "x"}, path="/v1/moderations"
        )
        assert got.status_code == 403


def test_ranking(gateway, up):
    up.default(answer(tokens=Tokens(input=33)))
    body = {"model": "rerank-v3", "query": "q", "documents": ["a", "b"]}
    got = gateway.post(gateway.serving(up, "k-1"), body, path="/v1/rerank")
    assert [row["index"] for row in got.json()["results"]] == [0, 1]
    assert gateway.record(got).endpoint == "rerank"


@pytest.mark.parametrize("stream", [False, True])
def test_older_completions(gateway, up, stream):
    world = gateway.serving(up, "k-1")
    with gateway.openai(world) as client:
        got = client.completions.create(model="gpt-3.5-turbo-instruct", prompt="Say", stream=stream)
        text = "".join(c.choices[0].text for c in got) if stream else got.choices[0].text
    assert text == "Hello from the fake upstream."
    assert tokens_of(gateway.only_record(world)) == (25, 7, "upstream")


def form(parts):
    """(body, content-type) of a form; a part is (name, file name or None, content)."""
    pieces = []
    for name, filename, content in parts:
        more = f'; filename="{filename}"' if filename else ""
        pieces.append(f'--b0und\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + content)
    return b"\r\n".join([*pieces, b"--b0und--\r\n"]), 'multipart/form-data; boundary="b0und"'


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/embeddings"), ("DELETE", "/v1/responses"), ("PUT", "/v1/x")])
def test_unknown_methods_and_paths(gateway, up, method, path):
    world = gateway.serving(up, "k-1")
    with gateway.client(world) as client:
        got = client.request(method, path)
    assert got.status_code == (404 if path == "/v1/x" else 405)
    assert json.loads(got.content)["error"]["type"] == "gateway_error"


class TestModelLists:
    """SDKs page through lists: ours are one page, whatever is asked."""

    @pytest.fixture
    def world(self, gateway, up):
        return gateway.serving(up, "k-1", upstream={"model_list": ["claude-a", "gpt-b", "gpt-c"]})

    def test_anthropic(self, gateway, world):
        with gateway.anthropic(world) as client:
            assert [model.id for model in client.models.list(limit=1)] == ["claude-a", "gpt-b", "gpt-c"]
            assert [model.id for model in client.models.list(limit=1000, after_id="x")] == [
                "claude-a",
                "gpt-b",
                "gpt-c",
            ]

    def test_openai(self, gateway, world):
        with gateway.openai(world) as client:
            assert [model.id for model in client.models.list()] == ["claude-a", "gpt-b", "gpt-c"]

    @pytest.mark.parametrize("version", ["v1", "v1beta"])
    def test_gemini(self, gateway, world, version):
        with gemini_client(gateway, world, Ears(), version) as client:
            names = [model.name for model in client.models.list(config={"page_size": 1})]
        assert names == ["models/claude-a", "models/gpt-b", "models/gpt-c"]
