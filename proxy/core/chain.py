"""The attempt chain of a request, and what the client gets when no attempt served."""

from collections.abc import Iterable
from dataclasses import field, replace

from billing.core.tokens import Usage
from keys.core.dialect import Dialect
from keys.core.outcome import Cause, Outcome, Verdict
from proxy.core.errors import Code, Fault
from tenants.core.values import valueclass

_RATE_LONGEST_S = 3600.0  # no key rests longer for a rate, whatever its upstream asks for
SKIP_ROWS = 20  # further skips are counted, not listed

_CREDENTIALS = frozenset({Cause.AUTH_INVALID, Cause.PERMISSION_DENIED})
_MONEY = frozenset({Cause.INSUFFICIENT_BALANCE, Cause.QUOTA_EXHAUSTED}) | _CREDENTIALS
# What agents look for, whoever served.
_REFUSALS = {Cause.CONTEXT_TOO_LONG: Code.CONTEXT_TOO_LONG, Cause.CONTENT_FILTERED: Code.CONTENT_FILTERED}
_PLAIN_REFUSALS = frozenset({400, 404, 405, 409, 410, 413, 415, 422})
_REQUEST_FAULTS = frozenset({Cause.BAD_REQUEST, Cause.CONTENT_FILTERED, Cause.CONTEXT_TOO_LONG})


@valueclass(frozen=True, slots=True)
class Target:
    """The upstream key that a try went to, with the names that its row keeps."""

    upstream_id: int
    upstream: str
    key_id: int
    key: str
    tail: str
    account_id: int | None
    model: str  # as sent upstream
    dialect: Dialect

    @property
    def label(self) -> str:
        """The key as people see it."""
        return f"{self.key} (…{self.tail})"


@valueclass(frozen=True, slots=True)
class Verbatim:
    """An upstream's own error answer, for the client; redacted."""

    status: int
    content_type: str
    body: bytes = field(repr=False)


@valueclass(frozen=True, slots=True)
class Try:
    """One exchange, or a recorded skip (then `skipped` says why and `outcome` is None). Times in ms of the request."""

    target: Target
    outcome: Outcome | None = None
    skipped: str = ""
    left_s: float | None = None
    reason: str = ""
    started_ms: int = 0
    ms: int | None = None
    queued_ms: int = 0
    first_content_ms: int | None = None
    content: bool = False  # some reached the client
    upstream_request_id: str = ""
    usage: Usage | None = None
    output_bytes: int = 0
    verbatim: Verbatim | None = None


@valueclass(frozen=True, slots=True)
class Chain:
    """All tries of a request, in order."""

    tries: tuple[Try, ...] = ()
    skips_left_out: int = 0

    def with_try(self, made: Try) -> "Chain":
        """Append one. A key is skipped once for the same reason; a skip beyond the 20th is only counted."""
        if made.skipped:
            skips = [t for t in self.tries if t.skipped]
            if any(t.target.key_id == made.target.key_id and t.skipped == made.skipped for t in skips):
                return self
            if len(skips) >= SKIP_ROWS:
                return replace(self, skips_left_out=self.skips_left_out + 1)
        return replace(self, tries=(*self.tries, made))

    def with_last(self, made: Try) -> "Chain":
        """Replace the last exchange: its end came to be known."""
        place = max(index for index, t in enumerate(self.tries) if not t.skipped)
        return replace(self, tries=(*self.tries[:place], made, *self.tries[place + 1 :]))

    @property
    def attempts(self) -> tuple[Try, ...]:
        """The exchanges alone."""
        return tuple(t for t in self.tries if not t.skipped)

    @property
    def served(self) -> Try | None:
        """The try that answered."""
        return next((t for t in self.tries if t.outcome is not None and t.outcome.cause is Cause.SERVED), None)


def failure(chain: Chain, *, model: str, waits_s: Iterable[float | None] = (), tenant_has_model: bool = True) -> Fault:
    """Return what the client gets when nothing served.

    `waits_s` are the remaining waits of the keys that were skipped (None = no end known: dead, broke).
    """
    attempts = [t for t in chain.attempts if t.outcome is not None]
    if not attempts:
        return _nothing_tried(chain, model, list(waits_s), tenant_has_model)
    last = attempts[-1].outcome
    assert last is not None  # noqa: S101  # filtered above; tells the type checker
    if last.cause in _REQUEST_FAULTS or (last.verdict is Verdict.STOP and last.cause not in _CREDENTIALS):
        return request_fault(attempts[-1], last)
    causes = {t.outcome.cause for t in attempts if t.outcome is not None}
    return _of_causes(causes, attempts, list(waits_s), model)


