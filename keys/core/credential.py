"""How an upstream key travels."""

from keys.core.dialect import Dialect


def credential(dialect: Dialect, auth: str, secret: str) -> dict[str, str]:
    """Return the headers that carry an upstream key. `auth` is "" for the dialect's own habit."""
    if dialect is Dialect.GEMINI and not auth:
        return {"x-goog-api-key": secret}
    style = auth or ("x-api-key" if dialect is Dialect.ANTHROPIC else "bearer")
    made: dict[str, str] = {}
    if style in ("bearer", "both"):
        made["authorization"] = f"Bearer {secret}"
    if style in ("x-api-key", "both"):
        made["x-api-key"] = secret
    return made
