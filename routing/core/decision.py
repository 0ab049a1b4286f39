"""What a decision consists of. Rich enough to run a request, to record it and to explain it."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from keys.core.dialect import Dialect
from keys.core.outcome import Cause
from keys.core.policy import Policy
from keys.core.report import Skip
from routing.core.rules import RuleVerdict
from routing.core.sticky import Hold
from routing.core.strategies import Score
from routing.core.table import GroupInfo, RouteInfo, RuleInfo, UpstreamInfo
from routing.core.views import Charge
from tenants.core.values import valueclass


class Bar(StrEnum):
    """Why a key is not tried. The first six are the values of an attempt's `skipped`."""

    COOLING = "cooling"
    DEAD = "dead"
    BUSY = "busy"
    MODEL = "model"
    CONTEXT = "context"
    QUOTA = "quota"
    DISABLED = "disabled"
    RULE = "rule"  # a second-phase rule denies this hop
    FORBIDDEN = "forbidden"  # the name a rule would send is not on the line's list
    DIALECT = "dialect"  # this operation cannot be served there
    ELSEWHERE = "elsewhere"  # the request is bound to another account or provider

    @property
    def recorded(self) -> Skip | None:
        """The name under which a record keeps it; None = it was never a choice."""
        return _RECORDED.get(self)


_RECORDED: Mapping[Bar, Skip] = {
    Bar.COOLING: Skip.COOLING,
    Bar.DEAD: Skip.DEAD,
    Bar.BUSY: Skip.BUSY,
    Bar.MODEL: Skip.MODEL,
    Bar.FORBIDDEN: Skip.MODEL,
    Bar.DIALECT: Skip.MODEL,
    Bar.CONTEXT: Skip.CONTEXT,
    Bar.QUOTA: Skip.QUOTA,
}


class RefusalKind(StrEnum):
    NO_ROUTE = "no_route"
    NO_RULE = "no_rule"
    DENIED = "denied_by_rule"
    NOT_ALLOWED = "model_not_allowed"
    MODEL_UNKNOWN = "model_not_found"
    PINNED = "pinned_elsewhere"
    LIMITED = "upstreams_limited"
    NO_KEY = "no_key_available"


_STATUSES: Mapping[RefusalKind, int] = {
    RefusalKind.NO_ROUTE: 404,
    RefusalKind.NO_RULE: 404,
    RefusalKind.DENIED: 403,
    RefusalKind.NOT_ALLOWED: 403,
    RefusalKind.MODEL_UNKNOWN: 404,
    RefusalKind.PINNED: 409,
    RefusalKind.LIMITED: 429,
    RefusalKind.NO_KEY: 503,
}


@valueclass(frozen=True, slots=True)
class Refusal:
    """`retry_after_s` is what the header says (1–60); `wait_s` the real time. None = waiting is no help or unknown."""

    kind: RefusalKind
    text: str
    retry_after_s: int | None = None
    wait_s: float | None = None
    do_not_retry: bool = False

    @property
    def status(self) -> int:
        return _STATUSES[self.kind]


@valueclass(frozen=True, slots=True)
class Hop:
    """One upstream as this request would use it. `bar` None = usable as far as the table knows.

    `model` is the name after rules, before the alias; prices and the line's list are asked for it. `values` are what
    rules set, `model` left out. `rules` are the second phase's verdicts.
    """

    upstream: UpstreamInfo
    model: str
    model_sent: str
    weight: int = 1
    values: Mapping[str, Any] = field(default_factory=dict)
    rules: tuple[RuleVerdict, ...] = ()
    bar: Bar | None = None
    why: str = ""


@valueclass(frozen=True, slots=True)
class Target:
    """What the rules chose, before any key state is known.

    `group` None = the rule names an upstream. `last_resort` is never also a member. `held`: the rule was kept, not
    chosen anew. `refusal` set = nothing else counts.
    """

    verdicts: tuple[RuleVerdict, ...] = ()
    route: RouteInfo | None = None
    rule: RuleInfo | None = None
    group: GroupInfo | None = None
    hops: tuple[Hop, ...] = ()
    last_resort: Hop | None = None
    held: bool = False
    refusal: Refusal | None = None

    @property
    def policy(self) -> Policy:
        return Policy() if self.group is None else self.group.policy

    @property
    def reachable(self) -> tuple[Hop, ...]:
        """Every hop, the last resort at the end."""
        return self.hops if self.last_resort is None else (*self.hops, self.last_resort)

    @property
    def pairs(self) -> tuple[tuple[int, str], ...]:
        """The key × model pairs whose standing `decide` wants to know."""
        return tuple(
            (key.id, hop.model_sent)
            for hop in self.reachable
            if hop.bar is None
            for key in hop.upstream.keys
            if key.enabled
        )

    @property
    def scopes(self) -> tuple[str, ...]:
        """The rotations that `decide` wants to know."""
        scopes = [upstream_scope(hop.upstream) for hop in self.reachable if hop.bar is None]
        return tuple(scopes) if self.group is None else (group_scope(self.group), *scopes)


