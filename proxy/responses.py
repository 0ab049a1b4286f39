"""What goes out over HTTP: streams, faults in the dialect of the path, the headers that every answer carries."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

from django.http import HttpResponse, StreamingHttpResponse

from proxy.core.answer import SSE
from proxy.core.call import Call, Received
from proxy.core.chain import Chain
from proxy.core.errors import Code, Fault, retry_after
from proxy.core.passages import ArrayWriter
from proxy.core.wire.faults import FaultContext, error_body, error_event

INTERNAL = Fault(Code.INTERNAL, "The gateway made a mistake; it has been logged.")
_STREAM_HEADERS = (("cache-control", "no-cache"), ("x-accel-buffering", "no"))


class CutShortError(Exception):
    """An answer of plain bytes broke: the client must see its connection end too early, for want of words."""


class GatewayStream(StreamingHttpResponse):
    """A streamed answer. `close` says `over`, that nobody reads any more, even when the stream never started."""

    def __init__(self, parts: AsyncGenerator[bytes, None], over: Callable[[], None], **options: Any) -> None:
        super().__init__(parts, **options)
        self.parts = parts
        self._over = over

    def close(self) -> None:
        """Safe to call twice and from any thread."""
        super().close()
        self.hand_over()

    def hand_over(self) -> None:
        """See that the call is recorded. Safe to call twice and from any thread."""
        self._over()


def own_headers(call: Call) -> dict[str, str]:
    """Return the headers that every answer carries."""
    dropped = {"x-pointsman-dropped": ", ".join(call.dropped)} if call.dropped else {}
    return dropped | {
        "x-request-id": call.received.request_id,
        "request-id": call.received.request_id,
        "x-pointsman-attempts": str(len(call.chain.attempts)),
        "x-pointsman-session": call.session,
    }


def stream_headers(call: Call, upstream: Any, content_type: str = SSE) -> dict[str, str]:
    """Return the headers of a streamed answer."""
    headers = dict(upstream) | dict(_STREAM_HEADERS) | own_headers(call)
    headers["content-type"] = content_type
    return headers


def event_of(call: Call, fault: Fault) -> bytes:
    """Return a fault as the last event of a stream."""
    context = FaultContext(request_id=call.received.request_id, model=call.model, retry_s=fault.wait_s)
    return error_event(call.received.dialect, fault.status, fault.code.value, fault.message, fault.kind, context)


def late_words(call: Call, fault: Fault, *, as_array: bool) -> bytes:
    """Return a fault as all that a stream holds besides keep-alives."""
    said = event_of(call, fault)
    writer = ArrayWriter()
    return writer.feed(said) + writer.close() if as_array else said


def fault_response(received: Received, fault: Fault, call: Call | None = None) -> HttpResponse:
    """Return a fault in the dialect of the path."""
    chain = call.chain if call is not None else Chain()
    headers = {
        "content-type": fault.content_type,
        "x-request-id": received.request_id,
        "request-id": received.request_id,
        "x-pointsman-attempts": str(len(chain.attempts)),
        "x-pointsman-session": call.session if call is not None else "none",
        **fault.headers(),
    }
    body = fault.body
    if body is None:
        context = FaultContext(
            request_id=received.request_id,
            param=fault.param,
            daily=fault.code is Code.BUDGET_SPENT,
            retry_s=fault.wait_s if fault.wait_s is None else max(fault.wait_s, retry_after(fault.wait_s)),
        )
        body = error_body(received.dialect, fault.status, fault.code.value, fault.message, fault.kind, context)
    headers["content-length"] = str(len(body))
    return HttpResponse(body, status=fault.status, headers=headers)
