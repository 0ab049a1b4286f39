"""What the pure cores say, in the person's language: they know no Django and speak English."""

import re

from django.utils.translation import gettext, gettext_noop

_LONGEST = 500  # characters; what is longer quotes a whole body and stays as it is
_SLOT = re.compile(r"%\((\w+)\)s")

# As the cores write them, with slots for what they fill in. The first that fits decides: the general ones come last.
PHRASES: tuple[str, ...] = (
    # credentials and addresses
    gettext_noop("is empty"),
    gettext_noop("contains a space or line break"),
    gettext_noop("contains a space or control character"),
    gettext_noop("contains a control character"),
    gettext_noop("contains a character outside ASCII"),
    gettext_noop("contains a backslash"),
    gettext_noop("has no host"),
    gettext_noop("is not an address; write one like https://api.example.com/v1"),
    gettext_noop("must begin with http:// or https://"),
    gettext_noop("must not contain a user name or password"),
    gettext_noop("must not contain ? or # (except a single # at its end)"),
    gettext_noop("%(name)s is a name inside a machine or a private network"),
    gettext_noop("%(name)s is a name inside a private network"),
    gettext_noop("%(name)s is a loopback address"),
    gettext_noop("%(name)s is a link-local or metadata address"),
    gettext_noop("%(name)s is a multicast address"),
    gettext_noop("%(name)s is an unspecified address"),
    gettext_noop("%(name)s is a private address"),
    gettext_noop("%(name)s is an inner address"),
    gettext_noop("%(name)s does not resolve at present"),
    # failover policies
    gettext_noop("unknown preset %(name)s; known: %(known)s"),
    gettext_noop("unknown policy field"),
    gettext_noop("must be one of %(known)s"),
    gettext_noop("must be true or false"),
    gettext_noop("must be a number"),
    gettext_noop("must be a whole number"),
    gettext_noop("must be from %(least)s to %(most)s"),
    gettext_noop("is below %(first)s"),
    # patterns of wording rules
    gettext_noop("brackets in %(pattern)s are unpaired or nested too deep"),
    gettext_noop("pattern %(pattern)s is empty, too long, unpaired or has over %(n)s stars"),
    # routing rules as they are written
    gettext_noop("must not be empty"),
    gettext_noop("must be a pattern such as gpt-*"),
    gettext_noop("%(value)s is no comparison such as '>= 32k', '< 1M' or '== 8'"),
    gettext_noop("%(value)s is no time window such as '22:00-07:00' or 'mon-fri 09:00-18:00'"),
    gettext_noop("when: these conditions exclude each other; the rule can never match"),
    gettext_noop("then: %(names)s exclude each other"),
    gettext_noop("then: has no effect; give group, upstream, deny or set"),
    gettext_noop("at most %(n)s characters"),
    gettext_noop("a rule with an upstream condition may only set or deny"),
    gettext_noop("leaves nothing to set or to continue with"),
    gettext_noop("must be a mapping of body fields"),
    gettext_noop("must be a text"),
    gettext_noop("must be a model's name"),
    gettext_noop("must be a whole number above 0"),
    gettext_noop("must be a JSON value"),
    gettext_noop("cannot be set by a rule"),
    gettext_noop("%(name)s is no field name"),
    gettext_noop("its conditions exclude each other"),
    gettext_noop("%(names)s, which stands before it, decides every request that it matches"),
    gettext_noop("%(names)s, which stand before it, decide every request that it matches"),
    # routing rules as they are judged
    gettext_noop("the conversation is inside a turn and stays on its rule"),
    gettext_noop("adds nothing"),
    gettext_noop("decides"),
    gettext_noop("denies"),
    gettext_noop("not reached: %(name)s decided"),
    gettext_noop("%(name)s decided"),
    gettext_noop("sets %(names)s and decides"),
    gettext_noop("sets %(names)s and denies"),
    # why a key is not tried
    gettext_noop("the upstream is switched off"),
    gettext_noop("the key is switched off"),
    gettext_noop("the request is bound to another account"),
    gettext_noop("a rule sets the model %(model)s, which the line may not use"),
    gettext_noop("%(model)s is not in the upstream's model list"),
    gettext_noop("%(operation)s is not offered by %(dialect)s upstreams"),
    gettext_noop("about %(n)s tokens do not fit %(most)s"),
    gettext_noop("its own limit %(name)s"),
    gettext_noop("%(n)s calls in flight of %(limit)s"),
    gettext_noop("sets %(names)s"),
    gettext_noop("%(name)s is %(value)s, not %(wanted)s"),
)


def _reader(phrase: str) -> re.Pattern[str]:
    parts = _SLOT.split(phrase)  # literal, slot, literal, slot …, literal
    text = "".join(f"(?P<{part}>.+)" if place % 2 else re.escape(part) for place, part in enumerate(parts))
    return re.compile(text, re.DOTALL)


_READERS = tuple((_reader(phrase), phrase) for phrase in PHRASES)


def core_words(text: str) -> str:
    """Return a core's text in the person's language; one that no phrase fits as it is."""
    if len(text) > _LONGEST:
        return text
    for reader, phrase in _READERS:
        if found := reader.fullmatch(text):
            slots = found.groupdict()
            return gettext(phrase) % slots if slots else gettext(phrase)
    return text
