"""What a credential may look like, and how a gateway key is recognised without being stored."""

import hashlib
import hmac
import unicodedata

PREFIX = "sk-pm-"


def digest_of(secret: str, hash_key: bytes) -> str:
    """Return the keyed hash (HMAC-SHA-256, hex) under which a credential is stored and looked up."""
    return hmac.new(hash_key, secret.encode(), hashlib.sha256).hexdigest()


def tail_of(secret: str, length: int) -> str:
    """Return the last characters that may be shown; a short secret shows at most a quarter of itself."""
    return secret[-min(length, max(len(secret) // 4, 1)) :] if secret else ""


def malformed(secret: str) -> str | None:
    """Say what makes a key unusable as a header value, or None when nothing does."""
    if not secret:
        return "is empty"
    if secret != secret.strip() or any(c.isspace() for c in secret):
        return "contains a space or line break"
    if any(unicodedata.category(c) == "Cc" for c in secret):
        return "contains a control character"
    if not secret.isascii():
        return "contains a character outside ASCII"
    return None
