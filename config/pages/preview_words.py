"""Why a member is picked next, in words."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from django.utils.translation import gettext as _

from config.pages.dryrun_words import bar_words
from keys.standing import cause_words
from routing.core.decision import Bar, Decision
from routing.core.preview import CAP_SPENT
from routing.core.table import GroupInfo
from tenants.adminchips import duration
from tenants.corewords import core_words


def picked_because(group: GroupInfo, decision: Decision, currency: str) -> str:
    """Return why the first candidate leads. `currency`: the tenant's, in which costs are compared."""
    lead = decision.candidates[0]
    scores = {one.upstream_id: one.scores for one in reversed(decision.candidates)}
    if len(scores) == 1:
        return _("the only one usable")
    own = scores[lead.upstream_id]
    words = {
        "priority": lambda: _priority(group, lead.upstream_id),
        "round_robin": lambda: _("its turn"),
        "weighted": lambda: _share(scores, own),
        "least_used": lambda: _("fewest calls in 24 h: %(n)s") % {"n": own.get("calls_24h", 0)},
        "fastest": lambda: _fastest(own),
        "cheapest": lambda: _cheapest(own, currency),
        "headroom": lambda: _headroom(own),
    }.get(group.strategy, lambda: _("by chance"))()
    return words if not lead.tier else _("%(why)s; all are slow or low on credit") % {"why": words}


def skip_reason(bar: str, why: str, left_s: float | None) -> str:
    """Return why a key is not in the draw; an empty bar = its upstream has no key at all."""
    if not bar:
        return _("has no key")
    known = bar in {why, Bar.DISABLED.value} or why.endswith(f" {CAP_SPENT}")
    parts = [bar_words(bar), "" if known else core_words(cause_words(why))]
    if left_s:
        parts.append(_("for %(time)s more") % {"time": duration(left_s)})
    return " · ".join(part for part in parts if part)


def _priority(group: GroupInfo, upstream_id: int) -> str:
    if group.members[0].upstream_id == upstream_id:
        return _("first in the order")
    return _("first usable in the order")


def _share(scores: Mapping[int, Mapping[str, Any]], own: Mapping[str, Any]) -> str:
    total = sum(int(one.get("weight") or 0) for one in scores.values())
    if not total:
        return _("its turn")
    return _("furthest behind its share of %(n)s %%") % {"n": round(100 * int(own.get("weight") or 0) / total)}


def _fastest(own: Mapping[str, Any]) -> str:
    if own.get("explored"):
        return _("measured anew: every 20th call goes to one without a recent measurement")
    if own.get("median_ms") is None:
        return _("none is measured yet; first in the order")
    return _("fastest: %(n)s ms to first content") % {"n": round(float(own["median_ms"]))}


def _cheapest(own: Mapping[str, Any], currency: str) -> str:
    cost = own.get("cost")
    try:
        amount = f"{Decimal(str(cost)).normalize():f}"
        return _("cheapest: about %(cost)s %(currency)s for a typical call") % {"cost": amount, "currency": currency}
    except InvalidOperation:
        return _("no price is known for any; first in the order")


def _headroom(own: Mapping[str, Any]) -> str:
    left = own.get("remaining")
    return _("no cap; first in the order") if left is None else _("most calls left: %(n)s") % {"n": left}
