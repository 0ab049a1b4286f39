"""What a target takes, as far as its dialect leaves that to the model. Data: a new model family is a new row."""

import re
from dataclasses import dataclass
from typing import Final

from keys.core.dialect import Dialect


@dataclass(frozen=True, slots=True)
class Traits:
    """`cache_markers`: `cache_control` members are understood (OpenAI's own hosts cache by themselves and refuse them).

    `sampling`: temperature, top_p, top_k. `reasoning`: an effort or budget. `adaptive`: thinking takes an effort, no
    budget (Anthropic). `completion_tokens`: the limit is called max_completion_tokens (OpenAI). `thinking_history`:
    earlier thoughts are wanted back (OpenAI-like). `signed_calls`: a call without signature is refused (Gemini).
    `max_tokens`: what is asked for when the client sets no limit and the dialect needs one.
    """

    cache_markers: bool = True
    sampling: bool = True
    reasoning: bool = True
    adaptive: bool = False
    completion_tokens: bool = False
    thinking_history: bool = False
    signed_calls: bool = False
    max_tokens: int = 8192


# Model names carry vendor prefixes and dates; these look for the family anywhere in them. November 2026.
_OPENAI_REASONING: Final = re.compile(r"(?:^|/)(?:o[1-9]|gpt-(?:[5-9]|\d\d)|codex)(?!.*chat)")
_OPENAI_PLAIN: Final = re.compile(r"(?:^|/)(?:gpt-3|gpt-4|chatgpt-4|davinci|babbage)")
_THINKS_ALOUD: Final = re.compile(r"deepseek|kimi|glm-|minimax|mimo|qwen", re.IGNORECASE)
_CLAUDE: Final = re.compile(r"claude-(?:[a-z]+-)+(\d+)(?:[-.](\d{1,2})(?!\d))?")
_CLAUDE_3: Final = re.compile(r"claude-3(?:[-.](\d)(?!\d))?")
_GEMINI: Final = re.compile(r"gemini-(\d+)(?:\.(\d+))?")

_ADAPTIVE_FROM: Final = (4, 6)  # manual budgets are deprecated from here on
_NO_SAMPLING_FROM: Final = (4, 7)  # "`temperature` is deprecated for this model."
_LONG_ANSWERS_FROM: Final = (4, 0)
_SIGNED_FROM: Final = (3, 0)
_THINKING_FROM: Final = (2, 5)


def traits_of(dialect: Dialect, model: str, *, cache_markers: bool = True) -> Traits:
    """Return what the model at this dialect takes; unknown names get the dialect's plain defaults."""
    match dialect:
        case Dialect.OPENAI | Dialect.RESPONSES:
            reasons = _OPENAI_REASONING.search(model) is not None
            return Traits(
                cache_markers=cache_markers,
                sampling=not reasons,
                reasoning=_OPENAI_PLAIN.search(model) is None,
                completion_tokens=reasons,
                thinking_history=_THINKS_ALOUD.search(model) is not None,
            )
        case Dialect.ANTHROPIC:
            return _claude(model, cache_markers)
        case Dialect.GEMINI:
            version = _version(_GEMINI, model)
            return Traits(
                cache_markers=False,
                reasoning=version is None or version >= _THINKING_FROM,
                adaptive=version is not None and version >= _SIGNED_FROM,
                signed_calls=version is not None and version >= _SIGNED_FROM,
            )


def _claude(model: str, cache_markers: bool) -> Traits:
    old = _CLAUDE_3.search(model)
    if old is not None:
        minor = int(old[1] or 0)
        thinks = minor == 7  # noqa: PLR2004  (3.7 was the first)
        return Traits(cache_markers=cache_markers, reasoning=thinks, max_tokens=8192 if minor else 4096)
    version = _version(_CLAUDE, model)
    if version is None:
        return Traits(cache_markers=cache_markers)
    return Traits(
        cache_markers=cache_markers,
        sampling=version < _NO_SAMPLING_FROM,
        adaptive=version >= _ADAPTIVE_FROM,
        max_tokens=32_000 if version >= _LONG_ANSWERS_FROM else 8192,
    )


def _version(pattern: re.Pattern[str], model: str) -> tuple[int, int] | None:
    found = pattern.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else None
