"""How a request ended. Exactly one ending per request: the first one counts, later ones change nothing."""

from dataclasses import dataclass, field
from enum import StrEnum

from proxy.core.errors import Fault


class End(StrEnum):
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(slots=True)
class Ending:
    """What is known so far about a request's end; filled by the relay, read once by settle.

    `output_bytes` counts generated text as received, for estimates. `delivered`: content reached the client.
    """

    end: End | None = None
    fault: Fault | None = None
    http_status: int | None = None
    delivered: bool = False
    output_bytes: int = 0
    first_content_ms: int | None = None
    recorded: bool = field(default=False)  # a record was handed to the recorder

    def finish(self) -> bool:
        """The answer was relayed whole."""
        return self._end(End.FINISHED)

    def fail(self, fault: Fault) -> bool:
        """The client got an error instead of (the rest of) an answer."""
        if self._end(End.FAILED):
            self.fault = fault
            return True
        return False

    def cancel(self) -> bool:
        """The client left."""
        return self._end(End.CANCELLED)

    def _end(self, end: End) -> bool:
        if self.end is not None:
            return False
        self.end = end
        return True
