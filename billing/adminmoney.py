"""How amounts and token counts are shown: exact on hover, marked where they are estimated or not known."""

from decimal import Decimal

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

SHOWN_PLACES = 6
_SMALLEST = Decimal(1).scaleb(-SHOWN_PLACES)


def amount(value: Decimal | None, currency: str = "", kind: str = "charge", mark: str = "") -> SafeString:
    """Return an amount, rounded for the eye, with all its digits on hover. None is a dash, never zero.

    `kind`: charge | cost | waste (their colours). `mark` stands behind it, such as "est.".
    """
    if value is None:
        return format_html('<span class="money money-none" title="{}">–</span>', _("not known"))
    exact = f"{value:f}"
    text = shown(value)
    tail = format_html(' <span class="mark">{}</span>', mark) if mark else ""
    unit = f" {currency}" if currency else ""
    return format_html('<span class="money money-{}" title="{}{}">{}{}{}</span>', kind, exact, unit, text, unit, tail)


def shown(value: Decimal) -> str:
    """Return at least 2 and at most SHOWN_PLACES places; what is smaller says so."""
    if value and abs(value) < _SMALLEST:
        return f"<{_SMALLEST:f}"
    whole, _dot, places = f"{value:.{SHOWN_PLACES}f}".partition(".")
    return f"{int(whole):,}.{places.rstrip('0').ljust(2, '0')}" if whole != "-0" else f"-0.{places}"


def tokens(count: int | None) -> SafeString:
    """Return a token count with thousands marked; None is a dash."""
    if count is None:
        return format_html('<span class="money money-none" title="{}">–</span>', _("not known"))
    return format_html('<span class="money">{}</span>', f"{count:,}")
