"""What a test of a key found and did, in words."""

from django.contrib import messages
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from keys.core.outcome import Cause
from keys.core.pool import Sheet
from keys.core.state import STRIKING, Status
from keys.models import Upstream
from keys.prober import ProbeResult
from keys.standing import cause_words
from tenants.adminchips import listing


def result_words(result: ProbeResult, upstream: Upstream | None = None) -> tuple[int, str]:
    """Return the level of a test's result and what it found, in words; with the upstream, the models it lacks too."""
    outcome = result.outcome
    if outcome is None:
        return messages.WARNING, _("the upstream offers no list of models, so nothing was learnt about the key")
    if result.alive:
        n = len(result.models)
        words = ngettext("accepted: %(n)s model in %(ms)s ms", "accepted: %(n)s models in %(ms)s ms", n)
        names = f" ({listing(list(result.models), '')})" if n else ""
        missing = _missing(result, upstream)
        found = words % {"n": n, "ms": result.ms} + names
        if not missing:
            return messages.SUCCESS, found
        gone = _("not among them: %(names)s") % {"names": listing(missing, "")}
        return messages.WARNING, f"{found}; {gone}"
    status = f" (HTTP {outcome.status})" if outcome.status else ""
    return messages.ERROR, f"{cause_words(outcome.cause.value)}{status}: {outcome.message or outcome.evidence}"


def effect_words(result: ProbeResult, sheet: Sheet) -> str:
    """Return what a test's result does to the key."""
    outcome = result.outcome
    struck = sheet.status is Status.COOLING and sheet.reason.partition(" ")[0] in STRIKING
    if result.alive and struck:
        return _("Its cooling after failures is over: the next call decides.")
    if result.alive and sheet.status is Status.DEAD:
        return _("It stays dead until you revive it.")
    if result.alive and sheet.status is Status.COOLING:
        return _("It goes on cooling: a limit or an empty balance does not show in this test.")
    if outcome is not None and outcome.cause is Cause.AUTH_INVALID and sheet.status is not Status.DEAD:
        return _("It is dead from now on: replace its secret.")
    return "" if result.alive else _("Its state stays as it was.")


def _missing(result: ProbeResult, upstream: Upstream | None) -> list[str]:
    """Return the models that the upstream is said to serve and does not list."""
    if upstream is None or not isinstance(upstream.model_list, list):
        return []
    listed = {name.lower() for name in result.models}
    wanted = [upstream.aliases.get(name, name) for name in upstream.model_list]
    return [name for name in wanted if listed and "*" not in name and name.lower() not in listed]
