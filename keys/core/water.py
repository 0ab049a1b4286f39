"""How much of a rate window is left, as the headers of a good answer tell (wire reference, section 5)."""

import re
from collections.abc import Mapping
from typing import Final

_OPENAI: Final = re.compile(r"x-ratelimit-remaining-([a-z-]+)")
_ANTHROPIC: Final = re.compile(r"anthropic-ratelimit-([a-z-]+)-remaining")


def share_left(headers: Mapping[str, str]) -> float | None:
    """Return the smallest share left of the windows that the headers name, 0 to 1; None when they name none.

    Header names are lower-case. Azure sends -1 for unknown; what is no number, or above its limit, is left out.
    """
    shares = []
    for name, value in headers.items():
        if "ratelimit" not in name:
            continue
        limit = _limit_name(name)
        if limit is None:
            continue
        left, whole = _number(value), _number(headers.get(limit, ""))
        if left is not None and whole and 0 <= left <= whole:
            shares.append(left / whole)
    return min(shares, default=None)


def _limit_name(name: str) -> str | None:
    if match := _OPENAI.fullmatch(name):
        return f"x-ratelimit-limit-{match[1]}"
    if match := _ANTHROPIC.fullmatch(name):
        return f"anthropic-ratelimit-{match[1]}-limit"
    return None


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"-?\d{1,15}(\.\d+)?", text) else None
