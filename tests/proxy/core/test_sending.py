"""The upstream's request is the client's bytes, deliberately edited: whatever valid JSON the client wrote."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keys.core.dialect import Dialect
from proxy.core.endpoints import Endpoint, find
from proxy.core.sending import Inbound, prepare, without_key
from proxy.core.wire.jsontext import parse_json
from routing.core.table import KeyInfo, Timeouts, UpstreamInfo

KEY = KeyInfo(id=1, upstream_id=1, name="k", tail="secret", epoch=0, account_id=None, secret="up-secret")
PATHS = {
    Dialect.OPENAI: "/v1/chat/completions",
    Dialect.RESPONSES: "/v1/responses",
    Dialect.ANTHROPIC: "/v1/messages",
    Dialect.GEMINI: "/v1beta/models/asked:generateContent",
}


def upstream(dialect: Dialect, **changes: Any) -> UpstreamInfo:
    fields: dict[str, Any] = {
        "id": 1, "tenant_id": 1, "name": "u", "dialect": dialect, "base_url": "https://up.example/v1", "models": None,
        "aliases": {}, "max_context_tokens": None, "cost_multiplier": Decimal(1), "rotation": "round_robin", "auth": "",
        "usage_semantics": "", "headers": {}, "timeouts": Timeouts(), "keys": (KEY,), **changes,
    }  # fmt: skip
    return UpstreamInfo(**fields)


def prepared(dialect: Dialect, body: bytes, *, model: str = "asked", values: dict[str, Any] | None = None, **more: Any):
    endpoint = find("POST", more.pop("path", PATHS[dialect]))
    assert isinstance(endpoint, Endpoint)
    payload = parse_json(body)
    inbound = Inbound(
        endpoint=endpoint,
        headers=more.pop("headers", ()),
        query=more.pop("query", ""),
        body=body,
        payload=payload,
        model="asked",
        stream=payload.get("stream") is True,
    )
    return prepare(
        inbound, upstream(dialect, **more), KEY, model=model, values=values or {}, usage_option=True
    )  # fmt: skip


# JSON as clients write it: odd spacing, escapes, long numbers, 1.0, duplicate and unknown names in any order.

BLANKS = st.text(" \t\r\n", max_size=3)
NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30).map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,5})\.[0-9]{1,20}([eE][+-]?[0-9]{1,2})?", fullmatch=True),
    st.sampled_from(["1.0", "-0.0", "1e5", "1E+2", "0.10", "123456789012345678901234567890"]),
)
STRINGS = st.one_of(
    st.text(max_size=12).map(json.dumps),
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='"\\'), max_size=12).map(
        lambda t: f'"{t}"'
    ),
    st.sampled_from(
        ['"\\/"', '"\\u0041"', '"\\ud83d\\ude82"', '"\\ud83d"', '"{\\"model\\":\\"asked\\"}"', '"\\\\"', '"[{]}"']
    ),
)
NAMES = st.one_of(st.sampled_from(['"model"', '"mod\\u0065l"', '"stream_options"', '"x"', '"messages"', '""']), STRINGS)


@st.composite
def spaced(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    return draw(BLANKS) + draw(values) + draw(BLANKS)


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    member = st.tuples(NAMES, values).map(lambda pair: f"{pair[0]}:{pair[1]}")
    return st.lists(spaced(member), max_size=5).map(lambda members: "{" + ",".join(members) + "}")


VALUES = st.recursive(
    spaced(st.one_of(NUMBERS, STRINGS, st.sampled_from(["true", "false", "null"]))),
    lambda inner: spaced(
        st.one_of(objects(inner), st.lists(inner, max_size=4).map(lambda all_: f"[{','.join(all_)}]"))
    ),
    max_leaves=12,
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """An object whose own model is "asked", named once, somewhere among its members."""
    members = draw(st.lists(st.tuples(NAMES.filter(lambda n: json.loads(n) != "model"), VALUES), max_size=6))
    place = draw(st.integers(0, len(members)))
    members.insert(place, ('"model"', draw(spaced(st.just('"asked"')))))
    text = ",".join(f"{draw(BLANKS)}{name}{draw(BLANKS)}:{value}" for name, value in members)
    return f"{draw(BLANKS)}{{{text}{draw(BLANKS)}}}{draw(BLANKS)}".encode("utf-8", "surrogatepass")


@given(bodies(), st.sampled_from(list(Dialect)))
def test_the_same_dialect_is_the_same_bytes(body, dialect):
    if parse_json(body).get("stream") is True and dialect is Dialect.OPENAI:
        return  # the usage option is asked for: below
    made = prepared(dialect, body)
    assert made.body == body
    assert (made.rename, made.injected, made.dropped, made.form) == (None, False, (), None)


@given(bodies())
def test_another_name_changes_the_name_alone(body):
    made = prepared(Dialect.ANTHROPIC, body, model="vendor/näme \U0001f682")
    after = made.body
    new = json.dumps("vendor/näme \U0001f682", ensure_ascii=False).encode()
    changed = [place for place in range(len(body)) if body.startswith(b'"asked"', place)]
    assert any(after == body[:place] + new + body[place + 7 :] for place in changed)
    assert json.loads(after) == json.loads(body) | {"model": "vendor/näme \U0001f682"}


@given(bodies())
def test_the_usage_option_is_one_member_more(body):
    body = body.rstrip()[:-1] + b',"stream":true}'
    if any(json.loads(name) == "stream_options" for name in names_in(body)):
        return
    made = prepared(Dialect.OPENAI, body)
    assert made.injected
    assert made.body == body[:-1] + b',"stream_options":{"include_usage":true}}'


def names_in(body: bytes) -> list[str]:
    found: list[str] = []
    json.loads(body, object_pairs_hook=lambda pairs: found.extend(json.dumps(name) for name, _ in pairs))
    return found


@pytest.mark.parametrize("options", ["{}", '{"include_usage": false}', "null", '{"x":1}'])
def test_a_client_that_does_not_ask_for_usage_gets_our_option(options):
    body = f'{{"model":"asked","stream":true,"stream_options":{options}}}'.encode()
    made = prepared(Dialect.OPENAI, body)
    assert made.injected
    assert json.loads(made.body)["stream_options"]["include_usage"] is True


def test_a_client_that_asks_for_usage_keeps_its_bytes():
    body = b'{"model":"asked","stream":true,"stream_options": { "include_usage" : true } }'
    made = prepared(Dialect.OPENAI, body)
    assert (made.body, made.injected) == (body, False)


@pytest.mark.parametrize("stream", [b"true", b"false"])
def test_other_operations_are_not_asked_for_usage(stream):
    body = b'{"model":"asked","stream":' + stream + b"}"
    made = prepared(Dialect.OPENAI, body, path="/v1/images/generations")
    assert (made.body, made.url) == (body, "https://up.example/v1/images/generations")


def test_duplicates_of_the_model_all_change():
    made = prepared(Dialect.OPENAI, b'{"model":"asked","a":1,"model":"asked"}', model="b")
    assert made.body == b'{"model":"b","a":1,"model":"b"}'


def test_values_of_rules():
    made = prepared(Dialect.OPENAI, b'{"model":"asked", "temperature":1.0}', values={"temperature": 0.5, "seed": 3})
    assert made.body == b'{"model":"asked", "temperature":0.5,"seed":3}'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"contents":[{"parts":[{"text":"\\"model\\""}]}]}', b'{"contents":[{"parts":[{"text":"\\"model\\""}]}]}'),
        (b'{ "model" : "models/asked" }', b'{ "model" : "models/b" }'),
        (b'{"model":"other","x":{"model":"asked"}}', b'{"model":"other","x":{"model":"asked"}}'),
        (
            b'{"requests":[ {"model":"models\\/asked","n":1.0}, 3 ]}',
            b'{"requests":[ {"model":"models/b","n":1.0}, 3 ]}',
        ),
        (b'{"generateContentRequest":{"model":"asked"}}', b'{"generateContentRequest":{"model":"b"}}'),
        (b'{"requests":{"model":"asked"},"model":3}', b'{"requests":{"model":"asked"},"model":3}'),
    ],
)
def test_geminis_bodies_repeat_the_name(body, expected):
    made = prepared(Dialect.GEMINI, body, model="b")
    assert made.body == expected
    assert made.url == "https://up.example/v1/models/b:generateContent"


def test_a_form():
    body = b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nasked\r\n--x--\r\n'
    endpoint = find("POST", "/v1/audio/transcriptions")
    assert isinstance(endpoint, Endpoint)
    inbound = Inbound(endpoint, (), "", body, {"model": "asked"}, "asked", stream=False, boundary=b"x")
    made = prepare(inbound, upstream(Dialect.OPENAI), KEY, model="b", values={"n": 2, "t": "x"}, usage_option=True)
    assert b'name="model"\r\n\r\nb\r\n' in made.body
    assert b'name="n"\r\n\r\n2\r\n' in made.body
    assert b'name="t"\r\n\r\nx\r\n' in made.body


def test_a_stored_object_is_asked_for_as_it_is():
    endpoint = find("GET", "/v1/responses/resp_1/input_items")
    assert isinstance(endpoint, Endpoint)
    inbound = Inbound(endpoint, (), "limit=2", b"", {}, "", stream=False)
    made = prepare(inbound, upstream(Dialect.RESPONSES), KEY, model="", values={"temperature": 1}, usage_option=True)
    assert (made.body, made.url) == (b"", "https://up.example/v1/responses/resp_1/input_items?limit=2")


@pytest.mark.parametrize(
    ("query", "expected"),
    [("", ""), ("a=b", "a=b"), ("key=s&alt=sse", "alt=sse"), ("alt=sse&key=s", "alt=sse"), ("monkey=1", "monkey=1")],
)
def test_the_key_leaves_the_query(query, expected):
    assert without_key(query) == expected
    assert prepared(
        Dialect.OPENAI, b'{"model":"asked"}', query=query
    ).url == "https://up.example/v1/chat/completions" + (f"?{expected}" if expected else "")


def test_the_credential_replaces_whatever_the_client_sent():
    sent = [("Authorization", "Bearer sk-pm-x"), ("X-API-Key", "sk-pm-x"), ("x-new", "1"), ("Content-Encoding", "gzip")]
    made = prepared(Dialect.OPENAI, b'{"model":"asked"}', headers=sent)
    assert ("x-new", "1") in made.headers
    assert [value for name, value in made.headers if "auth" in name.lower()] == ["Bearer up-secret"]
    assert not [name for name, _ in made.headers if name.lower() in ("x-api-key", "content-encoding")]
