"""The four wire dialects that upstreams speak and clients use."""

from enum import StrEnum


class Dialect(StrEnum):
    """Values are those of the declarative file."""

    OPENAI = "openai"
    RESPONSES = "openai-responses"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