def _of_causes(causes: set[Cause], attempts: list[Try], waits_s: list[float | None], model: str) -> Fault:
    last = attempts[-1].outcome
    told = f" The last one said: {last.message}" if last is not None and last.message else ""
    tried = _tried(len(attempts))
    if causes == {Cause.RATE_LIMITED}:
        told_s = (t.outcome.wait_s for t in attempts if t.outcome is not None)
        stated = [min(wait, _RATE_LONGEST_S) for wait in told_s if wait is not None]
        known = [wait for wait in waits_s if wait is not None]
        wait = min([*stated, *known], default=60.0)
        text = f"Every upstream key is rate limited ({tried}); try again in {_seconds(wait)}.{told}"
        return Fault(Code.UPSTREAM_RATE_LIMITED, text, wait_s=wait, source="upstream")
    if causes <= _CREDENTIALS:
        text = (
            f"The upstream refused the gateway's own credentials ({tried}). Your gateway key is fine; "
            f"your administrator has to look at the upstream keys."
        )
        return Fault(Code.UPSTREAM_CREDENTIALS, text, source="upstream")
    if causes <= _MONEY:
        text = f"The upstream accounts are out of balance or quota ({tried}); your administrator has been told."
        return Fault(Code.UPSTREAM_EXHAUSTED, text, source="upstream")
    if causes == {Cause.MODEL_UNAVAILABLE}:
        text = f"No upstream serves the model {model!r} ({tried}).{told}"
        return Fault(Code.MODEL_NOT_FOUND, text, source="upstream", param="model")
    if last is not None and last.cause is Cause.TIMEOUT:
        return Fault(Code.UPSTREAM_TIMEOUT, f"The upstream did not answer in time ({tried}).{told}", source="upstream")
    return Fault(Code.UPSTREAM_FAILED, f"No upstream could answer ({tried}).{told}", source="upstream")


def request_fault(made: Try, outcome: Outcome) -> Fault:
    """Return a refusal that is about the request: the upstream's status and wording, so that clients recognise it."""
    plain = made.verbatim
    if plain is not None and 400 <= plain.status < 500:  # noqa: PLR2004  # the class of client errors
        return Fault(
            Code.UPSTREAM_REFUSED_REQUEST,
            outcome.message,
            source="upstream",
            status_override=plain.status,
            body=plain.body,
            content_type=plain.content_type,
        )
    # It came as a 5xx, inside a stream or in another dialect; the client must see that its request is at fault.
    status = outcome.status if outcome.status in _PLAIN_REFUSALS else None
    return Fault(
        _REFUSALS.get(outcome.cause, Code.UPSTREAM_REFUSED_REQUEST),
        outcome.message or "The upstream refused the request.",
        source="upstream",
        status_override=status,
    )


def _nothing_tried(chain: Chain, model: str, waits_s: list[float | None], tenant_has_model: bool) -> Fault:
    skips = [t for t in chain.tries if t.skipped]
    if not tenant_has_model or (not skips and not waits_s):
        return Fault(Code.MODEL_NOT_FOUND, f"The model {model!r} is not served here.", param="model")
    if all(t.skipped == "context" for t in skips) and skips:
        text = f"The request is longer than the context window of every upstream for {model!r}."
        return Fault(Code.INVALID_REQUEST, text)
    known = [wait for wait in waits_s if wait is not None]
    if not known:
        text = f"No upstream key is usable for {model!r}: each is dead or out of money; your administrator has to act."
        return Fault(Code.NO_KEY_AVAILABLE, text, hopeless=True)
    wait = min(known)
    text = f"Every upstream key for {model!r} is resting; the first is back in {_seconds(wait)}."
    return Fault(Code.NO_KEY_AVAILABLE, text, wait_s=wait)


def _tried(count: int) -> str:
    return "1 key tried" if count == 1 else f"{count} keys tried"


def _seconds(wait_s: float) -> str:
    return f"{max(1, int(-(-wait_s // 1)))} s"
