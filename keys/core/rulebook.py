"""The built-in rules in the order in which they are tried."""

from keys.core.wording import Rules
from keys.core.wording_codes import CODES, WEAK
from keys.core.wording_texts import REQUESTS, SIZES, TEXTS

DEFAULT_RULES = Rules(SIZES + CODES + REQUESTS + TEXTS + WEAK)
