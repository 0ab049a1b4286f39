"""No planted secret survives; what is no secret stays as it was; JSON stays JSON."""

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keys.core.redact import MARK, PIECE, redact

TOKEN = st.text(string.ascii_letters + string.digits, min_size=20, max_size=48).map(lambda text: "A1" + text)
AROUND = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=40)

SHAPES = (
    "sk-{}",
    "sk-proj-{}",
    "sk-ant-api03-{}",
    "sk-or-v1-{}",
    "sk-pm-{}",
    "AIza{}",
    "xai-{}",
    "gsk_{}",
    "hf_{}",
    "nvapi-{}",
    "Bearer {}",
    "Authorization: Bearer {}",
    "Authorization: Basic {}",
    "x-api-key: {}",
    '{{"api_key":"{}"}}',
    "https://x.example/v1beta/models/m:generateContent?key={}",
    "https://user:{}@x.example/",
    "access_token={}",
    "ya29.{}",
    "eyJhbGciOiJIUzI1NiJ9.{}",
    "org-{}",
    "user_{}",
)


@pytest.mark.parametrize("shape", SHAPES)
@given(token=TOKEN)
def test_a_credential_is_removed_by_its_shape(shape: str, token: str) -> None:
    text = redact(f"refused: {shape.format(token)} (request id: 7)")
    assert token not in text
    assert token[:PIECE] not in text
    assert text.startswith("refused: ")
    assert text.endswith("(request id: 7)")


@given(
    before=AROUND,
    after=AROUND,
    secret=st.text(string.ascii_letters + string.digits + "-_.+/=", min_size=4, max_size=80),
)
def test_a_given_secret_never_survives(before: str, after: str, secret: str) -> None:
    assert secret not in redact(f"{before} {secret} {after}", [secret]).replace(MARK, "")


@given(secret=TOKEN, cut=st.integers(PIECE, 21))
def test_neither_do_its_long_pieces(secret: str, cut: int) -> None:
    text = redact(f"key {secret[:cut]}... and ...{secret[-cut:]} end", [secret])
    assert secret[:cut] not in text
    assert secret[-cut:] not in text


def test_a_secret_in_a_url_is_found_in_its_quoted_form() -> None:
    assert redact("GET /m?k=a%2Fb%2Bc%3Dd refused", ["a/b+c=d"]) == f"GET /m?k={MARK} refused"


def test_tiny_secrets_do_not_empty_the_text() -> None:
    assert redact("a cat sat", ["", "a", "cat"]) == "a cat sat"


def test_a_piece_is_removed_as_far_as_it_matches() -> None:
    assert redact("got abcdefghijklmnoXYZ", ["abcdefghijklmnopqrstuvwxyz"]) == f"got {MARK}XYZ"
    assert redact("got XYZlmnopqrstuvwxyz!", ["abcdefghijklmnopqrstuvwxyz"]) == f"got XYZ{MARK}!"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Incorrect API key provided: sk-proj-****MxYA. You can", "Incorrect API key provided: [redacted]. You can"),
        ("Your api key: ****abcd is invalid", "Your api key: [redacted] is invalid"),
        (
            "Consumer 'api_key:AIzaSyEXAMPLE0123456789' has been suspended",
            "Consumer 'api_key:[redacted]' has been suspended",
        ),
        ("account org-ab12<ak-9XYZ> is suspended", "account [redacted]<[redacted]> is suspended"),
        ("TokenStatusExhausted[sk-abc***xyz]", "TokenStatusExhausted[[redacted]]"),
        ("Your account 2100000000 has", "Your account [redacted] has"),
        ("team 01234567-89ab-cdef-0123-456789abcdef has", "team [redacted] has"),
        ("consumer projects/1234567 blocked", "consumer projects/[redacted] blocked"),
        ("user jo.doe@corp.example is over", "user [redacted] is over"),
        ("当前 ip：203.0.113.9 (x", "当前 ip：[redacted] (x"),
        ("from 10.0.0.0/8 or 2001:db8::17 or 2001:db8:0:0:1:2:3:4.", "from [redacted] or [redacted] or [redacted]."),
        (
            'Post "https://up.example/v1/x": dial tcp 203.0.113.10:443: i/o',
            'Post "[redacted]": dial tcp [redacted] i/o',
        ),
        ('Get \\"https://up.example/x\\": EOF', 'Get \\"[redacted]\\": EOF'),
        ("lookup up.example on 10.0.0.2:53: no", "lookup [redacted] on [redacted]: no"),
        ("Pool(host='up.example', port=443)", "Pool(host='[redacted]', port=443)"),
        ("no answer of https://up.example/v1/chat/completions now", "no answer of [redacted] now"),
        ("at http://up.example:8080/x and http://localhost/y", "at [redacted] and [redacted]"),
    ],
)
def test_known_leaks(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "prompt is too long: 208310 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000",
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "Visit https://platform.openai.com/account/api-keys or https://docs.anthropic.com/en/api/messages",
        "Missing bearer or basic authentication in header; Invalid bearer token",
        "max_tokens: 128000 > 64000; token count: 123456; key: name",
        "at 2026-01-05T10:00:00Z, 10:20:30, std::string, a::b, user-agent, task-sk, 1.2.3",
        "余额不足，请充值 (request id: 20260105100000)",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=60),
    st.sampled_from(["key=abc12345678", "Bearer abc123def456", "10.0.0.1", "sk-abcdef", "https://a.example/v1/x"]),
)
NAMES = st.sampled_from(["key", "token", "api_key", "account_id", "user", "message", "authorization", "user_id"])


@given(
    st.recursive(
        LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4))
    )
)
def test_json_stays_json(value: object) -> None:
    for separators in ((",", ":"), (", ", ": ")):
        json.loads(redact(json.dumps(value, separators=separators)))
