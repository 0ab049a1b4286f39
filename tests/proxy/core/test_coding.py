"""Coded bodies: decoded within bounds, or refused with the reason."""

import gzip
import zlib

import brotli
import pytest
from backports import zstd

from proxy.core.coding import TooLargeError, UndecodableError, codings_of, decoded

PLAIN = bytes(range(256)) * 400
RAW = zlib.compressobj(wbits=-15)
CODED = [
    ("gzip", gzip.compress(PLAIN)),
    ("gzip", gzip.compress(PLAIN[:9]) + gzip.compress(PLAIN[9:])),
    ("deflate", zlib.compress(PLAIN)),
    ("deflate", RAW.compress(PLAIN) + RAW.flush()),
    ("br", brotli.compress(PLAIN)),
    ("zstd", zstd.compress(PLAIN)),
    ("zstd", zstd.compress(PLAIN[:9]) + zstd.compress(PLAIN[9:])),
]


@pytest.mark.parametrize(("coding", "body"), CODED)
class TestEach:
    def test_it_is_decoded_up_to_the_limit(self, coding, body):
        assert decoded(body, [coding], len(PLAIN)) == PLAIN

    def test_one_byte_more_is_too_large(self, coding, body):
        with pytest.raises(TooLargeError):
            decoded(body, [coding], len(PLAIN) - 1)

    def test_an_end_that_is_missing(self, coding, body):
        with pytest.raises(UndecodableError):
            decoded(body[:-5], [coding], len(PLAIN))

    def test_junk(self, coding, body):
        with pytest.raises(UndecodableError):
            decoded(b"\xff\xfe junk " + body, [coding], len(PLAIN))


@pytest.mark.parametrize("limit", [2_000_000, 1_500_000])
def test_brotli_in_several_steps(limit):
    plain = bytes(range(256)) * 7000
    body = brotli.compress(plain, quality=1)
    if limit > len(plain):
        assert decoded(body, ["br"], limit) == plain
    else:
        with pytest.raises(TooLargeError):
            decoded(body, ["br"], limit)


def test_several_codings_are_undone_last_first():
    assert decoded(brotli.compress(gzip.compress(b"x")), ["gzip", "br"], 99) == b"x"


@pytest.mark.parametrize("body", [b"", b"x"])
def test_no_coding(body):
    assert decoded(body, [], 99) == body


def test_an_empty_body_has_nothing_to_decode():
    assert decoded(b"", ["gzip"], 99) == b""


@pytest.mark.parametrize("codings", [["compress"], ["gzip", "gzip", "gzip"]])
def test_what_is_not_offered(codings):
    with pytest.raises(UndecodableError, match=r"content-encoding"):
        decoded(b"x", codings, 99)


@pytest.mark.parametrize(
    ("header", "expected"),
    [("", []), ("identity", []), (" GZIP , br", ["gzip", "br"]), ("x-gzip", ["gzip"]), ("gzip,,identity", ["gzip"])],
)
def test_the_header(header, expected):
    assert codings_of(header) == expected
