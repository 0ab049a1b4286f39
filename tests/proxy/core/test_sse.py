"""Framing: no byte is changed, and the cut does not depend on how the network split the stream."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.sse import Event, EventTooLongError, Framer

STREAMS = {
    "lf": b'data: {"a":1}\n\ndata: [DONE]\n\n',
    "crlf": b"event: x\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n",
    "cr": b"data: 1\r\rdata: 2\r\r",
    "mixed": b": note\n\ndata: 1\r\n\r\n: keep-alive\n\ndata:2\n\r\ndata: 3\r\n\ndata: 4\r\n\r",
    "bom": b"\xef\xbb\xbfdata: 1\n\n",
    "comments": b": OPENROUTER PROCESSING\n\n: keep-alive\n\n",
    "blank lines": b"\n\n\ndata: 1\n\n\n\ndata: 2\n\n",
    "multi-line data": b"event: m\ndata: a\ndata:\ndata: b\n\n",
    "characters": "data: 你好 🙂\n\ndata: é\n\n".encode(),
    "trailing event": b"data: 1\n\ndata: 2",
    "trailing line": b"data: 1\n\ndata: 2\n",
    "nothing": b"",
}


def framed(*chunks: bytes) -> list[Event]:
    framer = Framer()
    events = [event for chunk in chunks for event in framer.feed(chunk)]
    return events + framer.close()


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())
def test_the_cut_does_not_depend_on_the_reads(stream: bytes) -> None:
    whole = framed(stream)
    assert b"".join(event.raw for event in whole) == stream
    assert framed(*(stream[i : i + 1] for i in range(len(stream)))) == whole
    for at in range(len(stream) + 1):
        assert framed(stream[:at], stream[at:]) == whole


@given(
    lines=st.lists(st.sampled_from([b"data: x", b"data:y", b": c", b"event: e", b"\r", b"\n", b"\r\n", b"\n\n"])),
    size=st.integers(1, 7),
)
def test_any_mix_of_line_ends_is_kept_and_cut_alike(lines: list[bytes], size: int) -> None:
    stream = b"".join(lines)
    whole = framed(stream)
    assert b"".join(event.raw for event in whole) == stream
    assert framed(*(stream[i : i + size] for i in range(0, len(stream), size))) == whole


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        ("lf", [("", b'{"a":1}'), ("", b"[DONE]")]),
        ("crlf", [("x", b"1"), ("", b"2")]),
        ("cr", [("", b"1"), ("", b"2")]),
        ("mixed", [("", b""), ("", b"1"), ("", b""), ("", b"2"), ("", b"3"), ("", b"4")]),
        ("bom", [("", b"1")]),
        ("comments", [("", b""), ("", b"")]),
        ("blank lines", [("", b"")] * 3 + [("", b"1")] + [("", b"")] * 2 + [("", b"2")]),
        ("multi-line data", [("m", b"a\n\nb")]),
        ("characters", [("", "你好 🙂".encode()), ("", "é".encode())]),
        ("trailing event", [("", b"1"), ("", b"2")]),
    ],
)
def test_name_and_data(stream: str, expected: list[tuple[str, bytes]]) -> None:
    assert [(event.name, event.data) for event in framed(STREAMS[stream])] == expected


def test_events_come_out_as_soon_as_they_are_complete() -> None:
    framer = Framer()
    assert framer.feed(b"data: 1\n") == []
    assert framer.held == 8
    assert framer.feed(b"\ndata: 2\n\nda") == [Event(b"data: 1\n\n"), Event(b"data: 2\n\n")]
    assert framer.held == 2


def test_a_lone_cr_at_the_end_of_a_read_waits_for_its_lf() -> None:
    framer = Framer()
    assert framer.feed(b"data: 1\r\n\r") == []
    assert framer.feed(b"\n") == [Event(b"data: 1\r\n\r\n")]
    assert framer.feed(b"data: 2\r\r") == []
    assert framer.close() == [Event(b"data: 2\r\r")]
    assert framer.close() == []


@pytest.mark.parametrize(
    ("raw", "terminated"),
    [
        (b"data: 1", b"data: 1\n\n"),
        (b"data: 1\n", b"data: 1\n\n"),
        (b"data: 1\r\n", b"data: 1\r\n\n"),
    ],
)
def test_a_trailing_event_is_flagged_and_can_be_completed(raw: bytes, terminated: bytes) -> None:
    (event,) = framed(raw)
    assert not event.complete
    assert (event.raw, event.terminated(), event.data) == (raw, terminated, b"1")
    assert Event(terminated).terminated() == terminated


def test_fields() -> None:
    event = Event(b'error: {"code":500}\nid: 7\nretry\n: no field\n\n')
    assert event.fields == ((b"error", b'{"code":500}'), (b"id", b"7"), (b"retry", b""))
    assert (event.value(b"id"), event.value(b"event"), event.has_data) == (b"7", None, False)
    assert Event(b"event: ping\ndata:\n\n").has_data
    assert Event(b"data: a\rdata:  b\r\r").data == b"a\n b"
    assert Event(b"a\n\n") != b"a\n\n"
    assert len({Event(b"a\n\n"), Event(b"a\n\n"), Event(b"a\n\n", complete=False)}) == 2
    assert repr(Event(b"a\n\n")) == r"Event(b'a\n\n', complete=True)"


def test_an_endless_event_is_refused() -> None:
    framer = Framer(limit=10)
    assert framer.feed(b"data: 1234\n\ndata: 1234") == [Event(b"data: 1234\n\n")]
    with pytest.raises(EventTooLongError, match="longer than 10 bytes"):
        framer.feed(b"5")
    with pytest.raises(EventTooLongError):
        Framer(limit=3).feed(b"data")


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
def test_a_long_event_in_small_reads_takes_linear_time(end: bytes) -> None:
    def seconds(size: int) -> float:
        framer, piece, begin = Framer(), b"x" * 16, time.process_time()
        for _ in range(size // 16):
            framer.feed(piece)
        assert len(framer.feed(end + b"x")) == 1
        return time.process_time() - begin

    seconds(200_000)
    # Quadratic time would be a factor of 256; scheduling noise is not.
    assert seconds(3_200_000) < 60 * max(seconds(200_000), 0.002)
