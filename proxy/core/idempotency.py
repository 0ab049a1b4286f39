"""`Idempotency-Key` as plain values: what makes two calls the same, what of an answer is kept, how a fault is told.

Key and body are known by keyed digests alone, per line. A body is the path, the query and the bytes; of a form without
its boundary, which clients draw anew when they try again.
"""

import base64
import hmac
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Final

from proxy.core.endpoints import Content, Endpoint
from proxy.core.errors import Code, Fault, Refused
from proxy.core.passages import ArrayWriter
from proxy.core.wire.jsontext import MalformedBody
from proxy.core.wire.multipart import boundary_of

NAME: Final = "idempotency-key"
REPLAYED: Final = ("idempotent-replayed", "true")
KEY_MAX: Final = 255
KEPT_MAX: Final = 16 * 1024 * 1024  # of an answer's body
_VISIBLE: Final = range(0x21, 0x7F)
# What tells of one exchange; a replay has its own.
OF_ONE_CALL: Final = frozenset(
    {"x-request-id", "request-id", "x-pointsman-attempts", "x-pointsman-session", "content-length"}
)

MISMATCH: Final = Fault(
    Code.IDEMPOTENCY_MISMATCH,
    "This Idempotency-Key was used for another request in the last 24 hours; a new request needs a new key.",
    param="Idempotency-Key",
    hopeless=True,
)
UNAVAILABLE: Final = Fault(
    Code.IDEMPOTENCY_UNAVAILABLE,
    "The gateway cannot tell now whether this Idempotency-Key was used before, and does not risk to run the request "
    "twice. Try again shortly, or send it without the key.",
    wait_s=5,
)


def not_kept(request_id: str) -> Fault:
    """Return what is told to who asks again for an answer that cannot be given again."""
    text = f"The request with this Idempotency-Key ran as {request_id}; its answer is too large to be given again."
    return Fault(Code.ANSWER_NOT_KEPT, text, param="Idempotency-Key", hopeless=True)


@dataclass(frozen=True, slots=True)
class Identity:
    """Digests, hexadecimal. Two calls with one `name` are the same call when their bodies are the same."""

    line_id: int
    key: str
    body: str

    @property
    def name(self) -> str:
        """Under which the call is claimed."""
        return f"{self.line_id}:{self.key}"


def is_keyed(endpoint: Endpoint) -> bool:
    """Whether an operation heeds the header: what costs money does."""
    return endpoint.method == "POST" and not (endpoint.is_free or endpoint.local)


def identity_of(
    line_id: int, endpoint: Endpoint, request: tuple[str, str, bytes], headers: Mapping[str, str], hash_key: bytes
) -> Identity:
    """Return what identifies a call. `request` is path, query, body; header names are lower-case. Raises Refused."""
    key = headers[NAME]
    if not 1 <= len(key) <= KEY_MAX or any(ord(one) not in _VISIBLE for one in key):
        raise Refused(malformed())
    path, query, body = request
    if endpoint.content is Content.FORM:
        body = _without_boundary(body, headers.get("content-type", ""))
    asked = "\n".join((path.rstrip("/"), query, blake2b(body).hexdigest()))
    return Identity(line_id, _digest(hash_key, f"key\n{line_id}\n{key}"), _digest(hash_key, f"body\n{asked}"))


def malformed() -> Fault:
    """Return what is told of a key that none can be."""
    text = f"Idempotency-Key must be sent once, with 1 to {KEY_MAX} visible ASCII characters and no blanks."
    return Fault(Code.INVALID_REQUEST, text, param="Idempotency-Key")


def upstream_key(seed: str, key_id: int, body: bytes) -> str:
    """Return the idempotency key of one exchange: new for each upstream key and body, telling nothing of the client's.

    `seed` is the request's id.
    """
    return "pm-" + blake2b(body, key=f"{seed}:{key_id}".encode()[:64], digest_size=20).hexdigest()


def _digest(hash_key: bytes, text: str) -> str:
    return hmac.digest(hash_key, text.encode(), "sha256").hex()


def _without_boundary(body: bytes, content_type: str) -> bytes:
    try:
        return body.replace(b"--" + boundary_of(content_type), b"--")
    except MalformedBody:
        return body  # refused when it is read


@dataclass(slots=True)
class Keep:
    """What a keyed call leaves for those who ask again, gathered while it is answered.

    `of_request`: the call failed for the request's own fault, which is kept as well. `committed`: True = in the
    database, False = durable, but not there yet, None = nothing is kept.
    """

    identity: Identity
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    as_array: bool = False
    parts: list[bytes] = field(default_factory=list, repr=False)
    size: int = 0
    of_request: bool = False
    committed: bool | None = None

    def begin(self, status: int, headers: Mapping[str, str], *, as_array: bool = False) -> None:
        """Note an answer's head."""
        self.status, self.as_array = status, as_array
        self.headers = {name: value for name, value in headers.items() if name.lower() not in OF_ONE_CALL}

    def add(self, part: bytes) -> None:
        """Note an answer's next bytes, as the stream had them."""
        self.size += len(part)
        self.parts.append(part)
        if self.is_too_large:
            self.parts.clear()

    def take(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Note an answer that is no stream."""
        self.begin(status, headers)
        self.add(body)

    @property
    def is_too_large(self) -> bool:
        """Whether only the fact of the answer is kept."""
        return self.size > KEPT_MAX

    def body(self) -> bytes:
        """Return the answer as the client got it."""
        if not self.as_array:
            return b"".join(self.parts)
        writer = ArrayWriter()
        return b"".join(map(writer.feed, self.parts)) + writer.close()


def pack(body: bytes) -> str:
    """Return an answer's bytes as short text, to be encrypted."""
    return base64.b64encode(zlib.compress(body, 1)).decode()


def unpack(text: str) -> bytes:
    """Return what `pack` was given."""
    return zlib.decompress(base64.b64decode(text))


def told(fault: Fault) -> str:
    """Return a fault as text, for those who wait in another process; to be encrypted."""
    values = asdict(fault)
    values["body"] = None if fault.body is None else base64.b64encode(fault.body).decode()
    del values["refusal_until"]  # for the owner's record
    return json.dumps(values)


def heard(text: str) -> Fault:
    """Return the fault that `told` was given."""
    values = json.loads(text)
    body = values.pop("body")
    return Fault(**values | {"code": Code(values["code"]), "body": None if body is None else base64.b64decode(body)})
