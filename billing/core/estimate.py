"""Guesses where a provider reported nothing. There is no tokeniser: four bytes are one token, and the usage says so."""

from dataclasses import replace

from billing.core.tokens import NO_USAGE, Usage, UsageSource

BYTES_PER_TOKEN = 4
DEFAULT_OUTPUT_TOKENS = 1024


def estimate_tokens(size_bytes: int) -> int:
    """Return bytes ÷ 4, rounded up."""
    return -(-max(size_bytes, 0) // BYTES_PER_TOKEN)


def estimate_request(size_bytes: int, max_tokens: int | None, p95_output: int | None) -> Usage:
    """Return what a request may use, for a reservation.

    `p95_output` is the line × model's 95th percentile of output over 7 days; None = too little history (1024 then).
    Output is the smaller of it and the request's own `max_tokens`.
    """
    output = DEFAULT_OUTPUT_TOKENS if p95_output is None else p95_output
    if max_tokens is not None:
        output = min(output, max_tokens)
    return Usage(estimate_tokens(size_bytes), None, None, None, max(output, 0), None, UsageSource.ESTIMATED)


def completed(usage: Usage | None, input_bytes: int, output_bytes: int) -> Usage:
    """Fill what is unknown about a delivered answer from the sizes of its texts; ESTIMATED if anything was filled.

    `output_bytes` counts generated text only, never an error's. A report of nothing but zeros beside a delivered text
    is no report. Ask only when content was delivered.
    """
    if usage is None:
        usage = NO_USAGE
    elif "all_zero" in usage.flags and output_bytes > 0:
        usage = replace(NO_USAGE, flags=usage.flags, reported_cost_usd=usage.reported_cost_usd)
    if usage.input_tokens is not None and usage.output_tokens is not None:
        return usage
    in_caches = (usage.cached_read_tokens or 0) + (usage.cache_write_tokens or 0)
    return replace(
        usage,
        input_tokens=_known(usage.input_tokens, max(estimate_tokens(input_bytes), in_caches)),
        output_tokens=_known(usage.output_tokens, max(estimate_tokens(output_bytes), usage.reasoning_tokens or 0)),
        source=UsageSource.ESTIMATED,
    )


def _known(tokens: int | None, guess: int) -> int:
    return guess if tokens is None else tokens