@valueclass(frozen=True, slots=True)
class Candidate:
    """One planned try.

    `values` are body fields that rules set (the model apart). `epoch` belongs into the attempt's report.
    `half_open`: the probe lease must be taken. `wait_s` > 0: its own key is worth waiting that long, `wait_for` a
    `slot`, or the end of its `state`. `window` None = unknown. `scores` says what it was ordered by: the figures of its
    group, and those of its upstream's rotation with `key_` before; None = unmeasured, unpriced, uncapped.
    """

    key_id: int
    upstream_id: int
    account_id: int | None
    upstream: str
    key: str
    dialect: Dialect
    model: str
    model_sent: str
    values: Mapping[str, Any] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    window: int | None = None
    tier: int = 0
    epoch: int = 0
    half_open: bool = False
    wait_s: float = 0.0
    wait_for: str = ""
    scores: Mapping[str, Score] = field(default_factory=dict)

    @property
    def balance(self) -> int:
        """The account, or minus the key where it has none."""
        return -self.key_id if self.account_id is None else self.account_id


@valueclass(frozen=True, slots=True)
class Skipped:
    """A key that is not tried. `left_s` None = nobody knows. `cause` is that of the cooling, death or rest."""

    key_id: int
    upstream_id: int
    upstream: str
    key: str
    bar: Bar
    why: str
    left_s: float | None = None
    cause: Cause | None = None


@valueclass(frozen=True, slots=True)
class Fallback:
    """What is left when no candidate (any more) is: in the order of the fields.

    `struck`: at most two keys that cool by strikes, soonest first; a failure there never lengthens the cooling.
    `awaited`: other keys at most 5 s from their end (`wait_s`). `last_resort`: its usable keys in order; going there is
    charged with `last_resort_charge`. `waiting`: keys that are full, half open in another's hands, or at a cap that
    ends within the slot budget; the first free one wins (the conversation's own key stands here, too, even if a short
    wait for it was in vain).
    `refusal`: what to answer when nothing was attempted.
    """

    refusal: Refusal
    struck: tuple[Candidate, ...] = ()
    awaited: tuple[Candidate, ...] = ()
    last_resort: tuple[Candidate, ...] = ()
    last_resort_charge: Charge | None = None
    waiting: tuple[Candidate, ...] = ()


@valueclass(frozen=True, slots=True)
class Decision:
    """`refusal` set = answer it, try nothing. Otherwise go through `candidates`, then `fallback`.

    `max_attempts` counts all; of them `member_attempts` may go to others than the last resort. `charges` are due as
    soon as the decision is acted upon. `hold` and `pinned_key_id` belong into `sticky.session_mark`. `unknown_pin`: the
    request names an id that nobody knows; it goes to the first candidate and a 404 teaches nothing.
    """

    target: Target
    candidates: tuple[Candidate, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    refusal: Refusal | None = None
    fallback: Fallback | None = None
    charges: tuple[Charge, ...] = ()
    max_attempts: int = 1
    member_attempts: int = 1
    hold: Hold | None = None
    pinned_key_id: int | None = None
    unknown_pin: bool = False

    @property
    def policy(self) -> Policy:
        return self.target.policy

    @property
    def rule_name(self) -> str:
        return "" if self.target.rule is None else self.target.rule.name

    @property
    def group_name(self) -> str:
        return "" if self.target.group is None else self.target.group.name

    @property
    def stream_hold(self) -> str:
        return "first_content" if self.target.group is None else self.target.group.stream_hold


def group_scope(group: GroupInfo) -> str:
    """A group's rotation. The strategy is part of its name: what one wrote means nothing to another."""
    return f"group:{group.id}:{group.strategy}"


def upstream_scope(upstream: UpstreamInfo) -> str:
    return f"upstream:{upstream.id}:{upstream.rotation}"
