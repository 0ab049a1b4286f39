"""The built-in rules in the order in which they are tried."""

from keys.core.wording import Rules
from keys.core.wording_codes import CODES, WEAK
from keys.core.wording_limits import BUSY, MONEY, QUOTAS
from keys.core.wording_texts import ACCESS, BANNED, CONTENT, REQUESTS, SIZES, VALIDATION

TEXTS = REQUESTS + BANNED + CONTENT + VALIDATION + MONEY + QUOTAS + ACCESS + BUSY

DEFAULT_RULES = Rules(SIZES + CODES + TEXTS + WEAK)
