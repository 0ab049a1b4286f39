import pytest

from proxy.core.errors import STATUS, Code, Fault, Refused, retry_after

SHOULD_NOT_RETRY = {
    Code.INVALID_GATEWAY_KEY,
    Code.BUDGET_SPENT,
    Code.UPSTREAM_CREDENTIALS,
    Code.UPSTREAM_EXHAUSTED,
    Code.ABORTED,
}


def test_every_code_has_a_status_of_an_error():
    assert set(STATUS) == set(Code)
    assert all(400 <= status < 600 for status in STATUS.values())


@pytest.mark.parametrize("code", Code)
def test_what_only_a_person_can_mend_is_not_to_be_retried(code):
    told = Fault(code, "x").headers()
    assert ("x-should-retry" in told) == (code in SHOULD_NOT_RETRY)
    assert told["x-pointsman-error-source"] == "gateway"
    assert "retry-after" not in told


@pytest.mark.parametrize(
    ("wait_s", "seconds"), [(0, 1), (0.2, 1), (1, 1), (1.01, 2), (59.5, 60), (60, 60), (61, 60), (9e9, 60), (-3, 1)]
)
def test_waits_are_told_in_whole_seconds_that_every_sdk_obeys(wait_s, seconds):
    assert retry_after(wait_s) == seconds
    assert Fault(Code.LIMIT_REACHED, "x", wait_s=wait_s).headers()["retry-after"] == str(seconds)


@pytest.mark.parametrize(("wait_s", "hopeless"), [(600, False), (600.1, True), (None, False)])
def test_a_long_wait_is_not_to_be_waited_for(wait_s, hopeless):
    assert ("x-should-retry" in Fault(Code.NO_KEY_AVAILABLE, "x", wait_s=wait_s).headers()) == hopeless


@pytest.mark.parametrize(("hopeless", "told"), [(True, {"x-should-retry": "false"}), (False, {})])
def test_a_fault_may_say_more_than_its_code(hopeless, told):
    for code in (Code.NO_KEY_AVAILABLE, Code.UPSTREAM_CREDENTIALS):
        made = Fault(code, "x", hopeless=hopeless, source="upstream").headers()
        assert made == {"x-pointsman-error-source": "upstream", **told}


def test_an_upstreams_own_status_goes_before_ours():
    assert Fault(Code.UPSTREAM_REFUSED_REQUEST, "x").status == 400
    assert Fault(Code.UPSTREAM_REFUSED_REQUEST, "x", status_override=422).status == 422


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (Code.CONTEXT_TOO_LONG, "invalid_request_error"),
        (Code.CONTENT_FILTERED, "invalid_request_error"),
        (Code.UPSTREAM_REFUSED_REQUEST, "invalid_request_error"),
        (Code.LIMIT_REACHED, "gateway_error"),
    ],
)
def test_the_kind_says_whose_it_is(code, kind):
    assert Fault(code, "x").kind == kind


def test_a_refusal_carries_its_fault():
    fault = Fault(Code.NOT_FOUND, "x")
    assert Refused(fault).fault is fault
    assert str(Refused(fault)) == "not_found"
