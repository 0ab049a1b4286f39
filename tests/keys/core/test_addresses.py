"""Every spelling of an inner address is refused; base addresses are completed as the contract says."""

import pytest

from config.private_upstreams import parse
from keys.core.addresses import (
    NOTHING_ALLOWED,
    base_url_problem,
    complete_base_url,
    host_of,
    refusal,
    url_problem,
)
from keys.core.dialect import Dialect

INNER = [
    "127.0.0.1",
    "127.1",
    "127.0.0.1.",
    "0",
    "0.0.0.0",  # noqa: S104  # an address to refuse, nothing binds it
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "１２７.０.０.１",
    "127。0。0。1",
    "[::1]",
    "::1",
    "::",
    "::ffff:127.0.0.1",
    "[::ffff:7f00:1]",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::a00:1",
    "2002:7f00:1::",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.1",
    "169.254.169.254",
    "0xa9fea9fe",
    "2852039166",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "fec0::1",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "198.18.0.1",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "240.0.0.1",
    "localhost",
    "LOCALHOST.",
    "ⓛocalhost",
    "api.localhost",
    "localhost.localdomain",
    "ip6-localhost",
    "printer.local",
    "metadata.google.internal",
    "api.internal",
    "router.home.arpa",
]
OUTER = [
    "api.openai.com",
    "8.8.8.8",
    "134744072",
    "2606:4700::1111",
    "internal.example.com",
    "localhost.example.com",
    "172.32.0.1",
    "100.128.0.1",
    "11.0.0.1",
    "999.1.1.1.example",
    "::ffff:8.8.8.8",
]


@pytest.mark.parametrize("host", INNER)
def test_an_inner_host_is_refused(host: str) -> None:
    assert refusal(host, NOTHING_ALLOWED) is not None


@pytest.mark.parametrize("host", OUTER)
def test_a_public_host_is_not_refused(host: str) -> None:
    assert refusal(host, NOTHING_ALLOWED) is None


@pytest.mark.parametrize("host", INNER)
def test_everything_may_be_called_when_all_is_allowed(host: str) -> None:
    assert refusal(host, parse("on")) is None


def test_the_text_says_what_the_address_is() -> None:
    assert refusal("2130706433", NOTHING_ALLOWED) == "2130706433 (127.0.0.1) is a loopback address"
    assert refusal("169.254.169.254", NOTHING_ALLOWED) == "169.254.169.254 is a link-local or metadata address"
    assert refusal("224.0.0.1", NOTHING_ALLOWED) == "224.0.0.1 is a multicast address"
    assert refusal("10.0.0.1", NOTHING_ALLOWED) == "10.0.0.1 is a private address"
    assert refusal("0", NOTHING_ALLOWED) == "0 (0.0.0.0) is an unspecified address"
    assert refusal("168.63.129.16", NOTHING_ALLOWED) == "168.63.129.16 is an inner address"
    assert refusal("a.internal", NOTHING_ALLOWED) == "a.internal is a name inside a machine or a private network"
    assert refusal("", NOTHING_ALLOWED) == "has no host"


@pytest.mark.parametrize(
    ("host", "address", "allowed", "refused"),
    [
        ("api.example.com", "8.8.8.8", "off", False),
        ("api.example.com", "10.0.0.1", "off", True),
        ("api.example.com", "::ffff:10.0.0.1", "off", True),
        ("api.example.com", "10.0.0.1", "10.0.0.0/8", False),
        ("api.example.com", "::ffff:10.0.0.1", "10.0.0.0/8", False),
        ("api.example.com", "10.0.0.1", "api.example.com", False),
        ("api.example.com", "10.0.0.1", "other.example.com", True),
        ("api.example.com", "192.168.0.1", "10.0.0.0/8", True),
        ("localhost", None, "127.0.0.1", False),
        ("localhost", None, "10.0.0.0/8", True),
        ("localhost", "127.0.0.1", "127.0.0.1", False),
        ("llm.internal", None, "llm.internal", False),
        ("llm.internal", None, "10.0.0.0/8", True),
        ("llm.internal", "10.0.0.9", "10.0.0.0/8", False),
        ("llm.internal", "8.8.8.8", "off", True),
        ("127.1", None, "127.0.0.1", False),
        ("2130706433", None, "127.0.0.0/8", False),
        ("127.0.0.2", None, "127.0.0.1", True),
    ],
)
def test_only_what_is_allowed_passes(host: str, address: str | None, allowed: str, refused: bool) -> None:
    assert (refusal(host, parse(allowed), address) is not None) is refused


