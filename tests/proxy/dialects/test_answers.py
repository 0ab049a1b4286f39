"""What each official SDK makes of each upstream dialect's answers: text, usage, tools, thinking, stop reasons."""

import pytest

from billing.models import RequestRecord
from keys.core.dialect import Dialect
from tests.fake_upstream import Tokens, UsagePlace, answer, thinking, tool_call
from tests.proxy.dialects.speaking import MODEL, PNG, SCHEMA, Counted, Question
from tests.proxy.dialects.upstreams import Seen

TEXT = "Zürich: 12 °C, 多云 🌧 and more."
TOKENS = Tokens(input=100, output=20, cached_read=60)
PATHS = {
    Dialect.OPENAI: ("/v1/chat/completions", ""),
    Dialect.RESPONSES: ("/v1/responses", ""),
    Dialect.ANTHROPIC: ("/v1/messages", ""),
    Dialect.GEMINI: (f"/v1/models/{MODEL}:generateContent", ""),
}
STREAMED_GEMINI = (f"/v1/models/{MODEL}:streamGenerateContent", "alt=sse")
STOPS = {
    "openai chat": {"end": "stop", "max": "length", "tools": "tool_calls", "filter": "content_filter"},
    "openai responses": {
        "end": "completed",
        "max": "incomplete:max_output_tokens",
        "tools": "completed",
        "filter": "incomplete:content_filter",
    },
    "anthropic messages": {"end": "end_turn", "max": "max_tokens", "tools": "tool_use", "filter": "refusal"},
    "google gemini": {"end": "STOP", "max": "MAX_TOKENS", "tools": "STOP", "filter": "SAFETY"},
}
MAX_WORDS = {
    Dialect.OPENAI: "length",
    Dialect.RESPONSES: "incomplete",
    Dialect.ANTHROPIC: "max_tokens",
    Dialect.GEMINI: "MAX_TOKENS",
}
FILTER_WORDS = {Dialect.OPENAI: "content_filter", Dialect.ANTHROPIC: "refusal", Dialect.GEMINI: "SAFETY"}


def recorded(record):
    return (record.input_tokens, record.cached_read_tokens, record.output_tokens, record.usage_source)


@pytest.mark.feature("text")
def test_text_and_usage(gateway, up, speaker, dialect, serve, stream):
    """Reports 1, 2, 11: the same tokens streamed and not, recorded once."""
    up.script("k-1", answer(TEXT, tokens=TOKENS))
    world = serve()
    heard = speaker.ask(gateway, world, Question(), stream=stream)
    assert (heard.text, heard.stop, heard.model) == (TEXT, STOPS[speaker.name]["end"], MODEL)
    assert heard.calls == ()
    assert heard.usage == Counted(100, 20, 60)
    record = gateway.only_record(world)
    assert recorded(record) == (100, 60, 20, "upstream")
    assert (record.status, record.attempt_count, record.stream) == ("finished", 1, stream)
    assert heard.headers["x-request-id"] == record.request_id
    assert heard.headers["x-pointsman-attempts"] == "1"
    expected = STREAMED_GEMINI if stream and dialect is Dialect.GEMINI else PATHS[dialect]
    assert [(seen.path, seen.query) for seen in up.requests] == [expected]
    assert up.keys() == ["k-1"]


@pytest.mark.feature("system text")
def test_system_text_arrives(gateway, up, speaker, dialect, serve):
    world = serve()
    speaker.ask(gateway, world, Question("Say hello.", system="Answer in Latin."))
    seen = Seen(up.last, dialect)
    assert (seen.system, seen.said) == ("Answer in Latin.", "Say hello.")


@pytest.mark.feature("image")
def test_an_image_arrives(gateway, up, speaker, dialect, serve):
    heard = speaker.ask(gateway, serve(), Question("What is this?", image=PNG))
    seen = Seen(up.last, dialect)
    assert (seen.images, seen.said) == ([PNG], "What is this?")
    assert heard.headers.get("x-pointsman-dropped") is None


