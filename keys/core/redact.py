"""Secrets out of texts that upstreams and libraries wrote.

What goes: given secrets and their long pieces, credentials by shape (also half-masked ones), organisation, account,
project and user ids, IP addresses, and URLs that point at an API rather than at documentation. The rest of the
text stays byte for byte, and the mark contains nothing that needs escaping inside JSON.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote

MARK = "[redacted]"

PIECE = 12  # characters of a secret that must not survive together at its beginning or end
MIN_SECRET = 4

_KEY_CHARS = r"[A-Za-z0-9_*.…~-]"
_SHAPES = (
    # user:password@ in a URL, and the value of a credential parameter
    (re.compile(r"(?<=://)[^\s/@\"'<>\\]{1,200}@"), MARK + "@"),
    (
        re.compile(
            r"(?i)(?<![\w-])((?:api[_-]?key|access[_-]?key|access[_-]?token|auth[_-]?token|refresh[_-]?token|secret|password"
            r"|passwd|client[_-]?secret|x-api-key|x-goog-api-key|authorization|signature|key|token|sig)"
            r"(?:\\?[\"'])?\s{0,3}(?:=|%3D|:)\s{0,3}(?:\\?[\"'])?)(?!\s)(?:(?:bearer|basic)\s{1,3})?"
            r"(?=[^\s\"'&<>\\,;)}]{0,200}[\d*])[A-Za-z0-9_*.…~+/=%-]{6,2000}"
        ),
        r"\1" + MARK,
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s{1,3}(?=[\w.~+/=-]{0,200}[\d_.])[\w.~+/=-]{8,4000}"), r"\1 " + MARK),
    (re.compile(r"\beyJ[\w-]{8,4000}(?:\.[\w-]{2,4000}){0,4}"), MARK),
    (re.compile(r"(?<![A-Za-z0-9])(?:sk|pk|rk|ak|ek|sess|ark|fk|ms)-" + _KEY_CHARS + r"{3,400}"), MARK),
    (re.compile(r"(?<![A-Za-z0-9])AIza[\w*.…-]{6,200}"), MARK),
    (re.compile(r"(?<![A-Za-z0-9])(?:ya29\.|1//0)[\w.*-]{8,2000}"), MARK),
    (
        re.compile(
            r"(?<![A-Za-z0-9])(?:xai|gsk|hf|r8|nvapi|pplx|tgp|fw|csk|glpat|ghp|gho|aws|sbp|cpk|bce-v3)[-_/][\w*./-]{8,400}"
        ),
        MARK,
    ),
    (re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA|LTAI|AKID)[A-Za-z0-9]{8,60}"), MARK),
    (re.compile(r"(?<![A-Za-z0-9])[0-9a-f]{32}\.[A-Za-z0-9]{8,40}"), MARK),  # Zhipu's id.secret
    # half-masked keys: ****abcd, abc***xyz
    (re.compile(r"(?<![\w*])\w{0,40}\*{3,200}[\w-]{0,40}"), MARK),
    # owners
    (
        re.compile(
            r"(?<![A-Za-z0-9])(?:org|proj|user|acct|team|wrkspc|workspace|project)[-_](?=[A-Za-z0-9]{0,40}[A-Z0-9])[A-Za-z0-9]{4,80}"
        ),
        MARK,
    ),
    (re.compile(r"(?<![\w/])projects/[\w-]{4,80}"), "projects/" + MARK),
    (
        re.compile(
            r"(?i)\b((?:account|team|organization|organisation|workspace|user|project|tenant)(?:\s(?:id\s?)?|[_-]?id[\"']?\s?[:=]\s?[\"']?))"
            r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{6,30})\b"
        ),
        r"\1" + MARK,
    ),
    (
        re.compile(
            r"(?i)\b((?:account|user|owner|e-?mail)[\s:\"'=]{1,4})[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}"
        ),
        r"\1" + MARK,
    ),
    # where we are and where the upstream is
    (re.compile(r"(?i)((?:get|post|put|head|delete|patch)\s\\?[\"'])https?://[^\s\"'<>\\]{1,2000}"), r"\1" + MARK),
    (
        re.compile(
            r"(?i)\bhttps?://[^\s\"'<>\\/]{1,255}(?::\d{1,5})?/[^\s\"'<>\\]{0,500}?"
            r"(?:v1|v1beta|v2|v3|v4|api/v\d|chat/completions|messages|generateContent|embeddings|backend-api)(?![\w-])[^\s\"'<>\\]{0,1000}"
        ),
        MARK,
    ),
    (
        re.compile(
            r"(?i)\bhttps?://(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]{2,45}\]|localhost|[\w.-]{1,200}:\d{2,5})[^\s\"'<>\\]{0,1000}"
        ),
        MARK,
    ),
    (
        re.compile(r"(?i)\b(lookup\s|dial\stcp\s|host=\\?['\"]?|connect\sto\s)(?=[\w-]{0,63}[.:])[\w.:-]{3,255}"),
        r"\1" + MARK,
    ),
    (re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?:/\d{1,2}|:\d{1,5})?(?![\w.]*\d)"), MARK),
    (re.compile(r"(?i)(?<![\w:.])(?:[0-9a-f]{1,4}:){3,7}(?::?[0-9a-f]{1,4}){1,7}(?![\w:])"), MARK),
    (re.compile(r"(?i)(?<![\w:.])(?:[0-9a-f]{1,4}:){1,6}:(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,5})?(?![\w:])"), MARK),
)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text without secrets. `secrets` are removed whatever they look like, whole or in long pieces."""
    for secret in sorted({secret for secret in secrets if len(secret) >= MIN_SECRET}, key=len, reverse=True):
        for form in dict.fromkeys((secret, quote(secret, safe=""))):
            text = _without(text, form)
    for pattern, mark in _SHAPES:
        text = pattern.sub(mark, text)
    return text


def _without(text: str, secret: str) -> str:
    """Remove a secret, and any beginning or end of it that is PIECE characters or longer."""
    text = text.replace(secret, MARK)
    if len(secret) <= PIECE:
        return text
    text = _cut(text, secret[:PIECE], secret)
    return _cut(text[::-1], secret[::-1][:PIECE], secret[::-1], MARK[::-1])[::-1]


def _cut(text: str, piece: str, secret: str, mark: str = MARK) -> str:
    """Replace each run that begins with `piece` and goes on like `secret`."""
    parts: list[str] = []
    position = 0
    while (start := text.find(piece, position)) >= 0:
        end = start + len(piece)
        while end < len(text) and end - start < len(secret) and text[end] == secret[end - start]:
            end += 1
        parts += [text[position:start], mark]
        position = end
    return "".join([*parts, text[position:]])
