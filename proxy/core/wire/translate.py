"""Requests and whole answers between dialects, through the form. Streams: see `translate_stream`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from keys.core.dialect import Dialect
from proxy.core.wire import (
    anthropic_answer,
    anthropic_read,
    anthropic_write,
    gemini_answer,
    gemini_read,
    gemini_write,
    openai_answer,
    openai_read,
    openai_write,
    responses_answer,
    responses_read,
    responses_write,
)
from proxy.core.wire.custom import without_custom
from proxy.core.wire.form import Answer, Body, BrokenAnswer, Drops, Request, Untranslatable
from proxy.core.wire.gemini import unwrapped
from proxy.core.wire.kinds import MISSHAPEN
from proxy.core.wire.traits import Traits, traits_of

__all__ = [
    "Answer",
    "BrokenAnswer",
    "Request",
    "Traits",
    "Untranslatable",
    "answer_from_form",
    "answer_to_form",
    "from_form",
    "to_form",
    "traits_of",
]

_READ: Final[dict[Dialect, Callable[[Body], Request]]] = {
    Dialect.OPENAI: openai_read.read,
    Dialect.RESPONSES: responses_read.read,
    Dialect.ANTHROPIC: anthropic_read.read,
    Dialect.GEMINI: gemini_read.read,
}
_WRITE: Final[dict[Dialect, Callable[[Request, str, Traits, Drops], Body]]] = {
    Dialect.OPENAI: openai_write.write,
    Dialect.RESPONSES: responses_write.write,
    Dialect.ANTHROPIC: anthropic_write.write,
    Dialect.GEMINI: gemini_write.write,
}
_READ_ANSWER: Final[dict[Dialect, Callable[[Body], Answer]]] = {
    Dialect.OPENAI: openai_answer.read,
    Dialect.RESPONSES: responses_answer.read,
    Dialect.ANTHROPIC: anthropic_answer.read,
    Dialect.GEMINI: gemini_answer.read,
}
_WRITE_ANSWER: Final[dict[Dialect, Callable[[Answer, Request], Body]]] = {
    Dialect.OPENAI: openai_answer.write,
    Dialect.RESPONSES: responses_answer.write,
    Dialect.ANTHROPIC: anthropic_answer.write,
    Dialect.GEMINI: gemini_answer.write,
}


def to_form(dialect: Dialect, body: Body) -> Request:
    """Read a client's request. Raises Untranslatable.

    Gemini's model and streaming stand in the path: set them with `dataclasses.replace`.
    """
    return _READ[dialect](body)


def from_form(
    dialect: Dialect, form: Request, *, model: str, traits: Traits | None = None
) -> tuple[Body, tuple[str, ...]]:
    """Write the request for an upstream, and list what it cannot take, in the client's names. Raises Untranslatable.

    `model` is the name to send. `traits` default to what that name suggests.
    """
    traits = traits_of(dialect, model) if traits is None else traits
    drops = Drops()
    for name in form.dropped:
        drops.add(name)
    takes_text = dialect is Dialect.RESPONSES or (dialect is Dialect.OPENAI and traits.completion_tokens)
    body = _WRITE[dialect](form if takes_text else without_custom(form), model, traits, drops)
    return body, drops.listed()


def answer_to_form(dialect: Dialect, payload: Body, *, seed: str) -> Answer:
    """Read an upstream's whole answer. Raises BrokenAnswer.

    `seed`, unique per request, stands in for an id that the answer lacks.
    """
    name = "responseId" if dialect is Dialect.GEMINI else "id"
    if dialect is Dialect.GEMINI:
        payload = unwrapped(payload)
    if not payload.get(name):
        payload = {**payload, name: seed}
    try:
        return _READ_ANSWER[dialect](payload)
    except Untranslatable as problem:
        raise BrokenAnswer(str(problem)) from problem
    except MISSHAPEN as problem:
        raise BrokenAnswer("the answer has not the shape of its dialect") from problem


def answer_from_form(dialect: Dialect, answer: Answer, request: Request, *, model: str, created: int) -> Body:
    """Write the answer for the client that sent `request`. Raises BrokenAnswer for what its dialect cannot hold.

    `model` is the name the client knows. `created` (unix seconds) is used when the upstream does not tell.
    """
    answer = replace(answer, model=model, created=answer.created or created)
    try:
        return _WRITE_ANSWER[dialect](answer, request)
    except MISSHAPEN as problem:
        raise BrokenAnswer("the answer has not the shape of its dialect") from problem
