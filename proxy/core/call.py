"""One client request on its way through the rooms."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from keys.core.admission import Hold, ProbeLease
from keys.core.dialect import Dialect
from keys.core.policy import Policy
from proxy.core.chain import Chain, Target
from proxy.core.ending import Ending
from proxy.core.errors import Fault
from proxy.core.idempotency import Keep
from routing.core.decision import Decision
from routing.core.facts import Facts
from routing.core.memory import Memory
from routing.core.table import GatewayKeyInfo, LineInfo, RoutingTable, TenantInfo
from tenants.core.values import valueclass


@valueclass(frozen=True, slots=True)
class Received:
    """What came in, before anybody looked at it. `headers` keep their spelling; `query` has no credential left."""

    request_id: str
    record_id: int
    at: datetime
    clock_s: float  # monotonic, of the same moment
    method: str
    path: str
    query: str
    dialect: Dialect
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    query_key: str | None = field(default=None, repr=False)
    is_keyed: bool = False  # has an idempotency key


@valueclass(frozen=True, slots=True)
class Admitted:
    """A request whose caller is known. `table` is the routing table that all of it is decided by."""

    received: Received
    table: RoutingTable
    tenant: TenantInfo
    line: LineInfo
    key: GatewayKeyInfo


@dataclass(slots=True)
class Call:
    """The state of one request; each room reads what came before it and adds its own part."""

    admitted: Admitted
    operation: str
    free: bool = False  # nobody pays, and nothing is learnt about keys
    unestimable: bool = False  # sound or pictures: tokens cannot be told from bytes
    facts: Facts | None = None
    chain: Chain = field(default_factory=Chain)
    ending: Ending = field(default_factory=Ending)
    memory: Memory = field(default_factory=Memory)
    decision: Decision | None = None
    session: str = "none"
    marks: set[str] = field(default_factory=set)  # ids and signatures that the answer hands out, hashed
    explained: dict[str, Any] = field(default_factory=dict)  # the decision, for the record
    dropped: tuple[str, ...] = ()  # members that a translation left out
    abandoned: bool = False  # the client left: no further attempt starts
    handed_over: bool = False  # the background ends it
    idle: bool = False  # failover waits for a slot or pauses: nothing is under way upstream
    caller_holds: tuple[Hold, ...] = ()  # of the line and the gateway key; until the request ends
    key_holds: tuple[Hold, ...] = ()  # of the serving attempt
    policy: Policy = field(default_factory=Policy)  # of the serving attempt
    probe: ProbeLease | None = None
    on: Target | None = None  # where the last attempt was sent
    stop: Callable[[], object] | None = None  # ends what is under way upstream
    stopped: Fault | None = None  # a person aborted it; what the client gets
    began: datetime | None = None  # when the last attempt was sent
    unreported: bool = False  # the last attempt's outcome was not told to the state store yet
    keep: Keep | None = None  # what it leaves for those who ask again, when it has an idempotency key
    replay_of: str = ""  # the request whose answer it gets

    @property
    def received(self) -> Received:
        """What came in."""
        return self.admitted.received

    @property
    def model(self) -> str:
        """The model that the client asked for."""
        return self.facts.model if self.facts is not None else ""

    @property
    def rule(self) -> str:
        """The rule that decided."""
        return self.decision.rule_name if self.decision is not None else ""

    @property
    def group(self) -> str:
        """The strategy group it chose."""
        return self.decision.group_name if self.decision is not None else ""

    @property
    def route(self) -> str:
        """The route that was judged."""
        route = self.decision.target.route if self.decision is not None else None
        return route.name if route is not None else ""

    def elapsed_ms(self, clock_s: float) -> int:
        """Milliseconds since the request came in."""
        return max(0, round((clock_s - self.received.clock_s) * 1000))