@pytest.mark.parametrize(
    ("dialect", "url", "expected"),
    [
        (Dialect.OPENAI, "https://a.example", "https://a.example/v1"),
        (Dialect.OPENAI, "https://a.example/", "https://a.example/v1"),
        (Dialect.OPENAI, "https://a.example/v1", "https://a.example/v1"),
        (Dialect.OPENAI, "https://a.example/v1/", "https://a.example/v1"),
        (Dialect.OPENAI, "https://a.example/api/paas/v4", "https://a.example/api/paas/v4"),
        (Dialect.OPENAI, "https://a.example/V1", "https://a.example/V1"),
        (Dialect.OPENAI, "https://v1.example", "https://v1.example/v1"),
        (Dialect.OPENAI, "https://a.example/v1/openai", "https://a.example/v1/openai/v1"),
        (Dialect.OPENAI, "https://a.example/video", "https://a.example/video/v1"),
        (Dialect.OPENAI, "https://a.example/openai#", "https://a.example/openai"),
        (Dialect.OPENAI, "https://a.example/#", "https://a.example"),
        (Dialect.OPENAI, "http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
        (Dialect.RESPONSES, "https://a.example", "https://a.example/v1"),
        (Dialect.ANTHROPIC, "https://a.example/anthropic", "https://a.example/anthropic/v1"),
        (Dialect.GEMINI, "https://g.example", "https://g.example/v1beta"),
        (Dialect.GEMINI, "https://g.example/v1", "https://g.example/v1"),
        (Dialect.GEMINI, "https://g.example/v1alpha", "https://g.example/v1alpha"),
        (Dialect.GEMINI, "https://g.example/v1beta1", "https://g.example/v1beta1"),
    ],
)
def test_complete_base_url(dialect: Dialect, url: str, expected: str) -> None:
    assert complete_base_url(dialect, url) == expected


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://a.example/v1", None),
        ("https://a.example/v1#", None),
        ("HTTP://a.example:8080", None),
        ("http://[::1]:8080/v1", None),
        ("ftp://a.example", "must begin with http:// or https://"),
        ("file:///etc/passwd", "must begin with http:// or https://"),
        ("a.example/v1", "must begin with http:// or https://"),
        ("https:///v1", "has no host"),
        ("https://u:secret@a.example", "must not contain a user name or password"),
        ("https://a.example\\@b.example", "contains a backslash"),
        ("https://a.example/v 1", "contains a space or control character"),
        ("https://a.example/\x00", "contains a space or control character"),
        ("https://a.example:port/", "is not an address; write one like https://api.example.com/v1"),
        ("https://[::1/v1", "is not an address; write one like https://api.example.com/v1"),
        ("https://a.example/v1?key=x", "must not contain ? or # (except a single # at its end)"),
        ("https://a.example/v1##", "must not contain ? or # (except a single # at its end)"),
    ],
)
def test_base_url_problem(url: str, problem: str | None) -> None:
    assert base_url_problem(url) == problem


def test_other_addresses_may_have_a_query() -> None:
    assert url_problem("https://hooks.example.com/x?token=1") is None


def test_host_of() -> None:
    assert host_of("https://API.example.com:444/v1") == "api.example.com"
    assert host_of("http://[::1]:8080/") == "::1"
    assert host_of("https://[::1/v1") == ""
