"""A failover policy in plain words, from its numbers."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from keys.core.policy import PRESETS, Policy, overridden
from keys.core.state import RATE_UNSTATED_MAX_S
from tenants.adminchips import duration

_MINUTE_FROM = 120  # seconds; below, a length of time is said in seconds


def preset_words(name: str) -> list[str]:
    """Return what a preset does, a sentence each."""
    return policy_words(overridden(Policy(), {"preset": name}))


def stored_words(values: Mapping[str, Any]) -> list[str]:
    """Return what a policy does as it is stored, laid over the standard numbers."""
    return policy_words(overridden(Policy(), values))


def presets_in_words() -> list[tuple[str, list[str]]]:
    """Return every preset with its sentences."""
    return [(name, preset_words(name)) for name in PRESETS]


def policy_words(policy: Policy) -> list[str]:
    """Return the sentences."""
    return [
        _rate_limited(policy),
        _struck(policy),
        _money(policy),
        _refused(policy),
        _tries(policy),
        _patience(policy),
    ]


def _rate_limited(policy: Policy) -> str:
    most = min(policy.cool_429_max_s, max(RATE_UNSTATED_MAX_S, policy.cool_429_s))
    rest = _rising(policy.cool_429_s, most)
    if not policy.obey_retry_after:
        return _("After a rate limit the key rests %(rest)s, whatever the answer asks for.") % {"rest": rest}
    return _(
        "After a rate limit the key rests as long as the answer asks for, at most %(most)s; when it names no time,"
        " %(rest)s."
    ) % {"most": _time(policy.cool_429_max_s), "rest": rest}


def _struck(policy: Policy) -> str:
    rest = _rising(policy.cool_strike_s, policy.cool_strike_max_s)
    values = {"n": policy.strikes, "rest": rest}
    if policy.timeouts_cool:
        text = ngettext(
            "After %(n)s failure, a timeout included, the key rests %(rest)s.",
            "After %(n)s failures in a row, timeouts included, the key rests %(rest)s.",
            policy.strikes,
        )
    else:
        text = ngettext(
            "After %(n)s failure the key rests %(rest)s; timeouts never make it rest.",
            "After %(n)s failures in a row the key rests %(rest)s; timeouts never make it rest.",
            policy.strikes,
        )
    return text % values


def _money(policy: Policy) -> str:
    values = {"rest": _time(policy.cool_balance_s), "quota": _time(policy.cool_quota_s)}
    if policy.on_balance == "dead":
        return (
            _(
                "Out of balance, the account is dead until a person or a balance above zero revives it; out of quota,"
                " it rests until the time named, else %(quota)s."
            )
            % values
        )
    return _("Out of balance, the account rests %(rest)s; out of quota, until the time named, else %(quota)s.") % values


def _refused(policy: Policy) -> str:
    if policy.on_auth == policy.on_permission == "stop":
        return _("Refused credentials or permissions end the request at once; no other key is tried.")
    auth = {
        "dead": _("A key whose credentials are refused is dead until a person revives it"),
        "strike": _("Refused credentials count as a failure"),
        "stop": _("Refused credentials end the request at once"),
    }[policy.on_auth]
    permission = {
        "strike": _("a refused permission counts as a failure"),
        "dead": _("a refused permission kills the key"),
        "stop": _("a refused permission ends the request at once"),
    }[policy.on_permission]
    return _("%(auth)s; %(permission)s.") % {"auth": auth, "permission": permission}


def _tries(policy: Policy) -> str:
    if policy.first_content_deadline_s is None:
        return _(
            "A request tries at most %(n)s keys; no try begins later than %(plain)s after it came, %(stream)s when it"
            " is streamed."
        ) % {
            "n": policy.max_attempts,
            "plain": _time(policy.deadline_s(stream=False)),
            "stream": _time(policy.deadline_s(stream=True)),
        }
    return _("A request tries at most %(n)s keys; no try begins later than %(deadline)s after it came.") % {
        "n": policy.max_attempts,
        "deadline": _time(policy.first_content_deadline_s),
    }


def _patience(policy: Policy) -> str:
    return _(
        "A try is given up after %(connect)s without a connection or %(silence)s without content; a request waits up"
        " to %(slot)s for a key that is busy."
    ) % {
        "connect": _time(policy.connect_s),
        "silence": _time(policy.silence_s),
        "slot": _time(policy.slot_wait_s),
    }


def _rising(first: float, most: float) -> str:
    if most <= first:
        return _time(first)
    return _("%(first)s, doubling to %(most)s") % {"first": _time(first), "most": _time(most)}


def _time(seconds: float) -> str:
    """Return a length of time; only whole minutes and hours are rounded to them."""
    if seconds >= _MINUTE_FROM and seconds % 60 == 0:
        return duration(seconds)
    return _("%(n)s s") % {"n": f"{seconds:g}"}
