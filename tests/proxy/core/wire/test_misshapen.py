"""Members of other types than a dialect has them: a refusal that names the field, or an upstream's failed attempt.

Every member of the samples is replaced in turn.
"""

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest

from billing.core.usage import read_usage
from keys.core.dialect import Dialect
from proxy.core.sse import Framer
from proxy.core.wire import reading
from proxy.core.wire.form import BrokenAnswer
from proxy.core.wire.jsontext import dumps
from proxy.core.wire.reading import Kind
from proxy.core.wire.translate import Untranslatable, answer_from_form, answer_to_form, from_form, to_form
from tests.proxy.core.wire import samples
from tests.proxy.core.wire.running import ANTHROPIC, ASKS, GEMINI, OPENAI, RESPONSES, Body, started
from tests.proxy.core.wire.stream_samples import EVENTS, chat, sse

WRONG: tuple[Any, ...] = (True, 7, [[]], {"a": {}})
ODD = (*WRONG, "\ud800")
CHAT: Body = {"role": "user", "content": "Hi"}
REFUSED = [
    (OPENAI, {"messages": [], "reasoning_effort": ["low"]}, "reasoning_effort"),
    (OPENAI, {"messages": [], "reasoning": {"max_tokens": "9"}}, "reasoning.max_tokens"),
    (OPENAI, {"messages": [CHAT | {"reasoning_details": True}]}, None),  # only an assistant's are read
    (OPENAI, {"messages": [CHAT | {"role": "assistant", "reasoning_details": 1}]}, "reasoning_details"),
    (OPENAI, {"messages": [], "tool_choice": {"type": "allowed_tools", "allowed_tools": []}}, "tool_choice.allowed_"),
    (OPENAI, {"messages": [], "tool_choice": {"type": "allowed_tools", "tools": 1}}, "tool_choice.tools"),
    (RESPONSES, {"input": "Hi", "reasoning": {"effort": {}}}, "reasoning.effort"),
    (RESPONSES, {"input": [{"type": "reasoning", "summary": [{"text": 1}]}]}, "input.summary.text"),
    (ANTHROPIC, {"messages": [], "thinking": {"type": "adaptive", "display": []}}, "thinking.display"),
    (ANTHROPIC, {"messages": [], "thinking": {"type": "enabled", "budget_tokens": "9"}}, "thinking.budget_tokens"),
    (ANTHROPIC, {"messages": [], "output_config": {"effort": 1}}, "output_config.effort"),
    (GEMINI, {"contents": [{"parts": True}]}, "contents[0].parts"),
    (GEMINI, {"contents": [], "tools": 1}, "tools"),
    (GEMINI, {"contents": [], "tools": {"functionDeclarations": 1}}, "tools[0].functionDeclarations"),
    (GEMINI, {"contents": [{"parts": {"inlineData": {"mimeType": 1, "data": ""}}}]}, "contents[0].parts[0].inline"),
    (GEMINI, {"contents": [{"parts": {"functionResponse": {"name": "f", "id": 1}}}]}, "contents[0].parts[0].function"),
]  # fmt: skip


def replaced(value: Any, odd: Any) -> Iterator[Any]:
    """The value with each of its members, at any depth, replaced in turn."""
    entries = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for name, inner in entries:
        for other in (odd, *replaced(inner, odd)):
            changed = deepcopy(value)
            changed[name] = other
            yield changed


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("source", Dialect)
def test_a_request_is_translated_or_refused(source: Dialect, odd: Any) -> None:
    for body in replaced(samples.REQUESTS[source], odd):
        with suppress(Untranslatable):
            form = to_form(source, body)
            for target in set(Dialect) - {source}:
                dumps(from_form(target, form, model="gemini-3-pro" if target is GEMINI else "m")[0])


@pytest.mark.parametrize(("source", "body", "field"), REFUSED)
def test_the_field_is_named(source: Dialect, body: Body, field: str | None) -> None:
    if field is None:
        to_form(source, body)
        return
    with pytest.raises(Untranslatable) as refused:
        to_form(source, body)
    assert refused.value.field.startswith(field)


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("source", Dialect)
def test_an_answer_is_read_or_broken(source: Dialect, odd: Any) -> None:
    for payload in replaced(samples.ANSWERS[source], odd):
        reading.has_content(source, payload)
        read_usage(source, payload, "")
        with suppress(BrokenAnswer):
            answer = answer_to_form(source, payload, seed="s")
            for target in set(Dialect) - {source}:
                answer_from_form(target, answer, to_form(target, ASKS[target]), model="m", created=1)


@pytest.mark.parametrize("odd", WRONG, ids=repr)
@pytest.mark.parametrize("source", Dialect)
def test_a_stream_goes_on_or_fails(source: Dialect, odd: Any) -> None:
    for number, event in enumerate(EVENTS[source]):
        for other in replaced(event, odd):
            events = Framer().feed(sse(source, [*EVENTS[source][:number], other, *EVENTS[source][number + 1 :]]))
            for target in set(Dialect) - {source}:
                translate = started(source, target)
                out = [translate.feed(one) for one in events if reading.kind(source, one) is not Kind.ERROR]
                assert all(isinstance(part, bytes) for parts in out for part in parts)
                translate.close()


@pytest.mark.parametrize(
    ("source", "payload"),
    [
        (OPENAI, chat([1])),  # type: ignore[arg-type]
        (OPENAI, {"id": "c", "choices": True}),
        (GEMINI, {"candidates": 1}),
    ],
)
def test_an_event_that_no_sdk_reads_is_an_error(source: Dialect, payload: Body) -> None:
    (event, *_) = Framer().feed(sse(source, [payload]))
    assert reading.kind(source, event) is Kind.ERROR


def test_half_a_character_in_an_events_type() -> None:
    (event,) = Framer().feed(b'data: {"type":"\\ud800"}\n\n')
    assert reading.repaired(ANTHROPIC, event) == b'event: ?\ndata: {"type":"\\ud800"}\n\n'
