"""Balances in words: what was last read of an account's money, when, and why not since."""

from collections.abc import Iterator

from django.core.exceptions import ObjectDoesNotExist
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from keys.models import Account, BalanceWatch, UpstreamKey
from tenants.adminchips import ago, chip
from tenants.corewords import core_words


def watch_of(owner: Account | UpstreamKey) -> BalanceWatch | None:
    """Return what is known of an owner's balance; a key's is its account's. Free where `balance` was selected along."""
    try:
        if isinstance(owner, UpstreamKey) and owner.account is not None:
            return owner.account.balance
        return owner.balance
    except ObjectDoesNotExist:
        return None


def amount_words(watch: BalanceWatch) -> str:
    """Return `12.50 USD left`, or a number of the relay's own units; "" before the first reading."""
    if watch.amount is None:
        return ""
    if not watch.currency:
        return _("%(n)s of its own units left") % {"n": f"{watch.amount:,.0f}"}
    return _("%(amount)s %(currency)s left") % {"amount": f"{watch.amount:,.2f}", "currency": watch.currency}


def error_words(watch: BalanceWatch) -> str:
    """Return why the last try gave no balance, "" when it did."""
    return "; ".join(core_words(part) for part in watch.error.split("; ")) if watch.error else ""


def notes_of(key: UpstreamKey) -> Iterator[str]:
    """Yield what a key's row says of its balance."""
    watch = watch_of(key)
    if watch is None:
        return
    if amount := amount_words(watch):
        yield _("Balance: %(amount)s") % {"amount": amount}
    if problem := error_words(watch):
        yield _("Balance not read: %(why)s") % {"why": problem}


def balance_cell(watch: BalanceWatch | None) -> SafeString:
    """Return the balance for a list: the amount and how old it is, marked where there is none left or no news."""
    if watch is None:
        return mark_safe("–")
    parts = []
    if watch.amount is not None:
        parts.append(format_html("{} <small>{}</small>", amount_words(watch), ago(watch.read)))
        if watch.amount <= 0 or not watch.available:
            parts.append(chip("bad", _("nothing left"), title=watch.text))
    if watch.error:
        parts.append(chip("wait", _("not read"), title=error_words(watch)))
    return mark_safe(" ".join(parts)) if parts else mark_safe("–")  # noqa: S308  # each part is escaped


def balance_story(watch: BalanceWatch | None) -> SafeString:
    """Return all that is known, for the account's own page."""
    if watch is None:
        return SafeString(_("Not read: no address is stated, and no upstream's provider is known to tell."))
    lines = [balance_cell(watch)]
    if watch.text:
        lines.append(format_html("<small>{}</small>", _("As read: %(text)s") % {"text": watch.text}))
    if watch.error:
        lines.append(format_html("<small>{} {}: {}</small>", _("last try"), ago(watch.tried), error_words(watch)))
    lines.extend(
        format_html("<small>{} {}: {} {}</small>", _("earlier"), ago(row.at), f"{row.amount:,.2f}", row.currency)
        for row in watch.readings.all()[1:6]
    )
    return mark_safe("<br>".join(lines))  # noqa: S308  # each line is escaped
