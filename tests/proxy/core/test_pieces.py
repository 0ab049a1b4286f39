"""Arrays and plain bytes, cut into events whatever the network did."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.passages import ArrayWriter
from proxy.core.pieces import ArrayCutter, BytesCutter
from proxy.core.sse import EventTooLongError

ARRAY = b' [{"a":"]}\\"[{\\\\","b":[1,{"c":2}]}\n,\r\n{"x":"\\\\"} , {}\n]\n'
ITEMS = [b'{"a":"]}\\"[{\\\\","b":[1,{"c":2}]}', b'{"x":"\\\\"}', b"{}"]


@pytest.mark.parametrize("size", range(1, len(ARRAY) + 1))
def test_every_cut_gives_the_same_objects(size):
    cutter = ArrayCutter()
    events = [event for at in range(0, len(ARRAY), size) for event in cutter.feed(ARRAY[at : at + size])]
    assert [event.data for event in events] == ITEMS
    assert b"".join(event.raw for event in events) + cutter.closing == ARRAY
    assert all(event.complete and event.has_data and event.name == "" for event in events)
    assert cutter.close() == []


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.integers(), max_size=3)), st.data())
def test_any_objects_cut_anywhere(values, data):
    whole = json.dumps(values).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    cutter = ArrayCutter()
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    events = [event for piece in pieces for event in cutter.feed(piece)]
    assert [json.loads(event.data) for event in events] == values
    assert b"".join(event.raw for event in events) + cutter.closing == whole


def test_an_object_that_was_cut_is_not_whole():
    cutter = ArrayCutter()
    assert [event.data for event in cutter.feed(b'[{"a":1},{"b":')] == [b'{"a":1}']
    (rest,) = cutter.close()
    assert (rest.complete, rest.data) == (False, b'{"b":')


@pytest.mark.parametrize("end", [b"", b"  \n"])
def test_an_array_cut_between_objects_leaves_nothing(end):
    cutter = ArrayCutter()
    cutter.feed(b'[{"a":1}' + end)
    assert (cutter.close(), cutter.closing) == ([], b"")


def test_what_follows_the_array_belongs_to_its_end():
    cutter = ArrayCutter()
    cutter.feed(b"[{}]")
    assert cutter.feed(b"\n\n") == []
    assert cutter.closing == b"]\n\n"


def test_an_object_may_not_grow_for_ever():
    cutter = ArrayCutter(limit=100)
    with pytest.raises(EventTooLongError):
        cutter.feed(b'[{"a":"' + b"x" * 100)


def test_plain_bytes():
    cutter = BytesCutter()
    assert [event.raw for event in cutter.feed(b"\x00\n\n")] == [b"\x00\n\n"]
    assert cutter.close() == []


class TestWriter:
    def test_events_become_an_array(self):
        writer = ArrayWriter()
        parts = [writer.feed(b'data: {"a":1}\n\ndata: {"b":2}\n\n'), writer.feed(b'data: {"c":3}\n\n'), writer.close()]
        assert parts == [b'[{"a":1},\r\n{"b":2}', b',\r\n{"c":3}', b"]"]

    def test_an_array_passes(self):
        writer = ArrayWriter()
        assert [writer.feed(b'[{"a":1}'), writer.feed(b"\n]\n"), writer.close()] == [b'[{"a":1}', b"\n]\n", b""]

    def test_an_error_behind_an_array(self):
        writer = ArrayWriter()
        parts = [writer.feed(b'[{"a":1}'), writer.feed(b'data: {"error":{}}\n\n'), writer.close()]
        assert json.loads(b"".join(parts)) == [{"a": 1}, {"error": {}}]

    def test_what_has_no_data_is_no_item(self):
        writer = ArrayWriter()
        assert writer.feed(b'data: {"a":1}\n\n\n\n: comment\n\n') + writer.close() == b'[{"a":1}]'

    def test_nothing_is_an_empty_array(self):
        assert ArrayWriter().close() == b"[]"