@pytest.mark.feature("tools")
def test_a_tool_is_called_and_its_result_comes_back(gateway, up, speaker, dialect, serve, stream):
    """Reports 41, 45, and the whole round: declared, called, answered, concluded."""
    up.script("k-1", answer(tool_call("weather", {"city": "Bern"}, call_id="call_b")), answer("Sunny."))
    world = serve()
    first = speaker.ask(gateway, world, Question(tools=["weather"]), stream=stream)
    assert [(call.name, call.arguments) for call in first.calls] == [("weather", {"city": "Bern"})]
    assert first.stop == STOPS[speaker.name]["tools"]
    assert Seen(up.last, dialect).tools == [("weather", SCHEMA)]
    question = Question(tools=["weather"], answered=first, results=["sunny, 20 °C"])
    second = speaker.ask(gateway, world, question, stream=stream)
    assert (second.text, second.stop) == ("Sunny.", STOPS[speaker.name]["end"])
    seen = Seen(up.last, dialect)
    ((called_id, name, arguments),) = seen.calls
    assert (name, arguments) == ("weather", {"city": "Bern"})
    assert seen.results == [(called_id, "sunny, 20 °C")]


@pytest.mark.feature("parallel tools")
@pytest.mark.parametrize("interleaved", [False, True])
def test_parallel_tool_calls_keep_their_arguments(gateway, up, speaker, dialect, serve, stream, interleaved):
    """Report 40: deltas of two calls alternate."""
    bern = tool_call("weather", {"city": "Bern"}, call_id="call_1", pieces=4)
    oslo = tool_call("weather", {"city": "Oslo"}, call_id="call_2", pieces=4)
    up.script("k-1", answer("Let me look.", bern, oslo).but(interleaved=interleaved), answer("Both fine."))
    world = serve()
    first = speaker.ask(gateway, world, Question(tools=["weather"]), stream=stream)
    assert first.text == "Let me look."
    assert [call.arguments for call in first.calls] == [{"city": "Bern"}, {"city": "Oslo"}]
    assert len({call.id for call in first.calls}) == 2
    question = Question(tools=["weather"], answered=first, results=["sun", "snow"])
    assert speaker.ask(gateway, world, question, stream=stream).text == "Both fine."
    seen = Seen(up.last, dialect)
    assert [arguments for _, _, arguments in seen.calls] == [{"city": "Bern"}, {"city": "Oslo"}]
    assert seen.results == [(seen.calls[0][0], "sun"), (seen.calls[1][0], "snow")]


@pytest.mark.feature("tools")
def test_a_call_without_arguments(gateway, up, speaker, dialect, serve, stream):
    up.script("k-1", answer(tool_call("now", {}, call_id="call_n")))
    heard = speaker.ask(gateway, serve(), Question(tools=["now"]), stream=stream)
    assert [(call.name, call.arguments) for call in heard.calls] == [("now", {})]


@pytest.mark.feature("stop reasons")
def test_a_cut_answer_says_so(gateway, up, speaker, dialect, serve, stream):
    up.script("k-1", answer("Half a sen").but(finish=MAX_WORDS[dialect]))
    heard = speaker.ask(gateway, serve(), Question(), stream=stream)
    assert (heard.text, heard.stop) == ("Half a sen", STOPS[speaker.name]["max"])


@pytest.mark.feature("stop reasons")
def test_a_filtered_answer_says_so(gateway, up, speaker, dialect, serve, stream):
    if dialect not in FILTER_WORDS:
        pytest.skip("the scripted upstream has no such ending in this dialect")
    up.script("k-1", answer("I").but(finish=FILTER_WORDS[dialect]))
    heard = speaker.ask(gateway, serve(), Question(), stream=stream)
    assert heard.text == "I"
    assert heard.stop == STOPS[speaker.name]["filter"]


