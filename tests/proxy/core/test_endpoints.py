"""Paths and what they mean."""

import pytest

from keys.core.dialect import Dialect
from proxy.core.counting import count_body, is_upstreams_fault
from proxy.core.endpoints import Content, Endpoint, Meter, dialect_of, find
from proxy.core.errors import Code, Fault

FOUND = [
    ("POST", "/v1/chat/completions", "chat/completions", Dialect.OPENAI, Meter.TOKENS),
    ("POST", "/v1/chat/completions/", "chat/completions", Dialect.OPENAI, Meter.TOKENS),
    ("POST", "/v1/completions", "completions", Dialect.OPENAI, Meter.TOKENS),
    ("POST", "/v1/embeddings", "embeddings", Dialect.OPENAI, Meter.TOKENS),
    ("POST", "/v1/images/generations", "images/generations", Dialect.OPENAI, Meter.MEDIA),
    ("POST", "/v1/audio/transcriptions", "audio/transcriptions", Dialect.OPENAI, Meter.MEDIA),
    ("POST", "/v1/audio/speech", "audio/speech", Dialect.OPENAI, Meter.MEDIA),
    ("POST", "/v1/moderations", "moderations", Dialect.OPENAI, Meter.TOKENS),
    ("POST", "/v1/rerank", "rerank", Dialect.OPENAI, Meter.TOKENS),
    ("POST", "/v1/responses", "responses", Dialect.RESPONSES, Meter.TOKENS),
    ("POST", "/v1/responses/compact", "responses/compact", Dialect.RESPONSES, Meter.TOKENS),
    ("POST", "/v1/responses/input_tokens", "responses/input_tokens", Dialect.RESPONSES, Meter.COUNT),
    ("GET", "/v1/responses/resp_1", "responses/{id}", Dialect.RESPONSES, Meter.STORED),
    ("DELETE", "/v1/responses/resp_1", "responses/{id}", Dialect.RESPONSES, Meter.STORED),
    ("POST", "/v1/responses/resp_1/cancel", "responses/{id}/cancel", Dialect.RESPONSES, Meter.STORED),
    ("GET", "/v1/responses/resp_1/input_items", "responses/{id}/input_items", Dialect.RESPONSES, Meter.STORED),
    ("POST", "/v1/messages", "messages", Dialect.ANTHROPIC, Meter.TOKENS),
    ("POST", "/v1/messages/count_tokens", "messages/count_tokens", Dialect.ANTHROPIC, Meter.COUNT),
    ("POST", "/v1beta/models/m:generateContent", "generateContent", Dialect.GEMINI, Meter.TOKENS),
    ("POST", "/v1/models/a/b:streamGenerateContent", "streamGenerateContent", Dialect.GEMINI, Meter.TOKENS),
    ("POST", "/v1/models/m:countTokens", "countTokens", Dialect.GEMINI, Meter.COUNT),
    ("POST", "/v1beta/models/m:embedContent", "embedContent", Dialect.GEMINI, Meter.TOKENS),
    ("POST", "/v1beta/models/m:batchEmbedContents", "batchEmbedContents", Dialect.GEMINI, Meter.TOKENS),
]


@pytest.mark.parametrize(("method", "path", "name", "dialect", "meter"), FOUND)
def test_found(method, path, name, dialect, meter):
    endpoint = find(method, path)
    assert isinstance(endpoint, Endpoint)
    assert (endpoint.name, endpoint.dialect, endpoint.meter, endpoint.local) == (name, dialect, meter, False)
    assert endpoint.method == method
    assert endpoint.is_free == (meter in (Meter.COUNT, Meter.STORED)) != endpoint.needs_model
    assert dialect_of(path) is dialect


def test_a_stored_response_has_its_id_and_its_path():
    endpoint = find("GET", "/v1/responses/resp_a.b-c/input_items")
    assert isinstance(endpoint, Endpoint)
    assert (endpoint.stored_id, endpoint.path, endpoint.content) == (
        "resp_a.b-c",
        "responses/resp_a.b-c/input_items",
        Content.NONE,
    )


@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1beta/models", "/v1/requests", "/v1/models/a/b", "/v1/requests/req_1"]
)
def test_answered_here(path):
    endpoint = find("GET", path)
    assert isinstance(endpoint, Endpoint)
    assert endpoint.local


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/v1/responses", Code.UPGRADE_REFUSED),
        ("GET", "/v1/responses/compact", Code.METHOD_NOT_ALLOWED),
        ("DELETE", "/v1/responses", Code.METHOD_NOT_ALLOWED),
        ("PUT", "/v1/chat/completions", Code.METHOD_NOT_ALLOWED),
        ("GET", "/v1beta/models/m:generateContent", Code.METHOD_NOT_ALLOWED),
        ("POST", "/v1/models", Code.METHOD_NOT_ALLOWED),
        ("POST", "/v1beta/models/m:tuneContent", Code.NOT_FOUND),
        ("POST", "/v1/responses/resp_1", Code.NOT_FOUND),
        ("GET", "/v1/responses/../keys", Code.NOT_FOUND),
        ("GET", "/v1/responses/a/b", Code.NOT_FOUND),
        ("GET", "/v1/responses/" + "a" * 600, Code.NOT_FOUND),
        ("POST", "/v1/audio/translations", Code.NOT_FOUND),
        ("GET", "/", Code.NOT_FOUND),
    ],
)
def test_not_found(method, path, code):
    found = find(method, path)
    assert isinstance(found, Fault)
    assert found.code is code


@pytest.mark.parametrize(
    ("path", "headers", "expected"),
    [
        ("/v1/models", frozenset(), Dialect.OPENAI),
        ("/v1/models/x", frozenset({"anthropic-version"}), Dialect.ANTHROPIC),
        ("/v1/models", frozenset({"x-goog-api-key"}), Dialect.GEMINI),
        ("/v1/models/m:countTokens", frozenset(), Dialect.GEMINI),
    ],
)
def test_the_dialect_of_a_path(path, headers, expected):
    assert dialect_of(path, headers) is expected


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (Dialect.ANTHROPIC, b'{"input_tokens":7}'),
        (Dialect.GEMINI, b'{"totalTokens":7}'),
        (Dialect.RESPONSES, b'{"object":"response.input_tokens","input_tokens":7}'),
        (Dialect.OPENAI, b'{"object":"response.input_tokens","input_tokens":7}'),
    ],
)
def test_counts(dialect, expected):
    assert count_body(dialect, 7) == expected


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault(Code.UPSTREAM_FAILED, ""), True),
        (Fault(Code.LIMIT_REACHED, ""), False),
        (Fault(Code.UPSTREAM_REFUSED_REQUEST, "", status_override=405), True),
        (Fault(Code.UPSTREAM_REFUSED_REQUEST, "", status_override=400), False),
    ],
)
def test_whose_fault_it_is_that_tokens_are_not_counted(fault, expected):
    assert is_upstreams_fault(fault) is expected
