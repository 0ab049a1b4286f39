"""Edits touch what they name and no other byte."""

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.wire import edits
from proxy.core.wire.edits import MalformedBody, Member

ODD = (
    b'\xef\xbb\xbf{ "temperature" : 1.0,\n\t"seed":12345678901234567890123, "model"\t: "gpt-4o" ,'
    b'"x":{"model":"inner"},"messages":[{"content":"\\u00e9\\ud83d \\"model\\": [}"}],"x":null, "big":1e400}\r\n'
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(string.printable), inner, max_size=3),
    max_leaves=12,
)


def test_members_and_their_spans() -> None:
    members = edits.read_top_level(ODD)
    assert [member.name for member in members] == ["temperature", "seed", "model", "x", "messages", "x", "big"]
    assert [ODD[m.start : m.end] for m in members][:4] == [
        b"1.0",
        b"12345678901234567890123",
        b'"gpt-4o"',
        b'{"model":"inner"}',
    ]


@given(st.dictionaries(st.text(), json_values, max_size=5), st.sampled_from([None, 1]), st.booleans())
def test_any_object_is_read_and_edited_like_json_does(
    value: dict[str, object], indent: int | None, ascii_: bool
) -> None:
    body = json.dumps(value, indent=indent, ensure_ascii=ascii_).encode("utf-8", "surrogatepass")
    spans = {
        m.name: json.loads(body[m.start : m.end].decode("utf-8", "surrogatepass")) for m in edits.read_top_level(body)
    }
    assert spans == value
    edited = edits.replace_member(body, "model", b'"new"')
    assert json.loads(edited.decode("utf-8", "surrogatepass")) == {**value, "model": "new"}


@pytest.mark.parametrize(
    ("body", "position"),
    [
        (b"", 0),
        (b"[1]", 0),
        (b"  7", 2),
        (b'{"a":1', 6),
        (b'{"a":1,', 7),
        (b'{"a" 1}', 5),
        (b'{"a":}', 5),
        (b'{"a":"x}', 5),
        (b"{a:1}", 1),
        (b'{"a":1 "b":2}', 7),
        (b'{"a":[1,{"b":2}', 15),
        (b'{"a":["x]}', 6),
    ],
)
def test_the_scanner_says_where_it_stopped(body: bytes, position: int) -> None:
    with pytest.raises(MalformedBody) as caught:
        edits.read_top_level(body)
    assert caught.value.position == position


def test_empty_objects() -> None:
    assert edits.read_top_level(b" { } ") == []
    assert edits.read_top_level(b'{"":{}}') == [Member("", 4, 6)]


def test_replacing_leaves_every_other_byte() -> None:
    assert edits.replace_member(ODD, "model", b'"other"') == ODD.replace(b'"gpt-4o"', b'"other"')


def test_duplicates_are_all_replaced() -> None:
    assert edits.replace_member(b'{"m":1,"a":{"m":2},"m": "x"}', "m", b"9") == b'{"m":9,"a":{"m":2},"m": 9}'


def test_an_escaped_name_is_the_same_name() -> None:
    assert edits.replace_member(b'{"mod\\u0065l":"a"}', "model", b'"b"') == b'{"mod\\u0065l":"b"}'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":1}', b'{"model":9}'),
        (b'{"a":["{[",{}],"model" : {"b":2},"c":"]}"}', b'{"a":["{[",{}],"model" : 9,"c":"]}"}'),
        (b'{"a":{"model":1}}', b'{"a":{"model":1},"model":9}'),
        (
            b'{"aaaaaaaaaaaaaaaaaaaaaaaaaaaa":1,"a":{"model":1}}',
            b'{"aaaaaaaaaaaaaaaaaaaaaaaaaaaa":1,"a":{"model":1},"model":9}',
        ),
        (b'{"a":["model"]}', b'{"a":["model"],"model":9}'),
        (b'{"a":"model"}', b'{"a":"model","model":9}'),
        (b'{"b \\"model":1}', b'{"b \\"model":1,"model":9}'),
        (
            b'{"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb":1,"b \\"model":1}',
            b'{"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb":1,"b \\"model":1,"model":9}',
        ),
        (b'{"a":{"model":1},"mod\\u0065l":2}', b'{"a":{"model":1},"mod\\u0065l":9}'),
        (b"{ }", b'{"model":9 }'),
    ],
)
def test_only_the_objects_own_member_is_replaced(body: bytes, expected: bytes) -> None:
    assert edits.replace_member(body, "model", b"9") == expected


def test_nothing_can_be_added_to_what_is_no_object() -> None:
    with pytest.raises(MalformedBody):
        edits.insert_member(b"[]", "a", b"1")


