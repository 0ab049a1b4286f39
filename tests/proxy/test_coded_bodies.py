"""Compressed requests: decoded, within the same 32 MiB, and sent on plain."""

import gzip
import zlib

import brotli
import pytest
from backports import zstd

from tests.gateway import chat, encoded

PLAIN = encoded(chat(metadata={"note": "ä" * 2000}))
CODED = {
    "gzip": gzip.compress(PLAIN),
    "x-gzip": gzip.compress(PLAIN[:100]) + gzip.compress(PLAIN[100:]),
    "deflate": zlib.compress(PLAIN),
    "br": brotli.compress(PLAIN),
    "zstd": zstd.compress(PLAIN),
    "gzip, br": brotli.compress(gzip.compress(PLAIN)),
    "identity": PLAIN,
    "GZIP": gzip.compress(PLAIN),
}


@pytest.mark.parametrize("coding", CODED)
def test_the_upstream_gets_it_plain(gateway, up, coding):
    got = gateway.post(gateway.serving(up, "k-1"), CODED[coding], headers={"content-encoding": coding})
    assert (got.status_code, up.last.body) == (200, PLAIN)
    assert up.last.header("content-encoding") is None
    assert up.last.header("content-length") == str(len(PLAIN))


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "compress", "gzip, gzip, gzip"])
def test_what_cannot_be_decoded_is_the_clients_fault(gateway, up, coding):
    got = gateway.post(gateway.serving(up, "k-1"), b"this is not compressed", headers={"content-encoding": coding})
    assert (got.status_code, got.json()["error"]["code"]) == (400, "malformed_body")
    assert up.requests == []


@pytest.mark.parametrize(
    ("coding", "bomb"),
    [
        ("gzip", gzip.compress(b"a" * (33 << 20))),
        ("br", brotli.compress(b"a" * (33 << 20), quality=1)),
        ("zstd", zstd.compress(b"a" * (33 << 20))),
    ],
)
def test_a_bomb_is_too_large(gateway, up, coding, bomb):
    assert len(bomb) < 100_000
    got = gateway.post(gateway.serving(up, "k-1"), bomb, headers={"content-encoding": coding})
    assert (got.status_code, got.json()["error"]["code"]) == (413, "body_too_large")
    assert up.requests == []