@pytest.mark.feature("thinking")
def test_thinking_is_shown(gateway, up, speaker, dialect, serve, stream):
    up.script("k-1", answer(thinking("Let me see."), "Four.", tokens=Tokens(input=100, output=20, reasoning=5)))
    world = serve()
    heard = speaker.ask(gateway, world, Question("2 + 2?"), stream=stream)
    assert (heard.thinking, heard.text) == ("Let me see.", "Four.")
    assert heard.usage == Counted(100, 20, 0)
    record = gateway.only_record(world)
    assert record.output_tokens == 20
    if dialect is not Dialect.ANTHROPIC:  # which does not tell
        assert record.reasoning_tokens == 5


@pytest.mark.feature("signed thinking")
def test_signed_thinking_comes_back_to_its_maker(gateway, up, speaker, dialect, serve, stream):
    """Report 47. The client sends back what its SDK gave it; the maker's signature must be in it again."""
    if dialect is Dialect.OPENAI:
        pytest.skip("chat completions know no signature")
    signature = "c2lnbmVkLWJ5LXRoZS1tYWtlcg=="
    call = tool_call("weather", {"city": "Bern"}, call_id="call_b", signature=signature)
    up.script("k-1", answer(thinking("I need a tool.", signature), call), answer("Sunny."))
    world = serve()
    first = speaker.ask(gateway, world, Question(tools=["weather"]), stream=stream)
    question = Question(tools=["weather"], answered=first, results=["sunny"])
    assert speaker.ask(gateway, world, question, stream=stream).text == "Sunny."
    if speaker.name == "openai chat" and dialect is not Dialect.GEMINI:
        pytest.skip("a chat history has no place for it")
    assert signature.encode() in up.last.body


@pytest.mark.feature("usage")
@pytest.mark.parametrize("place", [UsagePlace.FINISH, UsagePlace.EVERY, UsagePlace.AFTER_DONE])
def test_usage_wherever_a_chat_upstream_reports_it(gateway, up, speaker, place):
    up.script("k-1", answer(TEXT, tokens=TOKENS).but(usage_place=place))
    world = gateway.serving(up, "k-1")
    heard = speaker.ask(gateway, world, Question(), stream=True)
    assert (heard.text, heard.usage) == (TEXT, Counted(100, 20, 60))
    assert recorded(gateway.only_record(world)) == (100, 60, 20, "upstream")


@pytest.mark.feature("usage")
def test_cache_writes_are_counted(gateway, up, speaker, stream):
    """Report 8: exclusive Anthropic counts become inclusive ones, and back."""
    up.script("k-1", answer(TEXT, tokens=Tokens(input=1472, output=206, cached_read=0, cache_write=1447)))
    world = gateway.serving(up, "k-1", upstream={"dialect": "anthropic"})
    heard = speaker.ask(gateway, world, Question(), stream=stream)
    assert heard.usage == Counted(1472, 206, 0)
    record = gateway.only_record(world)
    assert (record.input_tokens, record.cache_write_tokens, record.output_tokens) == (1472, 1447, 206)


@pytest.mark.feature("usage")
def test_an_upstream_without_usage_is_estimated_and_says_so(gateway, up, speaker, dialect, serve, stream):
    up.script("k-1", answer(TEXT, tokens=None))
    world = serve()
    assert speaker.ask(gateway, world, Question(), stream=stream).text == TEXT
    record = gateway.only_record(world)
    assert (record.usage_source, record.estimated) == ("estimated", True)
    assert record.output_tokens is not None
    assert 4 <= record.output_tokens <= 20
    assert RequestRecord.objects.filter(tenant=world.tenant).count() == 1


@pytest.mark.feature("model name")
def test_an_alias_shows_the_clients_name(gateway, up, speaker, dialect, serve, stream):
    world = serve(upstream={"aliases": {MODEL: "vendor/real-name"}})
    heard = speaker.ask(gateway, world, Question(), stream=stream)
    assert heard.model == MODEL
    assert b"vendor/real-name" in up.last.body or "vendor/real-name" in up.last.path
    assert gateway.only_record(world).model_served == "vendor/real-name"
