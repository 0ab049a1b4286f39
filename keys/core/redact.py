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

_REST = r"[^\s\"'<>\\]"  # of a URL
_DOCUMENTATION = r"(?![^\s\"'<>\\]{0,300}(?:docs?\b|/help|console|settings|billing|support|pricing|error-code))"

_CREDENTIALS = (
    # user:password@ in a URL
    (r"(?<=://)[^\s/@\"'<>\\]{1,200}@", MARK + "@"),
    # the value of a parameter, header or JSON field that holds a credential
    (
        r"(?i)(?<![\w-])((?:api[_-]?key|access[_-]?key|access[_-]?token|auth[_-]?token|refresh[_-]?token|secret|password"
        r"|client[_-]?secret|x-api-key|x-goog-api-key|authorization|key|token|sig)(?:\\?[\"'])?\s{0,3}(?:=|%3D|:)\s{0,3}"
        r"(?:\\?[\"'])?)(?!\s)(?:(?:bearer|basic)\s{1,3})?"
        r"(?=[^\s\"'&<>\\,;)}]{0,200}[\d*])"
        # a number stays: in a JSON body it may stand without quotes
        r"(?!-?\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,4})?(?![\w.…*~+/=%-]))[A-Za-z0-9_*.…~+/=%-]{5,2000}[A-Za-z0-9_*…~+/=%-]",
        r"\1" + MARK,
    ),
    (r"(?i)\b(bearer|basic)\s{1,3}(?=[\w.~+/=-]{0,200}[\d_.])[\w.~+/=-]{8,4000}", r"\1 " + MARK),
    (r"\beyJ[\w-]{8,4000}(?:\.[\w-]{2,4000}){0,4}", MARK),
    (r"(?<![A-Za-z0-9])sk-[\w*.…~-]{2,400}[\w*…~-]", MARK),
    (r"(?<![A-Za-z0-9])(?:pk|rk|ak|ek|sess|ark)-(?=[a-z_-]{0,40}[A-Z0-9*])[\w*…-]{3,400}", MARK),
    (r"(?<![A-Za-z0-9])AIza[\w*…-]{6,200}", MARK),
    (r"(?<![A-Za-z0-9])(?:ya29\.|1//0)[\w.*-]{8,2000}", MARK),
    (r"(?<![A-Za-z0-9])(?:xai|gsk|hf|r8|pplx|tgp|fw|csk|ghp|gho)[-_][A-Za-z0-9_*]{16,400}", MARK),
    (r"(?<![A-Za-z0-9])(?:nvapi|glpat|bce-v3)[-/][\w*/-]{16,400}", MARK),
    (r"(?<![A-Za-z0-9])(?:AKIA|ASIA|LTAI|AKID)[A-Za-z0-9]{8,60}", MARK),
    (r"(?<![A-Za-z0-9])[0-9a-f]{32}\.[A-Za-z0-9]{8,40}", MARK),  # Zhipu: id.secret
    (r"(?<![\w*])\w{0,40}\*{3,200}[\w-]{0,40}", MARK),  # half-masked: ****abcd, abc***xyz
)
_OWNERS = (
    (
        r"(?<![A-Za-z0-9])(?:org|proj|user|acct|team|wrkspc|workspace|project)[-_](?=[A-Za-z]{0,40}[A-Z0-9])"
        r"[A-Za-z0-9]{3,80}",
        MARK,
    ),
    (r"(?<![\w/])projects/[\w-]{4,80}", "projects/" + MARK),
    (
        r"(?i)\b((?:account|team|organization|organisation|workspace|user|project|tenant)"
        r"(?:\s(?:id:?\s?)?|[_-]?id\s?=\s?|[_-]?id\\?[\"']\s?:\s?\\?[\"']))"
        r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{6,30})\b",
        r"\1" + MARK,
    ),
    (
        r"(?i)\b((?:account|user|owner|e-?mail)[\s:\"'=]{1,4})[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}",
        r"\1" + MARK,
    ),
)
_PLACES = (
    # Go's transport errors: Post "https://…": dial tcp …
    (r"(?i)((?:get|post|put|head|delete|patch)\s\\?[\"'])https?://" + _REST + r"{1,2000}", r"\1" + MARK),
    (
        r"(?i)\bhttps?://" + _DOCUMENTATION + _REST + r"{1,500}?/(?:v\d(?:beta\d?|alpha)?|chat/completions|messages"
        r"|embeddings|responses|backend-api)(?![\w-])" + _REST + r"{0,1000}",
        MARK,
    ),
    (
        r"(?i)\bhttps?://(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]{2,45}\]|localhost|[\w.-]{1,200}:\d{2,5})(?![\w.])"
        + _REST
        + r"{0,1000}",
        MARK,
    ),
    (r"(?i)\b(lookup\s|dial\stcp\s|host=\\?['\"]?|connect\sto\s)(?=[\w-]{0,63}[.:])[\w.:-]{3,255}", r"\1" + MARK),
    (r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?:/\d{1,2}|:\d{1,5})?(?![\w.]*\d)", MARK),
    (r"(?i)(?<![\w:.])(?:[0-9a-f]{1,4}:){3,7}(?::?[0-9a-f]{1,4}){1,7}(?![\w:])", MARK),
    (
        r"(?i)(?<![\w:.])(?=[0-9a-f:]{0,40}\d)(?:[0-9a-f]{1,4}:){1,6}:(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,5})?(?![\w:])",
        MARK,
    ),
)
_SHAPES = tuple((re.compile(pattern), mark) for pattern, mark in (*_CREDENTIALS, *_OWNERS, *_PLACES))


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
