import pytest

from keys.core.outcome import Cause, Verdict
from proxy.core.chain import SKIP_ROWS, Chain, Verbatim, failure
from proxy.core.errors import Code
from tests.proxy.core.calls import SERVED, attempt, chain, outcome, skip, target


class TestChain:
    def test_it_keeps_the_order(self):
        made = chain(skip(1), attempt(2), attempt(3, SERVED))
        assert [t.target.upstream for t in made.tries] == ["up1", "up2", "up3"]
        assert [t.target.upstream for t in made.attempts] == ["up2", "up3"]
        assert made.served is made.tries[2]
        assert chain(skip(1), attempt(2)).served is None

    def test_a_key_is_skipped_once_for_one_reason(self):
        made = chain(skip(1), skip(1), skip(1, "busy"), attempt(1))
        assert [(t.skipped, t.outcome is None) for t in made.tries] == [
            ("cooling", True), ("busy", True), ("", False),
        ]  # fmt: skip

    def test_skips_beyond_the_twentieth_are_counted(self):
        made = chain(*(skip(n) for n in range(25)), attempt(1))
        assert len(made.tries) == SKIP_ROWS + 1
        assert (made.skips_left_out, len(made.attempts)) == (5, 1)

    def test_the_last_exchange_is_replaced_wherever_it_stands(self):
        made = chain(attempt(1), attempt(2), skip(3)).with_last(attempt(2, SERVED))
        assert [t.outcome.cause if t.outcome else None for t in made.tries] == [
            Cause.SERVER_ERROR, Cause.SERVED, None,
        ]  # fmt: skip

    def test_it_is_a_value(self):
        made = Chain()
        made.with_try(attempt(1))
        assert made.tries == ()

    def test_a_key_is_named_by_its_tail(self):
        assert target(1).label == "k11 (…tail00)"


C = Cause
FAILURES = [
    ([C.RATE_LIMITED, C.RATE_LIMITED], Code.UPSTREAM_RATE_LIMITED),
    ([C.AUTH_INVALID], Code.UPSTREAM_CREDENTIALS),
    ([C.PERMISSION_DENIED, C.AUTH_INVALID], Code.UPSTREAM_CREDENTIALS),
    ([C.INSUFFICIENT_BALANCE], Code.UPSTREAM_EXHAUSTED),
    ([C.QUOTA_EXHAUSTED, C.INSUFFICIENT_BALANCE], Code.UPSTREAM_EXHAUSTED),
    ([C.QUOTA_EXHAUSTED, C.PERMISSION_DENIED], Code.UPSTREAM_EXHAUSTED),
    ([C.MODEL_UNAVAILABLE, C.MODEL_UNAVAILABLE], Code.MODEL_NOT_FOUND),
    ([C.SERVER_ERROR, C.TIMEOUT], Code.UPSTREAM_TIMEOUT),
    ([C.TIMEOUT, C.SERVER_ERROR], Code.UPSTREAM_FAILED),
    ([C.RATE_LIMITED, C.AUTH_INVALID], Code.UPSTREAM_FAILED),
    ([C.RATE_LIMITED, C.OVERLOADED], Code.UPSTREAM_FAILED),
    ([C.MODEL_UNAVAILABLE, C.CONNECTION], Code.UPSTREAM_FAILED),
    ([C.ABORTED], Code.UPSTREAM_FAILED),
]


@pytest.mark.parametrize(("causes", "code"), FAILURES)
def test_what_the_client_gets_when_all_failed(causes, code):
    made = failure(chain(skip(9), *(attempt(n, cause) for n, cause in enumerate(causes, 1))), model="m")
    assert (made.code, made.source) == (code, "upstream")
    assert f"{len(causes)} key" in made.message
    assert (made.wait_s is not None) == (code is Code.UPSTREAM_RATE_LIMITED)


@pytest.mark.parametrize(
    ("stated", "skipped", "wait_s"),
    [
        ([7.0, 20.0], [], 7.0),
        ([None, None], [], 60.0),
        ([None, 30.0], [], 30.0),
        ([90.0], [5.0, None], 5.0),
        ([1e9], [], 3600.0),  # no key rests that long
    ],
)
def test_a_rate_limit_tells_the_shortest_wait(stated, skipped, wait_s):
    limited = [attempt(n, outcome(Cause.RATE_LIMITED, wait_s=wait)) for n, wait in enumerate(stated, 1)]
    assert failure(chain(*limited), model="m", waits_s=skipped).wait_s == wait_s


