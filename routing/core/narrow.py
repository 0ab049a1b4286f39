"""A decision without some of its candidates: what can no longer be afforded or has no price."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from routing.core.decision import Bar, Candidate, Decision, Skipped


def candidates_of(decision: Decision) -> Iterator[Candidate]:
    """Yield every candidate, those of the fallback included; a key may come twice."""
    yield from decision.candidates
    fallback = decision.fallback
    if fallback is not None:
        for group in (fallback.struck, fallback.awaited, fallback.last_resort, fallback.waiting):
            yield from group


def without(decision: Decision, is_out: Callable[[Candidate], bool], bar: Bar, why: str) -> Decision:
    """Leave candidates out and list their keys as skipped."""
    out = {one.key_id: one for one in candidates_of(decision) if is_out(one)}
    if not out:
        return decision

    def left(group: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        return tuple(one for one in group if not is_out(one))

    fallback = decision.fallback
    if fallback is not None:
        fallback = replace(
            fallback,
            struck=left(fallback.struck),
            awaited=left(fallback.awaited),
            last_resort=left(fallback.last_resort),
            waiting=left(fallback.waiting),
        )
    skipped = tuple(Skipped(one.key_id, one.upstream_id, one.upstream, one.key, bar, why) for one in out.values())
    return replace(
        decision, candidates=left(decision.candidates), fallback=fallback, skipped=(*decision.skipped, *skipped)
    )
