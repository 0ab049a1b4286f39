"""State as a word, a shape and a colour: the same chip on every page."""

from datetime import datetime

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import localtime, now
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

SHAPES = {"good": "●", "wait": "◐", "bad": "✕", "slow": "◌", "off": "○", "note": "◆"}
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def chip(tone: str, word: str, *, title: str = "", until: datetime | None = None) -> SafeString:
    """Return a chip. `tone`: good | wait | bad | slow | off | note. `until` makes it count down (static script)."""
    left = ""
    if until is not None:
        seconds = max(0, round((until - now()).total_seconds()))
        left = format_html(
            ' <span class="countdown" data-until="{}" aria-live="off">{}</span>', until.isoformat(), duration(seconds)
        )
    return format_html(
        '<span class="chip chip-{}" title="{}"><span aria-hidden="true">{}</span> {}{}</span>',
        tone,
        title,
        SHAPES[tone],
        word,
        left,
    )


def duration(seconds: float) -> str:
    """Return a length of time as people say it: `41 s`, `5 min`, `3 h`, `2 d`."""
    whole = int(seconds)
    if whole < 2 * _MINUTE:
        return _("%(n)s s") % {"n": whole}
    if whole < 2 * _HOUR:
        return _("%(n)s min") % {"n": whole // _MINUTE}
    if whole < 2 * _DAY:
        return _("%(n)s h") % {"n": whole // _HOUR}
    return _("%(n)s d") % {"n": whole // _DAY}


def ago(moment: datetime | None) -> SafeString:
    """Return `2 min ago` with the exact time on hover; a dash for never."""
    if moment is None:
        return mark_safe("–")
    seconds = (now() - moment).total_seconds()
    if abs(seconds) < 1:
        text = _("now")
    elif seconds > 0:
        text = _("%(time)s ago") % {"time": duration(seconds)}
    else:
        text = _("in %(time)s") % {"time": duration(-seconds)}
    exact = f"{localtime(moment):%Y-%m-%d %H:%M:%S %Z}"
    return format_html('<time datetime="{}" title="{}">{}</time>', moment.isoformat(), exact, text)


def tail(text: str) -> SafeString:
    """Return the shown end of a secret."""
    return format_html('<code class="tail">…{}</code>', text)


def listing(items: list[str], none: str, most: int = 3) -> str:
    """Return the first items of a list and how many more there are."""
    if not items:
        return none
    more = len(items) - most
    head = ", ".join(items[:most])
    return head if more <= 0 else head + ngettext(" and %(n)s more", " and %(n)s more", more) % {"n": more}
