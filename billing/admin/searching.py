"""The search of the request list: a whole request id, or the exact name of a line, key or model.

Each kind is answered by an index of its own, so that a list of ten million rows stays quick.
"""

from typing import Any

from django.db.models import Q, QuerySet

from billing.kinds import of_model
from keys.models import UpstreamKey
from tenants.models import BusinessLine, GatewayKey
from tenants.scoping import EVERYONE, Reach, scoped

_NAMED_MAX = 50  # rows of one name that are followed


def found(rows: QuerySet[Any], term: str, reach: Reach) -> QuerySet[Any]:
    """Cut a list of requests down to what was searched for; an unknown word is taken for the name of a model."""
    word = term.strip()
    if not word:
        return rows
    if word.startswith("req_"):
        return rows.filter(request_id=word)
    named = _named(word.removeprefix("…"), reach)
    if named is not None:
        return rows.filter(named)
    return rows.filter(of_model(word))


def _named(word: str, reach: Reach) -> Q | None:
    """Return the condition for the lines, gateway keys and upstream keys of this name or tail; None = there is none."""
    owners = (
        ("line_id__in", BusinessLine, Q(slug__iexact=word) | Q(name__iexact=word)),
        ("gateway_key_id__in", GatewayKey, Q(name__iexact=word) | Q(last4=word)),
        ("upstream_key_id__in", UpstreamKey, Q(name__iexact=word) | Q(tail=word)),
    )
    whole: Q | None = None
    for field, model, condition in owners:
        owned = scoped(model._default_manager.filter(condition), reach, EVERYONE)
        ids = list(owned.values_list("pk", flat=True)[:_NAMED_MAX])
        if ids:
            whole = Q(**{field: ids}) if whole is None else whole | Q(**{field: ids})
    return whole
