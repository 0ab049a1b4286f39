import pytest

from proxy.core.headers import presented, to_client, to_foreign, to_upstream

OWN = {"Authorization": "Bearer up"}


def sent(*pairs, own=OWN, openrouter=False):
    return to_upstream(pairs, own=own, openrouter=openrouter)


@pytest.mark.parametrize(
    "name",
    [
        "Authorization", "X-API-Key", "api-key", "x-goog-api-key", "Proxy-Authorization", "Cookie", "Host",
        "Content-Length", "Content-Encoding", "Accept-Encoding", "Connection", "Keep-Alive", "Proxy-Connection", "TE",
        "Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Forwarded", "Via", "X-Real-IP", "True-Client-IP",
        "X-Forwarded-For", "CF-Connecting-IP", "traceparent", "tracestate", "baggage", "OpenAI-Organization",
        "OpenAI-Project", "chatgpt-account-id", "anthropic-workspace-id", "Idempotency-Key", "X-Session-ID",
        "X-Pointsman-Anything", "Sec-Fetch-Mode", "Origin", "Referer", "HTTP-Referer", "X-Title",
    ],
)  # fmt: skip
def test_never_to_an_upstream(name):
    assert sent((name, "x")) == [("accept-encoding", "identity"), *OWN.items()]


@pytest.mark.parametrize(
    "name", ["User-Agent", "anthropic-beta", "X-Stainless-Lang", "openai-beta", "x-codex-turn-state", "Accept", "x-any"]
)
def test_everything_else_passes_with_its_spelling_and_order(name):
    assert sent((name, "1"), ("b", "2"), (name, "3"))[:3] == [(name, "1"), ("b", "2"), (name, "3")]


def test_what_connection_lists_is_hop_by_hop():
    assert sent(("Connection", "close, X-Hop"), ("x-hop", "1"), ("x-kept", "2"))[0] == ("x-kept", "2")


def test_own_headers_replace_namesakes_in_any_case():
    made = sent(("X-App", "cli"), own={**OWN, "x-app": "relay"})
    assert [value for name, value in made if name.lower() == "x-app"] == ["relay"]


def test_openrouter_learns_the_app():
    pairs = [("HTTP-Referer", "https://a"), ("X-Title", "A")]
    assert sent(*pairs, openrouter=True)[:2] == pairs


def test_another_dialect_gets_few():
    pairs = [("User-Agent", "ua"), ("anthropic-beta", "b"), ("x-stainless-lang", "js"), ("Content-Type", "x")]
    assert to_foreign(pairs, own=OWN) == [("User-Agent", "ua"), ("accept-encoding", "identity"), *OWN.items()]


@pytest.mark.parametrize(
    "name",
    [
        "Set-Cookie", "Server", "Date", "Via", "CF-Ray", "cf-cache-status", "Alt-Svc", "Strict-Transport-Security",
        "Content-Length", "Content-Encoding", "Transfer-Encoding", "Connection", "openai-organization",
        "openai-project", "anthropic-organization-id", "x-request-id", "request-id", "X-RateLimit-Remaining-Tokens",
        "anthropic-ratelimit-tokens-limit", "x-codex-primary-used-percent", "x-pointsman-attempts", "www-authenticate",
    ],
)  # fmt: skip
def test_never_to_a_client(name):
    assert to_client([(name, "x")]) == []


@pytest.mark.parametrize(
    "name", ["Content-Type", "openai-processing-ms", "openai-model", "x-codex-turn-state", "x-models-etag", "x-any"]
)
def test_the_rest_reaches_the_client(name):
    assert to_client([(name, "1"), (name, "2")]) == [(name, "1"), (name, "2")]


def test_hop_by_hop_on_the_way_back():
    assert to_client([("connection", "x-a , x-b"), ("X-A", "1"), ("x-b", "2"), ("x-c", "3")]) == [("x-c", "3")]


@pytest.mark.parametrize(
    ("headers", "query_key", "found"),
    [
        ([], None, []),
        ([("Authorization", "Bearer a")], None, ["a"]),
        ([("authorization", "bearer   a ")], None, ["a"]),
        ([("authorization", "a"), ("x-other", "b")], None, ["a"]),
        ([("authorization", "Basic a b")], None, ["Basic a b"]),
        ([("X-Api-Key", " b "), ("Authorization", "Bearer a")], None, ["b", "a"]),
        ([("api-key", "c"), ("x-goog-api-key", "d")], "e", ["c", "d", "e"]),
        ([("x-api-key", "a"), ("authorization", "Bearer a")], "a", ["a"]),
        ([("x-api-key", ""), ("authorization", "Bearer ")], "", []),
    ],
)
def test_every_credential_is_offered_once(headers, query_key, found):
    assert presented(headers, query_key) == found