def test_the_last_upstreams_words_are_told():
    made = failure(chain(attempt(1), attempt(2, outcome(Cause.OVERLOADED, message="try later"))), model="m")
    assert made.message == "No upstream could answer (2 keys tried). The last one said: try later"


class TestRequestFaults:
    PLAIN = Verbatim(422, "application/problem+json", b'{"e":1}')

    def test_the_upstreams_own_answer_passes(self):
        stopped = outcome(Cause.BAD_REQUEST, Verdict.STOP, message="bad", status=422)
        made = failure(chain(attempt(1), attempt(2, stopped, verbatim=self.PLAIN)), model="m")
        assert (made.status, made.body, made.content_type) == (422, b'{"e":1}', "application/problem+json")
        assert (made.code, made.message) == (Code.UPSTREAM_REFUSED_REQUEST, "bad")

    @pytest.mark.parametrize(
        ("cause", "code"),
        [
            (Cause.CONTENT_FILTERED, Code.CONTENT_FILTERED),
            (Cause.CONTEXT_TOO_LONG, Code.CONTEXT_TOO_LONG),
            (Cause.BAD_REQUEST, Code.UPSTREAM_REFUSED_REQUEST),
        ],
    )
    @pytest.mark.parametrize("verbatim", [None, Verbatim(500, "text/plain", b"x")])
    def test_one_that_came_as_5xx_or_in_a_stream_is_worded_anew(self, cause, code, verbatim):
        made = failure(chain(attempt(1, outcome(cause, status=500), verbatim=verbatim)), model="m")
        assert (made.code, made.status, made.body) == (code, 400, None)
        assert made.message == "The upstream refused the request."

    @pytest.mark.parametrize(("status", "shown"), [(404, 404), (413, 413), (401, 400), (429, 400), (None, 400)])
    def test_a_status_that_says_something_is_kept(self, status, shown):
        assert failure(chain(attempt(1, outcome(Cause.BAD_REQUEST, status=status))), model="m").status == shown

    def test_only_the_last_attempt_decides(self):
        made = failure(chain(attempt(1, outcome(Cause.CONTEXT_TOO_LONG)), attempt(2)), model="m")
        assert made.code is Code.UPSTREAM_FAILED

    def test_a_policy_that_stops_at_credentials_shows_no_401(self):
        made = failure(chain(attempt(1, outcome(Cause.AUTH_INVALID, Verdict.STOP), verbatim=self.PLAIN)), model="m")
        assert (made.code, made.status, made.body) == (Code.UPSTREAM_CREDENTIALS, 502, None)

    def test_a_policy_that_stops_elsewhere_shows_what_came(self):
        stopped = outcome(Cause.SERVER_ERROR, Verdict.STOP, message="boom")
        assert failure(chain(attempt(1, stopped)), model="m").message == "boom"


class TestNothingTried:
    def test_a_model_that_nobody_has(self):
        for made in (
            failure(Chain(), model="m"),
            failure(chain(skip(1)), model="m", waits_s=[3.0], tenant_has_model=False),
        ):
            assert (made.code, made.status, made.param, made.source) == (Code.MODEL_NOT_FOUND, 404, "model", "gateway")

    def test_no_window_is_large_enough(self):
        made = failure(chain(skip(1, "context"), skip(2, "context")), model="m")
        assert (made.code, made.status) == (Code.INVALID_REQUEST, 400)

    def test_each_is_dead_or_broke(self):
        made = failure(chain(skip(1, "dead"), skip(2)), model="m", waits_s=[None, None])
        assert (made.code, made.wait_s) == (Code.NO_KEY_AVAILABLE, None)
        assert made.headers()["x-should-retry"] == "false"

    def test_the_first_that_is_back(self):
        made = failure(chain(skip(1, "dead"), skip(2, "context")), model="m", waits_s=[None, 12.2, 40.0])
        assert (made.code, made.wait_s, made.headers()["retry-after"]) == (Code.NO_KEY_AVAILABLE, 12.2, "13")
        assert "13 s" in made.message
