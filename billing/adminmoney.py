"""How amounts and token counts are shown: exact on hover, marked where they are estimated or not known."""

from decimal import Decimal

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

SHOWN_PLACES = 6


def amount(
    value: Decimal | None, currency: str = "", kind: str = "charge", mark: str = "", *, places: int = SHOWN_PLACES
) -> SafeString:
    """Return an amount, rounded for the eye, with all its digits on hover. None is a dash, never zero.

    `kind`: charge | cost | waste (their colours). `mark` stands behind it, such as "est.".
    """
    if value is None:
        dash = format_html('<span class="money money-none" title="{}">–</span>', _("not known"))
        return format_html('{} <span class="mark">{}</span>', dash, mark) if mark else dash
    exact = f"{value:f}"
    text = shown(value, places)
    tail = format_html(' <span class="mark">{}</span>', mark) if mark else ""
    unit = f" {currency}" if currency else ""
    return format_html('<span class="money money-{}" title="{}{}">{}{}{}</span>', kind, exact, unit, text, unit, tail)


def shown(value: Decimal, places: int = SHOWN_PLACES) -> str:
    """Return at least 2 and at most `places` places; a smaller amount has up to six, a still smaller one says so."""
    smallest = Decimal(1).scaleb(-places)
    if value and abs(value) < smallest:
        if places < SHOWN_PLACES:
            return shown(value)
        return f"<{smallest:f}" if value > 0 else f">-{smallest:f}"
    whole, _dot, rest = f"{value:,.{places}f}".partition(".")
    return f"{whole}.{rest.rstrip('0').ljust(2, '0')}"


def tokens(count: int | None) -> SafeString:
    """Return a token count with thousands marked; None is a dash."""
    if count is None:
        return format_html('<span class="money money-none" title="{}">–</span>', _("not known"))
    return format_html('<span class="money">{}</span>', f"{count:,}")
