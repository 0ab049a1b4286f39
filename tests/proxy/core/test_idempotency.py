"""What makes two keyed calls the same, and what of them is kept, as plain values."""

from dataclasses import fields, replace
from datetime import UTC, datetime

import pytest

from proxy.core import idempotency
from proxy.core.endpoints import Endpoint, find
from proxy.core.errors import Code, Fault, Refused
from proxy.core.idempotency import (
    KEPT_MAX,
    Identity,
    Keep,
    heard,
    identity_of,
    is_keyed,
    pack,
    told,
    unpack,
    upstream_key,
)  # fmt: skip

HASH_KEY = b"h" * 32
CHAT = "/v1/chat/completions"
FORM = "/v1/audio/transcriptions"


def identity(key="k", body=b"{}", path=CHAT, query="", line=1, content_type="application/json", hash_key=HASH_KEY):
    endpoint = find("POST", path)
    assert isinstance(endpoint, Endpoint)
    headers = {"idempotency-key": key, "content-type": content_type}
    return identity_of(line, endpoint, (path, query, body), headers, hash_key)


def form(boundary, value=b"v"):
    mark = b"--" + boundary.encode()
    return mark + b'\r\nContent-Disposition: form-data; name="n"\r\n\r\n' + value + b"\r\n" + mark + b"--\r\n"


class TestIdentity:
    def test_the_same_is_the_same(self):
        one = identity()
        assert one == identity()
        assert (len(one.key), len(one.body), one.name) == (64, 64, f"1:{one.key}")

    @pytest.mark.parametrize(
        "other", [{"body": b"{ }"}, {"path": "/v1/embeddings"}, {"query": "alt=sse"}], ids=["body", "path", "query"]
    )
    def test_another_request_under_the_same_name(self, other):
        one, two = identity(), identity(**other)
        assert one.name == two.name
        assert one.body != two.body

    @pytest.mark.parametrize("other", [{"key": "K"}, {"line": 2}, {"hash_key": b"i" * 32}])
    def test_another_name(self, other):
        assert identity().name != identity(**other).name

    def test_a_slash_at_the_end_of_the_path_says_nothing(self):
        assert identity(path=CHAT + "/") == identity()

    def test_a_forms_boundary_says_nothing(self):
        one = identity(body=form("aaa"), path=FORM, content_type="multipart/form-data; boundary=aaa")
        assert one == identity(body=form("b-b"), path=FORM, content_type='multipart/form-data; boundary="b-b"')
        assert one != identity(body=form("aaa", b"w"), path=FORM, content_type="multipart/form-data; boundary=aaa")

    def test_what_is_no_form_is_taken_as_it_is(self):
        assert identity(path=FORM, body=b"x") == identity(path=FORM, body=b"x")

    @pytest.mark.parametrize("key", ["", "a b", "a" * 256, "\x7f", "\x1f", "\xe9"])
    def test_no_key(self, key):
        with pytest.raises(Refused) as refused:
            identity(key=key)
        fault = refused.value.fault
        assert (fault.code, fault.status, fault.param) == (Code.INVALID_REQUEST, 400, "Idempotency-Key")

    @pytest.mark.parametrize("key", ["!", "~", "a" * 255])
    def test_just_a_key(self, key):
        assert identity(key=key).line_id == 1


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", CHAT, True),
        ("POST", FORM, True),
        ("POST", "/v1/responses/compact", True),
        ("POST", "/v1beta/models/m:streamGenerateContent", True),
        ("POST", "/v1beta/models/m:countTokens", False),
        ("POST", "/v1/messages/count_tokens", False),
        ("POST", "/v1/responses/resp_1/cancel", False),
        ("GET", "/v1/responses/resp_1", False),
        ("GET", "/v1/models", False),
    ],
)
def test_what_costs_money_heeds_it(method, path, expected):
    assert is_keyed(find(method, path)) is expected


def test_an_upstreams_key_is_its_own():
    one = upstream_key("req_1", 7, b"body")
    assert one == upstream_key("req_1", 7, b"body")
    assert len({one, upstream_key("req_2", 7, b"body"), upstream_key("req_1", 8, b"body"),
                upstream_key("req_1", 7, b"other")}) == 4  # fmt: skip
    assert len(upstream_key("req_" + "f" * 32, 2**63 - 1, b"")) == 43


class TestKeep:
    def keep(self, **fields):
        return Keep(Identity(1, "k", "b"), **fields)

    def test_an_answer(self):
        keep = self.keep()
        keep.take(201, {"Content-Type": "text/plain", "X-Request-Id": "req", "x-pointsman-dropped": "n"}, b"body")
        assert (keep.status, keep.body(), keep.is_too_large) == (201, b"body", False)
        assert keep.headers == {"Content-Type": "text/plain", "x-pointsman-dropped": "n"}

    def test_an_array_is_kept_as_the_client_got_it(self):
        keep = self.keep()
        keep.begin(200, {}, as_array=True)
        for part in (b'data: {"a":1}\n\n', b'data: {"b":2}\n\ndata: {"c":3}\n\n'):
            keep.add(part)
        assert keep.body() == b'[{"a":1},\r\n{"b":2},\r\n{"c":3}]'

    def test_the_bound(self):
        keep = self.keep()
        keep.add(b"x" * KEPT_MAX)
        assert (keep.is_too_large, len(keep.body())) == (False, KEPT_MAX)
        keep.add(b"y")
        keep.add(b"z")
        assert (keep.is_too_large, keep.body(), keep.size) == (True, b"", KEPT_MAX + 2)


@pytest.mark.parametrize("body", [b"", b"\x00\xff\xfb", "日本".encode(), b"data: x\n\n" * 10_000])
def test_what_is_packed_comes_back(body):
    text = pack(body)
    assert text.isascii()
    assert text
    assert unpack(text) == body
    assert len(text) < 100 + len(body)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(Code.UPSTREAM_FAILED, "no luck", source="upstream"),
        Fault(Code.UPSTREAM_RATE_LIMITED, "later", wait_s=2.5, hopeless=False, param="model", refusal_limit="line:rpm"),
        Fault(Code.UPSTREAM_REFUSED_REQUEST, "ü", status_override=418, body=b"\xff{}", content_type="text/html"),
    ],
)
def test_a_fault_is_told_and_heard(fault):
    assert heard(told(fault)) == fault
    until = replace(fault, refusal_until=datetime(2026, 1, 1, tzinfo=UTC))
    assert heard(told(until)) == fault
    assert {one.name for one in fields(Fault)} >= {"code", "body"}


def test_faults_that_are_told():
    assert (idempotency.MISMATCH.status, idempotency.UNAVAILABLE.status) == (422, 503)
    kept = idempotency.not_kept("req_9")
    assert (kept.status, "req_9" in kept.message, kept.headers()["x-should-retry"]) == (409, True, "false")