def test_inserting() -> None:
    assert edits.insert_member(b'{"a":1 }', "b", b"[2]") == b'{"a":1,"b":[2] }'
    assert edits.insert_member(b" {\n}", "b", b"2") == b' {"b":2\n}'
    assert edits.replace_member(b'{"a":1}', "b", b"2") == b'{"a":1,"b":2}'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"stream":true}', b'{"stream":true,"stream_options":{"include_usage":true}}'),
        (b'{"stream_options":null}', b'{"stream_options":{"include_usage":true}}'),
        (b'{"stream_options": {}}', b'{"stream_options": {"include_usage":true}}'),
        (b'{"stream_options":{"include_usage": false,"x":1}}', b'{"stream_options":{"include_usage": true,"x":1}}'),
        (b'{"stream_options":{"x":1}}', b'{"stream_options":{"x":1,"include_usage":true}}'),
        (b'{"stream_options":{"include_usage":true}}', b'{"stream_options":{"include_usage":true}}'),
    ],
)
def test_asking_for_usage(body: bytes, expected: bytes) -> None:
    assert edits.ask_for_usage(body) == expected
    assert edits.asks_for_usage(json.loads(expected))


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, "x"])
def test_who_does_not_ask_for_usage(options: object) -> None:
    assert not edits.asks_for_usage({"stream_options": options})
    assert not edits.asks_for_usage({})


@pytest.mark.parametrize(
    ("body", "position", "line", "column"),
    [
        (b'{"a":1,}', 7, 1, 8),
        (b'{\n  "a": tru\n}', 9, 2, 8),
        (b"", 0, 1, 1),
        (b'{"a":1} x', 8, 1, 9),
        (b'{"a":"\n\xff"}', 7, 2, 1),
    ],
)
def test_malformed_json_names_its_place(body: bytes, position: int, line: int, column: int) -> None:
    with pytest.raises(MalformedBody) as caught:
        edits.parse_json(body)
    assert (caught.value.position, caught.value.line, caught.value.column) == (position, line, column)
    assert f"line {line} column {column} (char {position})" in str(caught.value)


@pytest.mark.parametrize("body", [b'{"a":NaN}', b'{"a":-Infinity}', b"[" * 100_000, b"1" * 5000])
def test_what_is_no_json_at_all(body: bytes) -> None:
    with pytest.raises(MalformedBody):
        edits.parse_json(body)


def test_a_lone_surrogate_is_the_upstreams_business() -> None:
    assert edits.parse_json(b'{"a":"\\ud83d"}') == {"a": "\ud83d"}


CHUNK = b'data: {"id":"c","model":"openai/gpt-4o","choices":[{"delta":{"content":"%s"}}]}\n\n'
START = (
    b'event: message_start\ndata: {"type":"message_start","message":{"content":[],"model": "openai/gpt-4o"}}\r\n\r\n'
)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (CHUNK % b"Hi", (CHUNK % b"Hi").replace(b"openai/gpt-4o", b"gpt-4o")),
        (
            CHUNK % b'\\"model\\":\\"openai/gpt-4o\\"',
            CHUNK.replace(b"openai/", b"") % b'\\"model\\":\\"openai/gpt-4o\\"',
        ),
        (START, START.replace(b"openai/", b"")),
        (b'{"modelVersion":"openai/gpt-4o"}', b'{"modelVersion":"gpt-4o"}'),
        (b'{"response":{"modelVersion":"openai/gpt-4o"}}', b'{"response":{"modelVersion":"gpt-4o"}}'),
        (b' \n{"model":"openai\\/gpt-4o"}', b' \n{"model":"gpt-4o"}'),
        (b'{"a":{"model":"openai/gpt-4o"}}', None),
        (b'{"a":[{}],"model":"openai/gpt-4o"}', b'{"a":[{}],"model":"gpt-4o"}'),
        (
            b'{"x":{"model":"openai/gpt-4o"},"model":"openai/gpt-4o"}',
            b'{"x":{"model":"openai/gpt-4o"},"model":"gpt-4o"}',
        ),
        (b'{"model":"openai/gpt-4o-mini"}', None),
        (b'{"model":"openai/gpt-4o-mini","note":"a\\/b"}', None),
        (b'{"model":7,"id":"openai/gpt-4o"}', None),
        (b'{"response":"openai/gpt-4o","model":"x"}', None),
        (b'["model","openai/gpt-4o"]', None),
        (b": model\n\n", None),
        (b'"model" openai/gpt-4o "openai/gpt-4o"', None),
    ],
)
def test_the_sent_name_becomes_the_clients_again(raw: bytes, expected: bytes | None) -> None:
    assert edits.rename_model(raw, b"openai/gpt-4o", b"gpt-4o") == (raw if expected is None else expected)


def test_equal_names_change_nothing() -> None:
    raw = b'{"model":"a"}'
    assert edits.rename_model(raw, b"a", b"a") is raw
