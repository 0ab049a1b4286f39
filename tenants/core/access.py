"""Which names a pattern admits.

Patterns know `*` and `?` and ignore case. Brackets are literal: real model names hold them (`claude-opus[1m]`).
"""

import re
from collections.abc import Iterable
from functools import lru_cache

_TEXT_MAX = 512  # names come from clients; several stars over a long text would cost its length to their power


def model_allowed(globs: Iterable[str], model: str) -> bool:
    """Tell whether an allow-list admits a model. An empty list admits every model."""
    listed = tuple(globs)
    return not listed or any(glob_matches(pattern, model) for pattern in listed)


def glob_matches(pattern: str, text: str) -> bool:
    """Match the whole text, ignoring case. A text over 512 characters matches `*` alone."""
    if len(text) > _TEXT_MAX:
        return not pattern.strip("*") and pattern != ""
    return _compiled(pattern).fullmatch(text) is not None


@lru_cache(maxsize=4096)  # patterns come from configuration, never from clients
def _compiled(pattern: str) -> re.Pattern[str]:
    # A run of stars is one star: otherwise a pattern such as `*****x` takes exponential time.
    parts = (re.escape(part) if part.strip("*?") else part for part in re.split(r"(\*+|\?)", pattern) if part)
    source = "".join(".*" if part.startswith("*") else "." if part == "?" else part for part in parts)
    return re.compile(source, re.IGNORECASE | re.DOTALL)
