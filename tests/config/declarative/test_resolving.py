"""Names are asked for once, at save; what leads inside is refused, what leads nowhere is a warning."""

import socket
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from config.declarative.inspection import Inspection
from config.declarative.resolving import judge_hosts, system_lookup
from config.private_upstreams import parse

Answers = Mapping[str, tuple[str, ...] | None]


def judged(
    urls: Mapping[str, str], answers: Answers, *, stored: bool = False
) -> tuple[list[str], list[str], list[str]]:
    """Return errors, warnings, and the names that were asked for."""
    inspection = Inspection()
    for path, host in urls.items():
        inspection.hosts.setdefault(host, []).append(inspection.at(path))
    asked: list[str] = []

    def resolve(hosts: Iterable[str]) -> Answers:
        asked.extend(hosts)
        return answers

    judge_hosts(inspection, resolve, stored=stored)
    return inspection.errors, inspection.warnings, asked


HINT = "; POINTSMAN_ALLOW_PRIVATE_UPSTREAMS can allow it"


def test_a_name_that_leads_inside_is_refused_wherever_it_stands() -> None:
    errors, warnings, asked = judged(
        {"a.base_url": "x.example", "b.base_url": "x.example", "c": "y.example"},
        {"x.example": ("8.8.8.8", "10.0.0.1"), "y.example": ("8.8.4.4",)},
    )
    assert errors == [
        f"a.base_url: x.example (10.0.0.1) is a private address{HINT}",
        f"b.base_url: x.example (10.0.0.1) is a private address{HINT}",
    ]
    assert (warnings, asked) == ([], ["x.example", "y.example"])


def test_a_name_that_does_not_resolve_is_a_warning() -> None:
    assert judged({"a": "x.example"}, {"x.example": None})[:2] == ([], ["a: x.example does not resolve at present"])


def test_an_inner_spelling_is_refused_without_asking() -> None:
    assert judged({"a": "localhost"}, {}) == (
        [f"a: localhost is a name inside a machine or a private network{HINT}"],
        [],
        [],
    )


def test_what_is_allowed_passes(settings: Any) -> None:
    settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS = parse("127.0.0.1,10.0.0.0/8")
    urls = {"a": "127.0.0.1", "b": "x.example", "c": "192.168.0.1"}
    errors, warnings, _asked = judged(urls, {"x.example": ("10.9.9.9",)})
    assert (errors, warnings) == ([f"c: 192.168.0.1 is a private address{HINT}"], [])


def test_a_stored_address_only_earns_a_warning() -> None:
    assert judged({"a": "127.0.0.1"}, {}, stored=True)[:2] == (
        [],
        ["a: 127.0.0.1 is a loopback address: calls are refused unless POINTSMAN_ALLOW_PRIVATE_UPSTREAMS allows it"],
    )


def test_the_system_is_asked_for_all_names_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(host: str, _port: None, **_: Any) -> list[Any]:
        if host == "gone.example":
            raise socket.gaierror
        if host == "odd..example":
            raise UnicodeError
        return [(0, 0, 0, "", ("8.8.8.8", 0)), (0, 0, 0, "", ("8.8.8.8", 0)), (0, 0, 0, "", ("2001:4860::1", 0))]

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)
    assert system_lookup(["a.example", "gone.example", "odd..example"]) == {
        "a.example": ("8.8.8.8", "2001:4860::1"),
        "gone.example": None,
        "odd..example": None,
    }


def test_a_silent_name_server_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr("config.declarative.resolving.WAIT_S", 0.1)
    monkeypatch.setattr("socket.getaddrinfo", lambda *_args, **_kwargs: release.wait(10) and [])
    assert system_lookup(["slow.example"]) == {"slow.example": None}
    release.set()
