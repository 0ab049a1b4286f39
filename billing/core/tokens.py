"""What one call used, counted in tokens. One normalised meaning for every provider.

`input_tokens` holds all prompt tokens, cached reads and cache writes included. `cached_read_tokens` and
`cache_write_tokens` are parts of it; `cache_write_1h_tokens` is the part of the writes with the longer lifetime.
`output_tokens` includes `reasoning_tokens`. None is "not reported"; 0 is a reported (or implied) zero.
"""

from decimal import Decimal
from enum import StrEnum

from tenants.core.values import valueclass


class UsageSource(StrEnum):
    """Where the numbers come from.

    UPSTREAM: reported, input and output both known. PARTIAL: reported in part, or by a call that failed.
    ESTIMATED: at least one of input and output was guessed from bytes. NONE: nothing is known.
    """

    UPSTREAM = "upstream"
    PARTIAL = "partial"
    ESTIMATED = "estimated"
    NONE = "none"


@valueclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call.

    `flags` names what was odd about the report, sorted: `bad_number:<field>` (negative, absurd or no integer; that
    field reads as unknown), `all_zero`, `total_only`, `cache_exceeds_input`.
    `reported_cost_usd` is what the provider says the call cost; it is shown beside our own figure, never billed.
    """

    input_tokens: int | None
    cached_read_tokens: int | None
    cache_write_tokens: int | None
    cache_write_1h_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    source: UsageSource
    flags: tuple[str, ...] = ()
    reported_cost_usd: Decimal | None = None


NO_USAGE = Usage(None, None, None, None, None, None, UsageSource.NONE)
