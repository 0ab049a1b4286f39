"""From one dialect to another and back: what both can carry is all there."""

import string
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keys.core.dialect import Dialect
from proxy.core.wire.form import (
    CacheMark,
    Media,
    Message,
    Part,
    Request,
    Sampling,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from proxy.core.wire.translate import Traits, from_form, to_form

TRAITS = Traits()
# A sentence, so that no provider's JSON rules apply to it.
texts = st.text(string.ascii_letters + "äß你好🙂\n ", min_size=1).map(lambda text: f"Say {text}.")
marks = st.sampled_from([None, None, CacheMark(), CacheMark("1h")])
media = st.sampled_from(
    [
        Media("image", "image/png", "QUJD"),
        Media("image", "image/jpeg", url="https://example.com/a.jpg"),
        Media("document", "application/pdf", "QUJD", name="document.pdf"),
    ]
)
schemas = st.sampled_from([{"type": "object", "properties": {"a": {"type": "string"}}}])
tools = st.builds(Tool, st.sampled_from(["look", "find"]), st.just("Looks."), schemas, cache=marks)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """Alternating turns; every call has its result."""
    found = [Message("system", (Text(draw(texts), draw(marks)),))] if draw(st.booleans()) else []
    pending: list[ToolCall] = []
    for turn in range(draw(st.integers(1, 3))):
        results = tuple(ToolResult(call.id, call.name, (Text(draw(texts)),)) for call in pending)
        said = draw(st.lists(st.builds(Text, texts, marks) | media, min_size=1, max_size=3))
        found.append(Message("user", (*results, *said)))
        pending = [
            ToolCall(f"call_{turn}_{index}", name, '{"a":1,"b":[true,"x"]}')
            for index, name in enumerate(draw(st.lists(st.sampled_from(["look", "find"]), max_size=3)))
        ]
        found.append(Message("assistant", (Text(draw(texts)), *pending)))
    results = tuple(ToolResult(call.id, call.name, (Text(draw(texts)),)) for call in pending)
    found.append(Message("user", (*results, Text(draw(texts)))))
    return tuple(found)


requests = st.builds(
    Request,
    source=st.just(Dialect.OPENAI),
    model=st.just("m"),
    messages=conversations(),
    tools=st.lists(tools, max_size=2, unique_by=lambda tool: tool.name).map(tuple),
    tool_choice=st.sampled_from(
        [None, ToolChoice("auto"), ToolChoice("any"), ToolChoice("none"), ToolChoice("any", ("look",))]
    ),
    max_tokens=st.integers(1, 9999),
    stop=st.sampled_from([(), ("END",), ("A", "B")]),
    sampling=st.builds(Sampling, temperature=st.sampled_from([None, 0.0, 0.7, 1.0])),
)


def common(form: Request, one: Dialect, other: Dialect) -> Request:
    """The request without what one of the two dialects has no words for."""
    if Dialect.RESPONSES in (one, other):
        form = replace(form, stop=())
    choice = form.tool_choice
    if choice is not None and choice.names and "look" not in {tool.name for tool in form.tools}:
        form = replace(form, tool_choice=None)
    if Dialect.GEMINI in (one, other):
        bare = tuple(Message(turn.role, tuple(_bare(part) for part in turn.parts)) for turn in form.messages)
        form = replace(form, messages=bare, tools=tuple(replace(tool, cache=None) for tool in form.tools))
    return form


def _bare(part: Part) -> Part:
    if isinstance(part, Media):
        return replace(part, name=None)
    return replace(part, cache=None) if isinstance(part, Text) else part


@pytest.mark.parametrize(("one", "other"), list(permutations(Dialect, 2)))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(form=requests)
def test_there_and_back(one: Dialect, other: Dialect, form: Request) -> None:
    body, _ = from_form(one, common(form, one, other), model="m", traits=TRAITS)
    through, dropped = from_form(other, to_form(one, body), model="m", traits=TRAITS)
    assert dropped == ()
    back, dropped = from_form(one, to_form(other, through), model="m", traits=TRAITS)
    assert dropped == ()
    assert back == body
