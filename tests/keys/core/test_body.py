"""A body is what its bytes are, whatever its content-type says."""

import pytest

from keys.core.body import Kind, content_of, embedded, title_of


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", Kind.EMPTY),
        (b" \n\t", Kind.EMPTY),
        (b"\xef\xbb\xbf", Kind.EMPTY),
        (b"{}", Kind.JSON),
        (b"null", Kind.JSON),
        (b'"x"', Kind.JSON),
        (b"<!DOCTYPE html><p>", Kind.HTML),
        (b"<HTML>", Kind.HTML),
        (b"data: {}\n\n", Kind.EVENTS),
        (b": ping\n\n", Kind.EVENTS),
        (b"oops", Kind.TEXT),
        (b'{"a":', Kind.TEXT),
        (b"\xff\xfe\xfd", Kind.TEXT),
        (b"[" * 60000, Kind.TEXT),
    ],
)
def test_a_body_is_known_by_its_bytes(body: bytes, kind: Kind) -> None:
    assert content_of(body).kind is kind


def test_events_are_read_over_all_line_ends_and_bounds() -> None:
    body = 'event: x\r\ndata: {"a":"\u2028"}\r\rdata:{"b":\ndata: 1}\n\ndata: broken\n\nerror: {"c":2}'.encode()
    assert content_of(body).documents == ({"a": "\u2028"}, {"b": 1}, {"c": 2})
    assert len(content_of(b"data: 1\n\n" * 5000).documents) == 400


def test_titles() -> None:
    assert title_of("<TITLE lang=x> a\n b </TITLE>") == "a b"
    assert title_of("<title>open") == title_of("<title") == title_of("none") == ""


def test_json_within_a_text() -> None:
    assert embedded('got {"a": 1} today', 4) == {"a": 1}
    assert embedded("got {broken", 4) is None
    assert embedded("[" * 60000, 0) is None
