"""The next ten picks of a strategy group, by the code that decides, on a copy of what is known now."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from django.utils.timezone import now

from config.pages.preview_words import picked_because, skip_reason
from keys.core.dialect import Dialect
from proxy import background
from proxy.plan import views_of
from proxy.runtime import Runtime, current
from routing.core.decision import Decision, Target
from routing.core.facts import Facts
from routing.core.preview import Asked, ask, next_picks
from routing.core.table import GroupInfo, RoutingTable, UpstreamInfo
from routing.core.views import Situation
from routing.models import StrategyGroup
from routing.snapshot import read_table
from routing.standings import read_present

PICKS = 10
MODELS_MAX = 60
ASK_S = 3.0
COLOURS = 6  # of the style sheet
_TYPICAL_TOKENS = 1000  # what `cheapest` is asked about


@dataclass(frozen=True, slots=True)
class Pick:
    """`key` "" = one of several, by chance."""

    n: int
    upstream: str
    key: str
    why: str
    colour: int


@dataclass(frozen=True, slots=True)
class Share:
    upstream: str
    count: int
    colour: int


@dataclass(frozen=True, slots=True)
class Out:
    """A key, or a whole member, that is not in the draw."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Preview:
    """`chance`: the strategy draws by chance; there are no picks then, and `shares` are per cent. `live`: as this
    process sees it; otherwise by what is stored; a rotation that is not counts from its start.
    """

    picks: Sequence[Pick]
    shares: Sequence[Share]
    out: Sequence[Out]
    models: Sequence[str]
    model: str
    last_resort: str
    chance: bool
    live: bool


def preview_of(row: StrategyGroup, model: str) -> Preview | None:
    """Return the preview; None when the group is not in the routing table yet."""
    moment = now()
    runtime = _runtime()
    table = read_table() if runtime is None else _current_table(runtime)
    group = None if table is None else table.groups.get(row.pk)
    if table is None or group is None:
        return None
    asked = ask(table, group, _facts(model), moment)
    situation = None if runtime is None else _live(runtime, asked.target, moment)
    live = situation is not None
    if situation is None:
        situation = _stored(asked.target, moment)
    return _shown(asked, group, next_picks(asked, situation, PICKS), live=live)


def _runtime() -> Runtime | None:
    try:
        return current()
    except RuntimeError:
        return None


def _current_table(runtime: Runtime) -> RoutingTable | None:
    runtime.keeper.refresh()  # what was saved a moment ago counts
    return runtime.keeper.table


def _live(runtime: Runtime, target: Target, moment: datetime) -> Situation | None:
    """Ask the loop that serves, whose states they are; None when it does not answer."""
    try:
        return background.ask(_situation(runtime, target, moment), ASK_S)
    except (RuntimeError, TimeoutError):
        return None


async def _situation(runtime: Runtime, target: Target, moment: datetime) -> Situation:
    notes = runtime.store.notes
    rotation = {scope: dict(notes.rotation(scope)) for scope in target.scopes}
    return Situation(now=moment, draw=0.5, keys=views_of(target, runtime), rotation=rotation)


def _stored(target: Target, moment: datetime) -> Situation:
    """Return what the processes that serve have stored within the last second or two."""
    present = read_present(moment)
    return Situation(now=moment, draw=0.5, keys=present.views(target), rotation=dict(present.rotation(target.scopes)))


def _facts(model: str) -> Facts:
    return Facts(
        tenant_id=0, line_id=0, line="", key_name="", dialect=Dialect.OPENAI, model=model,
        operation="chat/completions", input_tokens=_TYPICAL_TOKENS,
    )  # fmt: skip


def _shown(asked: Asked, group: GroupInfo, decisions: Sequence[Decision], *, live: bool) -> Preview:
    upstreams = asked.table.upstreams
    members = [upstreams[one.upstream_id] for one in group.members if one.upstream_id in upstreams]
    usable = {one.upstream_id for one in decisions[0].candidates}
    chance = group.strategy == "random" and len(usable) > 1
    picks = [] if chance else _picks(asked, group, decisions)
    counted = Counter({one.name: round(100 / len(usable)) for one in members if one.id in usable})
    if not chance:
        counted = Counter(pick.upstream for pick in picks)
    last = asked.target.last_resort
    return Preview(
        picks=picks,
        shares=[Share(one.name, counted[one.name], n % COLOURS) for n, one in enumerate(members) if counted[one.name]],
        out=_out(members, decisions[0]),
        models=list(islice(_models(members), MODELS_MAX)),
        model=asked.facts.model,
        last_resort="" if last is None else last.upstream.name,
        chance=chance,
        live=live,
    )


def _picks(asked: Asked, group: GroupInfo, decisions: Sequence[Decision]) -> list[Pick]:
    colours = {one.upstream_id: place % COLOURS for place, one in enumerate(group.members)}
    drawn = {hop.upstream.id for hop in asked.target.hops if hop.upstream.rotation == "random"}
    currency = asked.table.tenants[group.tenant_id].currency
    picks = []
    for n, decision in enumerate(decisions, start=1):
        if not decision.candidates:
            break
        lead = decision.candidates[0]
        several = sum(one.upstream_id == lead.upstream_id for one in decision.candidates) > 1
        key = "" if lead.upstream_id in drawn and several else lead.key
        picks.append(
            Pick(n, lead.upstream, key, picked_because(group, decision, currency), colours.get(lead.upstream_id, 0))
        )
    return picks


def _out(members: Sequence[UpstreamInfo], decision: Decision) -> list[Out]:
    found = [Out(upstream.name, skip_reason("", "", None)) for upstream in members if not upstream.keys]
    for one in decision.skipped:
        found.append(Out(f"{one.upstream} · {one.key}", skip_reason(one.bar.value, one.why, one.left_s)))
    return found


def _models(members: Sequence[UpstreamInfo]) -> Mapping[str, None]:
    """Return the names that the members are known by, in their order."""
    return {
        name: None
        for upstream in members
        for name in (*upstream.aliases, *(upstream.models or ()))
        if "*" not in name and "?" not in name
    }
