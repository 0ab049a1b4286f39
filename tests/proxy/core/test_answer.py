"""Passage: which bytes go on, what is held back for the end, and what is learnt on the side."""

import json

import pytest

from billing.core.usage import UsageMeter
from keys.core.dialect import Dialect
from proxy.core.answer import Answer, Passage, Rename, generated_bytes, marks_of, streamed_bytes, usage_seen
from proxy.core.sse import Event, Framer
from tests.proxy.core.calls import attempt

OPENAI, RESPONSES, ANTHROPIC, GEMINI = Dialect.OPENAI, Dialect.RESPONSES, Dialect.ANTHROPIC, Dialect.GEMINI


class Nothing:
    async def chunk(self):
        return b""

    def abort(self, fault="", text=""):
        """Nothing to drop."""

    def release(self):
        """Nothing to give back."""


def passage(dialect=OPENAI, *, withhold=False, rename=None, meter=True):
    made = Answer(
        made=attempt(), status=200, headers=[], dialect=dialect, source=Nothing(), silence_s=1,
        meter=UsageMeter(dialect) if meter else None, withhold_usage=withhold, rename=rename,
    )  # fmt: skip
    return Passage(made), made


def events(*raw):
    return [event for one in raw for event in Framer().feed(one)]


def data(payload):
    return b"data: " + json.dumps(payload, separators=(",", ":")).encode() + b"\n\n"


def delta(text, **more):
    return data({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more})


FINISH = data({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
USAGE = data({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
DONE = b"data: [DONE]\n\n"


def test_content_goes_on_as_it_came():
    made, _ = passage()
    assert made.take(events(delta("a"), b": hi\n\n", delta("b"))) == delta("a") + b": hi\n\n" + delta("b")
    assert (made.content, made.finished, made.ended, made.output, made.error) == (True, False, False, 2, None)
    assert made.last() == b""


def test_one_event_is_not_copied():
    made, _ = passage()
    (event,) = events(delta("a"))
    assert made.take([event]) is event.raw


def test_the_end_is_held_back():
    made, answer = passage()
    assert made.take(events(delta("a"), FINISH, USAGE, DONE)) == delta("a") + FINISH + USAGE
    assert (made.finished, made.ended, made.last()) == (True, True, DONE)
    assert answer.meter.result().output_tokens == 2


def test_what_comes_behind_the_end_goes_in_front_of_it():
    made, _ = passage()
    made.take(events(DONE, USAGE, b": bye\n\n"))
    assert made.last() == USAGE + DONE


def test_a_second_end_stays_an_end():
    made, _ = passage()
    made.take(events(DONE, USAGE, DONE))
    assert made.last() == USAGE + DONE + DONE


@pytest.mark.parametrize("withhold", [True, False])
def test_the_usage_chunk_is_withheld_where_it_was_ours(withhold):
    made, answer = passage(withhold=withhold)
    assert made.take(events(USAGE)) == (b"" if withhold else USAGE)
    assert answer.meter.result().input_tokens == 3


def test_usage_beside_choices_is_not_withheld():
    made, answer = passage(withhold=True)
    mixed = delta("a", usage={"prompt_tokens": 3, "completion_tokens": 2})
    assert made.take(events(mixed)) == mixed
    assert answer.meter.result().input_tokens == 3


def test_without_a_meter_usage_is_not_read():
    made, _ = passage(meter=False)
    assert made.take(events(USAGE)) == USAGE


def test_an_error_ends_it_and_what_stood_before_goes_on():
    made, _ = passage()
    error = data({"error": {"message": "x"}})
    assert made.take(events(delta("a"), error, delta("b"))) == delta("a")
    assert made.error.raw == error
    assert made.take(events(delta("c"))) == b""


def test_half_an_event_is_an_error():
    made, _ = passage()
    assert made.take([Event(b'data: {"choices":[{"del', complete=False)]) == b""
    assert made.error is not None


def test_an_event_that_lacks_only_its_blank_line_is_whole():
    made, _ = passage()
    assert made.take([Event(DONE.rstrip(), complete=False)]) == b""
    assert (made.ended, made.last()) == (True, DONE)


def test_the_clients_name_is_shown():
    made, _ = passage(rename=Rename(b"up/gpt", b"gpt"))
    assert made.take(events(delta("a", model="up/gpt"))) == delta("a", model="gpt")
    assert made.take(events(delta("up/gpt", model="other"))) == delta("up/gpt", model="other")


def test_what_sdks_cannot_take_is_dropped():
    made, _ = passage()
    assert made.take(events(b"event: ping\ndata: {}\n\n", b"id: 7\n\n")) == b""


def test_broken_is_worded_in_the_dialect():
    assert passage(OPENAI)[0].broken(502, "c", "m", "req").startswith(b'data: {"error":')
    assert passage(ANTHROPIC)[0].broken(502, "c", "m", "req").startswith(b"event: error\n")


@pytest.mark.parametrize(
    ("dialect", "raw", "size"),
    [
        (OPENAI, delta("abc"), 3),
        (OPENAI, b'data: {"choices":[{"delta":{"content" : "a\\"b"}}]}\n\n', 4),
        (OPENAI, data({"choices": [{"delta": {"reasoning_content": "abcd"}}]}), 4),
        (OPENAI, data({"choices": [{"delta": {"tool_calls": [{"function": {"arguments": "{}"}}]}}]}), 2),
        (ANTHROPIC, data({"delta": {"type": "input_json_delta", "partial_json": "{}"}}), 2),
        (ANTHROPIC, data({"delta": {"type": "thinking_delta", "thinking": "abc"}}), 3),
        (GEMINI, data({"candidates": [{"content": {"parts": [{"text": "abc"}]}}]}), 3),
        (RESPONSES, data({"type": "response.output_text.delta", "delta": "abc"}), 3),
        (RESPONSES, data({"type": "response.output_text.done", "text": "abc"}), 0),
        (OPENAI, USAGE, 0),
    ],
)
def test_generated_text_is_counted(dialect, raw, size):
    assert streamed_bytes(dialect, raw) == size


def test_a_whole_answer_is_counted_once():
    assert generated_bytes(b'{"choices":[{"message":{"content":"abcd","refusal":null}}]}') == 4


def test_usage_of_a_stream_that_came_to_nothing():
    start = b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":9}}}\n\n'
    assert usage_seen(ANTHROPIC, events(start, b": x\n\n"), "").input_tokens == 9
    assert usage_seen(OPENAI, events(delta("a")), "") is None
    assert usage_seen(OPENAI, events(b'data: "usage"\n\n'), "") is None


def test_marks_are_found_in_what_hands_them_out():
    made, _ = passage(ANTHROPIC)
    signed = {"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": "c2ln"}}
    made.take(events(b"event: content_block_delta\n" + data(signed)))
    assert made.marks == set(marks_of(ANTHROPIC, signed))
    assert len(made.marks) == 1
    made, _ = passage(RESPONSES)
    created = {"type": "response.created", "response": {"id": "resp_1"}}
    made.take(events(b"event: response.created\n" + data(created)))
    assert len(made.marks) == 1
    made, _ = passage(OPENAI)
    made.take(events(delta("a")))
    assert made.marks == set()
