"""Room four: try one upstream key after another until one begins to answer.

Core decides who is next and what a failure means; this room sends, waits and notes. Nothing reaches the client here,
so moving on is free of harm.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from billing.core.usage import UsageMeter, read_usage
from keys.core.admission import Admission, SettleRequest
from keys.core.classify import classify
from keys.core.dialect import Dialect
from keys.core.outcome import Cause, Outcome, Reply, Scope, Verdict
from keys.core.policy import Policy, overridden
from keys.core.report import Part, Report, Skip, account_target, key_target
from keys.core.state import kills, strikes_by
from keys.core.water import share_left
from keys.events import probe_soon
from keys.stores.wheels import Spin
from proxy import background
from proxy.core import headers
from proxy.core.answer import Answer, Translation, generated_bytes, marks_of, usage_seen
from proxy.core.call import Call
from proxy.core.chain import Try, failure
from proxy.core.errors import Code, Fault
from proxy.core.guard import POISON_S, SERVED_WITHIN_S, Late, judge
from proxy.core.sending import Inbound, Prepared, prepare
from proxy.core.translating import whole_answer
from proxy.core.tries import (
    deadline_s,
    is_key,
    key_of,
    message_of,
    poison_mark,
    refusal_fault,
    refuses_option,
    secrets_of,
    softened,
    stops,
    target_of,
    translation_of,
    untranslatable,
    verbatim_of,
)
from proxy.core.wire.form import BrokenAnswer, Untranslatable
from proxy.opening import Asked, Opened, send_and_open
from proxy.runtime import Runtime
from proxy.slots import Slots, note_skip
from proxy.transport import Exchange, Outgoing
from routing.core.decision import Candidate, Decision
from routing.core.fallback import AWAIT_MAX_S, reorder_after
from routing.core.table import KeyInfo, UpstreamInfo

WATER_FOR = timedelta(seconds=60)
_JITTER_S = (0.2, 1.0)
_GIVEN_UP = Outcome(Cause.ABORTED, Verdict.STOP, Scope.NONE)


class Failover:
    """The loop of one request."""

    def __init__(self, call: Call, inbound: Inbound, decision: Decision, runtime: Runtime) -> None:
        self.call, self.inbound, self.decision, self.runtime = call, inbound, decision, runtime
        self.policy = decision.policy
        self.attempts = 0
        self.failures: list[tuple[Candidate, Outcome]] = []
        self.late: list[Late] = []
        self._untranslatable: dict[Dialect, Untranslatable | None] = {}
        self._deadline = call.received.clock_s + deadline_s(self.policy, inbound)
        self._slots = Slots(call, decision, runtime, self._deadline)
        self._passed_over: list[Candidate] = []  # found without room when it was their turn

    async def run(self) -> Answer | Fault:
        """Return the answer that began, or what the client gets instead."""
        for skipped in self.decision.skipped:
            if skipped.bar.recorded is not None:
                note_skip(self.call, skipped.key_id, skipped.bar.recorded.value, skipped.why, skipped.left_s)
        try:
            answer = await self._through(self.decision.candidates, self.decision.member_attempts)
            answer = answer or await self._fall_back()
        finally:
            background.start(self._apply_late(served=self.call.chain.served is not None))
        if answer is not None:
            return answer
        if self._slots.refused is not None:
            return self._slots.refused
        unsaid = next((why for why in self._untranslatable.values() if why is not None), None)
        if unsaid is not None and not self.call.chain.attempts:
            return Fault(Code.INVALID_REQUEST, f"The upstreams cannot take this: {unsaid}.", param=unsaid.field)
        if self.decision.fallback is not None and not self.call.chain.attempts:
            return refusal_fault(self.decision.fallback.refusal)
        waits = [s.left_s for s in self.decision.skipped if s.bar.recorded is not None]
        return failure(self.call.chain, model=self.inbound.model, waits_s=waits)

    async def _fall_back(self) -> Answer | None:
        """Go through what is left when no candidate is: struck keys, keys about to return, the last resort, a wait."""
        fallback = self.decision.fallback
        if fallback is None:
            return None
        some, every = self.decision.member_attempts, self.decision.max_attempts
        answer = await self._through(self._left_of(fallback.struck), some, dares=True)
        answer = answer or await self._through(self._left_of(fallback.awaited), some, wait_s=AWAIT_MAX_S)
        last = self._left_of(fallback.last_resort)
        if answer is None and last and self._may_start(every) and (due := fallback.last_resort_charge) is not None:
            self.runtime.store.notes.spin(Spin(due.scope, due.add, due.put, due.drop))
        answer = answer or await self._through(last, every)
        waiting = {one.key_id: one for one in (*self._passed_over, *fallback.waiting)}
        return answer or await self._through(self._left_of(tuple(waiting.values())), every, wait_s=self._slots.left_s)

    def _left_of(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return those that the failures so far leave."""
        for failed, outcome in self.failures:
            candidates = reorder_after(candidates, failed, outcome)
        return candidates

    async def _through(
        self, candidates: Sequence[Candidate], limit: int, *, wait_s: float = 0.0, dares: bool = False
    ) -> Answer | None:
        rest: Sequence[Candidate] = [candidate for candidate in candidates if self._expressible(candidate)]
        while rest and self._may_start(limit):
            admission = await self._admit(rest, wait_s, dares=dares)
            chosen = next((c for c in rest if c.key_id == admission.key_id), None)
            if chosen is None:
                self._passed_over += rest
                return None
            if not self._may_start(limit):  # while it waited, the client left or the time ran out
                self.runtime.store.let_go([hold for hold in admission.holds if is_key(hold)], admission.probe)
                return None
            self.attempts += 1
            answer = await self._attempt(chosen, admission)
            if answer is not None:
                return answer
            outcome = self.failures[-1][1]
            rest = reorder_after(rest, chosen, outcome)
            if rest and rest[0].upstream_id == chosen.upstream_id and outcome.cause is Cause.SERVER_ERROR:
                await self._pause(limit)
        return None

    async def _pause(self, limit: int) -> None:
        """Spread what hits an upstream that has just failed."""
        if self._may_start(limit):
            self.call.idle = True
            await asyncio.sleep(random.uniform(*_JITTER_S))  # noqa: S311  # spreads load, no secret
            self.call.idle = False

    def _expressible(self, candidate: Candidate) -> bool:
        """Whether the request can be said in the candidate's dialect; asked once per dialect."""
        dialect = candidate.dialect
        if dialect is self.inbound.endpoint.dialect:
            return True
        if dialect not in self._untranslatable:
            self._untranslatable[dialect] = untranslatable(self.inbound, dialect, candidate.model_sent)
        why = self._untranslatable[dialect]
        if why is not None:
            note_skip(self.call, candidate.key_id, Skip.MODEL.value, str(why), None)
        return why is None

    def _may_start(self, limit: int) -> bool:
        if self.call.abandoned or self._slots.refused is not None or self.runtime.clock() >= self._deadline:
            return False
        return self.attempts < limit and (not self.failures or self.failures[-1][1].verdict is Verdict.NEXT)

    async def _admit(self, rest: Sequence[Candidate], wait_s: float, *, dares: bool) -> Admission:
        """Take a slot of the first key that has one. A sticky conversation waits a little for its own first."""
        slots, first = self._slots, rest[0]
        if first.wait_s > 0 and wait_s <= 0:
            own = await slots.take(self.attempts, [first], first.wait_s, dares=dares)
            if own.granted or slots.refused is not None or not rest[1:]:
                return own
            rest = rest[1:]
        return await slots.take(self.attempts, rest, wait_s, dares=dares)

    async def _attempt(self, candidate: Candidate, admission: Admission) -> Answer | None:
        """Make one exchange; the answer if it began, else None with the failure noted."""
        call, runtime = self.call, self.runtime
        upstream, key = self._upstream(candidate), key_of(call.admitted.table, candidate)
        policy = overridden(self.policy, key.policy) if key.policy else self.policy
        began, started_ms = runtime.now(), call.elapsed_ms(runtime.clock())
        holds = tuple(hold for hold in admission.holds if is_key(hold))
        call.key_holds, call.policy, call.probe, call.began = holds, policy, admission.probe, began
        call.unreported = True
        queued_ms = round(self._slots.waited_s * 1000)
        made = Try(target_of(candidate, key), started_ms=started_ms, queued_ms=queued_ms)
        self._slots.waited_s = 0.0
        call.on = made.target
        try:
            prepared, exchange, opened = await self._exchange(candidate, upstream, key, policy)
        except asyncio.CancelledError:  # the client left, and what this uses takes too long to learn
            given_up = replace(made, ms=call.elapsed_ms(runtime.clock()) - started_ms, outcome=_GIVEN_UP)
            call.chain = call.chain.with_try(given_up)
            raise
        made = replace(
            made,
            ms=call.elapsed_ms(runtime.clock()) - started_ms,
            upstream_request_id=exchange.headers.get("x-request-id") or exchange.headers.get("request-id", ""),
        )
        failed = opened.failed
        translation = translation_of(call.received, self.inbound, upstream.dialect, prepared)
        if failed is None and translation is not None and opened.whole is not None:
            try:
                opened.whole, marks = whole_answer(translation, opened.payload)
                call.marks.update(marks)
            except BrokenAnswer as problem:
                failed = Reply(exchange.status, exchange.headers, str(problem).encode(errors="replace"), usable=False)
        if failed is not None:
            if opened.events and not call.free:
                made = replace(made, usage=usage_seen(made.target.dialect, opened.events, upstream.usage_semantics))
            await self._failed(made, failed, candidate, began)
            exchange.abort()
            return None
        return self._begun(made, prepared, exchange, opened, policy, translation)

    async def _exchange(
        self, candidate: Candidate, upstream: UpstreamInfo, key: KeyInfo, policy: Policy
    ) -> tuple[Prepared, Exchange, Opened]:
        """Send and open; once more without our own field when the upstream refuses that."""
        option = upstream.id not in self.runtime.usage_refused
        prepared, exchange, opened = await self._send(candidate, upstream, key, policy, usage_option=option)
        if prepared.injected and refuses_option(opened.failed):
            exchange.abort()
            self.runtime.usage_refused.add(upstream.id)
            return await self._send(candidate, upstream, key, policy, usage_option=False)
        return prepared, exchange, opened

    async def _send(
        self, candidate: Candidate, upstream: UpstreamInfo, key: KeyInfo, policy: Policy, *, usage_option: bool
    ) -> tuple[Prepared, Exchange, Opened]:
        prepared = prepare(
            self.inbound,
            upstream,
            key,
            model=candidate.model_sent,
            values=candidate.values,
            usage_option=usage_option,
        )
        asked = Asked(
            prepared.operation,
            upstream.dialect,
            self.inbound.stream,
            upstream.timeouts.silence_s or policy.silence_s,
            policy.hold_bytes,
            full=self.decision.stream_hold == "full",
            meter=self.inbound.endpoint.meter,
        )
        connect_s = upstream.timeouts.connect_s or policy.connect_s
        body = prepared.body or None
        outgoing = Outgoing(self.inbound.endpoint.method, prepared.url, prepared.headers, body, connect_s)
        return prepared, *await send_and_open(self.runtime.transport, outgoing, asked)

    def _begun(
        self,
        made: Try,
        prepared: Prepared,
        exchange: Exchange,
        opened: Opened,
        policy: Policy,
        translation: Translation | None,
    ) -> Answer:
        """The commit point of this room: an answer has begun."""
        call, runtime = self.call, self.runtime
        dialect = made.target.dialect
        made = replace(
            made,
            outcome=Outcome(Cause.SERVED, Verdict.ANSWERED, Scope.NONE, status=exchange.status),
            first_content_ms=call.elapsed_ms(runtime.clock()) - made.started_ms,
        )
        semantics = call.admitted.table.upstreams[made.target.upstream_id].usage_semantics
        meter = None
        if opened.whole is None:
            meter = UsageMeter(dialect, semantics)
        elif not call.free:
            usage = read_usage(dialect, opened.payload, semantics) if opened.payload is not None else None
            silent = usage is None or usage.output_tokens is None
            made = replace(made, usage=usage, output_bytes=generated_bytes(opened.whole) if silent else 0)
        if opened.whole is not None:
            exchange.release()
        call.chain = call.chain.with_try(made)
        self._learn(made, exchange, opened)
        if call.probe is not None:
            runtime.store.let_go((), call.probe)
            call.probe = None
        return Answer(
            made=made,
            status=exchange.status or 200,
            headers=headers.to_client(exchange.raw_headers),
            dialect=dialect,
            source=exchange,
            silence_s=policy.silence_s,
            whole=opened.whole,
            opening=list(opened.events),
            content_type=opened.content_type,
            as_array=self.inbound.as_array,
            framer=opened.framer,
            meter=meter,
            withhold_usage=prepared.injected,
            rename=prepared.rename,
            dropped=prepared.dropped,
            translation=translation,
        )

    def _learn(self, made: Try, exchange: Exchange, opened: Opened) -> None:
        """Note how much of the key's rate windows is left, and what the answer creates on its account."""
        share = share_left(exchange.headers)
        if share is not None:
            target = key_target(made.target.key_id)
            if made.target.account_id is not None:
                target = account_target(made.target.account_id)
            self.runtime.store.figures.saw_water(target, share, self.runtime.now() + WATER_FOR)
        if isinstance(opened.payload, dict):
            self.call.marks.update(marks_of(made.target.dialect, opened.payload))

    async def _failed(self, made: Try, reply: Reply, candidate: Candidate, began: datetime) -> None:
        call, runtime, now = self.call, self.runtime, self.runtime.now()
        outcome = classify(reply, now=now, rules=call.admitted.table.wordings)
        secret = key_of(call.admitted.table, candidate).secret
        outcome = replace(outcome, message=message_of(reply, outcome.message, secret))
        if call.abandoned and outcome.cause is Cause.CONNECTION:
            outcome = replace(outcome, cause=Cause.ABORTED, scope=Scope.NONE)
        if self.decision.unknown_pin and outcome.cause is Cause.MODEL_UNAVAILABLE:
            # The id is not there; that says nothing about the model.
            outcome = replace(outcome, scope=Scope.REQUEST)
        outcome = softened(outcome, self.inbound.endpoint)
        if stops(outcome, call.policy):
            outcome = replace(outcome, verdict=Verdict.STOP)
        self.failures.append((candidate, outcome))
        verbatim = None
        if outcome.verdict is Verdict.STOP or outcome.cause is Cause.CONTEXT_TOO_LONG:
            verbatim = verbatim_of(reply, secrets_of(call.admitted.table), call.received.dialect)
        call.chain = call.chain.with_try(replace(made, outcome=outcome, verbatim=verbatim))
        report = Report(
            key_id=candidate.key_id,
            account_id=candidate.account_id,
            model=candidate.model_sent,
            outcome=outcome,
            began=began,
            epoch=key_of(call.admitted.table, candidate).epoch,  # of the secret that was used
            first_ms=made.ms if outcome.cause is Cause.TIMEOUT else None,
        )
        reports: tuple[tuple[Report, Policy], ...] = ((report, call.policy),)
        if call.free:
            reports = ()
        elif strikes_by(outcome, call.policy) or kills(outcome, call.policy):
            self.late.append(Late(replace(report, part=Part.LATE), call.policy, candidate.balance))
            reports = ((replace(report, part=Part.PROMPT), call.policy),)
        request = SettleRequest(reports=reports, holds=call.key_holds, tokens=0, probe=call.probe)
        call.key_holds, call.probe, call.unreported = (), None, False
        runtime.note(await runtime.store.settle(request, now), call.received.request_id)

    async def _apply_late(self, *, served: bool) -> None:
        """Apply the chain's strikes and deaths, unless the request rather than the keys is at fault."""
        if not self.late:
            return
        runtime = self.runtime
        now, figures = runtime.now(), runtime.store.figures
        since = now - timedelta(seconds=SERVED_WITHIN_S)
        served_lately = {late.report.key_id for late in self.late if figures.served_since(late.report.key_id, since)}
        judgement = judge(self.late, served=served, served_lately=served_lately)
        if judgement.poisoned:
            figures.poison(poison_mark(self.call), now + timedelta(seconds=POISON_S))
        if judgement.probe:
            runtime.threads.submit(probe_soon, judgement.probe)
        if judgement.apply:
            reports = [(late.report, late.policy) for late in judgement.apply]
            runtime.note(await runtime.store.report_chain(reports, now), self.call.received.request_id)

    def _upstream(self, candidate: Candidate) -> UpstreamInfo:
        return self.call.admitted.table.upstreams[candidate.upstream_id]
