"""Room for an attempt: the limits of line and gateway key first, then the first upstream key that has a slot.

A request has one budget of waiting, whatever it waits for. Limits of the caller are worth all of it; what a key is
worth is the caller's of `take` to say.
"""

from collections.abc import Sequence

from keys.core.admission import Admission, AdmitRequest, KeyOption
from keys.core.report import Skip
from proxy.core.call import Call
from proxy.core.chain import Try
from proxy.core.errors import Fault
from proxy.core.tries import callers_of, is_key, key_of, limit_fault, skipped_target
from proxy.runtime import Runtime
from routing.core.decision import Candidate, Decision


class Slots:
    """What one request holds and still may wait. `refused` is set once a limit of the caller says no."""

    def __init__(self, call: Call, decision: Decision, runtime: Runtime, deadline: float) -> None:
        self.refused: Fault | None = None
        self.waited_s = 0.0  # since the last attempt
        self._call, self._runtime, self._deadline = call, runtime, deadline
        self._sole = len(decision.candidates) == 1
        self._left_s = decision.policy.slot_wait_s
        self._callers = callers_of(call)

    @property
    def left_s(self) -> float:
        """How long the request may still wait: no attempt starts behind its deadline."""
        return max(0.0, min(self._left_s, self._deadline - self._runtime.clock()))

    async def take(self, number: int, rest: Sequence[Candidate], wait_s: float, *, dares: bool) -> Admission:
        """Get room for attempt `number` with the first of `rest` that has some; wait for it up to `wait_s`."""
        if self._callers:
            admission = await self._ask(number, rest, 0.0, dares=dares)
            if self._callers:
                await self._ask(number, (), self.left_s, dares=dares)
                if self.refused is not None:
                    return admission
            elif admission.granted or wait_s <= 0:
                return admission
        return await self._ask(number, rest, min(wait_s, self.left_s), dares=dares)

    async def _ask(self, number: int, rest: Sequence[Candidate], wait_s: float, *, dares: bool) -> Admission:
        call = self._call
        request = AdmitRequest(
            ticket=f"{call.received.request_id}:{number}",
            model="",
            keys=tuple(self._option(candidate, dares=dares) for candidate in rest),
            callers=self._callers,
            tokens=call.facts.input_tokens if call.facts is not None and not call.free else 0,
            slots=not call.free,
        )
        call.idle = True
        try:
            admission = await self._runtime.store.admit(request, self._runtime.now(), wait_s)
        finally:
            call.idle = False
        self._left_s -= admission.waited_s
        self.waited_s += admission.waited_s
        if self._callers and (admission.callers_passed or admission.granted):
            self._callers = ()
            call.caller_holds += tuple(hold for hold in admission.holds if not is_key(hold))
        elif self._callers and not rest:
            self.refused = limit_fault(admission)
        self._note(admission)
        return admission

    def _option(self, candidate: Candidate, *, dares: bool) -> KeyOption:
        key = key_of(self._call.admitted.table, candidate)
        return KeyOption(
            key_id=key.id,
            account_id=key.account_id,
            caps=key.limits,
            epoch=candidate.epoch,
            dares=dares or self._sole,
        )

    def _note(self, admission: Admission) -> None:
        for passed in admission.passed:
            skip = passed.standing.skip or Skip.BUSY
            note_skip(self._call, passed.key_id, skip.value, "", passed.standing.left_s)
        for block in admission.busy:
            kind, _, number = block.scope.partition(":")
            if kind == "key" and number.isdigit():
                note_skip(self._call, int(number), Skip.BUSY.value, block.limit, block.left_s)


def note_skip(call: Call, key_id: int, skipped: str, why: str, left_s: float | None) -> None:
    """Keep in the chain that a key was passed over."""
    target = skipped_target(call.admitted.table, key_id)
    if target is not None:
        call.chain = call.chain.with_try(Try(target=target, skipped=skipped, reason=why, left_s=left_s))
