"""Signed thinking on its way through a foreign dialect.

A provider's signature must come back to it unchanged, and must never reach another provider, which would refuse the
whole history. A client of another dialect therefore gets it in an envelope that names its origin. Signatures of tool
calls travel inside the call's id, the one thing that every client sends back (LiteLLM does the same).
"""

import base64
import binascii
import hashlib
import re
from typing import Final

from keys.core.dialect import Dialect
from proxy.core.wire.form import Signature

# What clients write when they have no signature (Gemini's documented way out). Not a signature.
PLACEHOLDERS: Final = frozenset({"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"})
PLACEHOLDER: Final = "skip_thought_signature_validator"
OWN_ID: Final = "call_pm_"  # an id made here for a call that came without one

_ENVELOPE: Final = "pm1."
_MARK: Final = "__sig_"
_LETTERS: Final = {Dialect.OPENAI: "o", Dialect.RESPONSES: "r", Dialect.ANTHROPIC: "a", Dialect.GEMINI: "g"}
_ORIGINS: Final = {letter: dialect for dialect, letter in _LETTERS.items()}
_SAFE_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_MAX_ID: Final = 40  # OpenAI's limit for tool call ids


def show(signature: Signature, client: Dialect) -> str:
    """The signature as the client's dialect carries it."""
    if signature.origin is client:
        return signature.value
    letter = _LETTERS[signature.origin]
    text = f"{_ENVELOPE}{letter.upper() if signature.redacted else letter}.{signature.value}"
    # Gemini's SDKs decode signatures as base64.
    return base64.b64encode(text.encode()).decode() if client is Dialect.GEMINI else text


def is_placeholder(text: object) -> bool:
    """Whether a client says that it has no signature."""
    return isinstance(text, str) and text in PLACEHOLDERS


def read(text: object, client: Dialect) -> Signature | None:
    """The signature a client sent back; None when it is none, or only a placeholder."""
    if not isinstance(text, str) or not text or is_placeholder(text):
        return None
    opened = _opened(text) if client is Dialect.GEMINI else text
    letter = opened[len(_ENVELOPE) : len(_ENVELOPE) + 1]
    if opened.startswith(_ENVELOPE) and (origin := _ORIGINS.get(letter.lower())) is not None:
        return Signature(origin, opened[len(_ENVELOPE) + 2 :], letter.isupper())
    return Signature(client, text)


def _opened(text: str) -> str:
    if not text.startswith("cG0xL"):  # base64 of the envelope's mark
        return text
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/")).decode()
    except (binascii.Error, UnicodeDecodeError):
        return text


def sign_id(call_id: str, signature: Signature | None, client: Dialect) -> str:
    """The id under which the client sees a call."""
    if signature is None or signature.origin is client:
        return call_id
    packed = base64.urlsafe_b64encode(signature.value.encode()).decode().rstrip("=")
    return f"{call_id}{_MARK}{_LETTERS[signature.origin]}_{packed}"


def split_id(shown: str) -> tuple[str, Signature | None]:
    """The call's own id, and the signature that came with it."""
    call_id, mark, rest = shown.partition(_MARK)
    origin = _ORIGINS.get(rest[:1])
    if not mark or origin is None or rest[1:2] != "_":
        return shown, None
    try:
        value = base64.urlsafe_b64decode(rest[2:] + "=" * (-len(rest[2:]) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return call_id, None
    return call_id, Signature(origin, value)


def own_id(seed: str, index: int) -> str:
    """An id for a call that has none: unique for one answer's seed."""
    return OWN_ID + hashlib.sha256(f"{seed}/{index}".encode()).hexdigest()[:24]


def safe_id(call_id: str) -> str:
    """The id in letters and length that every provider takes; the same input gives the same id."""
    if len(call_id) <= _MAX_ID and _SAFE_ID.fullmatch(call_id):
        return call_id
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
