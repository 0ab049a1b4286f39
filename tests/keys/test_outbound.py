"""The guarded client: what it connects to, what it refuses, and that nothing keeps it waiting or fills its memory."""

import gzip
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from config import private_upstreams
from keys import outbound
from keys.outbound import NEVER_SENT, Fetched, fetch
from tests.fake_upstream import FakeUpstream, closed_port

NAME = "hooks.example.com"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"

Serve = Callable[[socket.socket], None]


@contextmanager
def server(serve: Serve) -> Iterator["Server"]:
    """Answer each connection with `serve`, in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = Server(listening)
        thread = threading.Thread(target=running.run, args=(serve,), daemon=True)
        thread.start()
        yield running
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(5)


class Server:
    def __init__(self, listening: socket.socket) -> None:
        self.listening = listening
        self.port: int = listening.getsockname()[1]
        self.heads: list[bytes] = []

    def run(self, serve: Serve) -> None:
        while True:
            try:
                connection, _peer = self.listening.accept()
            except OSError:
                return
            with connection:
                self.heads.append(connection.recv(65536))
                try:
                    serve(connection)
                except OSError:  # the client had enough
                    continue


def saying(answer: bytes) -> Serve:
    return lambda connection: connection.sendall(answer)


@pytest.fixture
def allowed(settings):
    settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS = private_upstreams.parse(f"127.0.0.1,{NAME}")


@pytest.fixture
def resolver(monkeypatch):
    """Answer for example.com from a list, one answer a look-up; returns the names that were looked up."""
    real, asked = socket.getaddrinfo, []

    def begin(*answers: tuple[str, ...]) -> list[str]:
        left = list(answers)

        def getaddrinfo(host, *args, **options):
            if not str(host).endswith("example.com"):
                return real(host, *args, **options)
            asked.append(host)
            found = left.pop(0) if len(left) > 1 else left[0]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in found]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return asked

    return begin


def got(running: Server, path: str = "/", host: str = "127.0.0.1", **options) -> Fetched:
    return fetch("GET", f"http://{host}:{running.port}{path}", {}, **options)


class TestWhere:
    def test_a_name_is_looked_up_once_and_the_judged_address_is_called(self, allowed, resolver):
        asked = resolver(("127.0.0.1",), ("10.0.0.5",))
        with server(saying(OK)) as running:
            answer = got(running, "/a?b=c", NAME)
        assert (answer.status, answer.body, answer.ok, asked) == (200, b"hi", True, [NAME])
        (head,) = running.heads
        assert head.startswith(b"GET /a?b=c HTTP/1.1\r\n")
        assert f"host: {NAME}:{running.port}\r\n".encode() in head.lower()

    def test_a_name_that_came_to_lead_inside_is_not_called(self, resolver):
        """It was fine when it was saved: report 52."""
        resolver(("93.184.216.34",), ("127.0.0.1",))
        assert outbound.judge_host(NAME).problem == ""
        with server(saying(OK)) as running:
            answer = got(running, host=NAME)
        assert (answer.status, answer.fault, running.heads) == (None, "blocked_address", [])
        assert "127.0.0.1" in answer.why

    @pytest.mark.parametrize("inner", ["127.0.0.1", "10.0.0.5", "169.254.169.254", "::ffff:127.0.0.1", "::1"])
    def test_one_inner_address_among_several_refuses_all(self, resolver, inner):
        resolver(("93.184.216.34", inner))
        assert fetch("GET", f"http://{NAME}/", {}).fault == "blocked_address"

    @pytest.mark.parametrize(
        "url",
        [
            "http://127.0.0.1:1/", "http://2130706433/", "http://0x7f.1/", "http://[::ffff:169.254.169.254]/",
            "http://localhost/", "file:///etc/passwd", "ftp://example.com/", "http://user:pw@example.com/", "nonsense",
            "http://example.com:99999/",
        ],
    )  # fmt: skip
    def test_inner_and_odd_addresses(self, url):
        answer = fetch("GET", url, {"authorization": "Bearer k-secret"})
        assert (answer.status, answer.fault) == (None, "blocked_address")
        assert "k-secret" not in answer.why
        assert "pw" not in answer.why

    @pytest.mark.parametrize("status", [301, 302, 307, 308])
    def test_redirects_are_not_followed(self, allowed, status):
        there = b"location: http://169.254.169.254/latest/meta-data/\r\ncontent-length: 0\r\n\r\n"
        with server(saying(b"HTTP/1.1 %d Moved\r\n" % status + there)) as running:
            answer = got(running)
        assert (answer.status, answer.ok, answer.fault, len(running.heads)) == (status, False, "", 1)

    def test_proxies_of_the_environment_are_not_used(self, allowed, monkeypatch):
        with server(saying(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nproxy")) as proxy:
            for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
            with server(saying(OK)) as running:
                answer = got(running)
        assert (answer.body, proxy.heads, len(running.heads)) == (b"hi", [], 1)

    def test_the_second_address_of_a_name_is_tried_when_the_first_does_not_answer(self, allowed, resolver):
        resolver(("::1", "127.0.0.1"))
        with server(saying(OK)) as running:
            assert got(running, host=NAME).body == b"hi"

    def test_a_name_without_an_address(self, resolver, monkeypatch):
        resolver(())
        answer = fetch("GET", f"http://{NAME}/", {})
        assert (answer.fault, answer.why) == ("dns", "the name does not resolve")


class TestBounds:
    @pytest.mark.parametrize(
        "head",
        [b"content-length: 5000000\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n", b"connection: close\r\n\r\n"],
    )
    def test_a_huge_body(self, allowed, head):
        def serve(connection: socket.socket) -> None:
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + head)
            for _ in range(5000):
                connection.sendall(b"3e8\r\n" + b"x" * 1000 + b"\r\n" if b"chunked" in head else b"x" * 1000)

        with server(serve) as running:
            answer = got(running, body_max=100_000)
        assert (answer.status, answer.fault, len(answer.body), answer.ok) == (200, "too_large", 100_000, False)

    def test_a_body_of_just_that_size(self, allowed):
        with server(saying(OK)) as running:
            assert got(running, body_max=2).ok
            assert got(running, body_max=1).fault == "too_large"

    @pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
    def test_a_coded_body_is_decoded_no_further_than_allowed(self, allowed, coding, pack):
        packed = pack(b"x" * 10_000_000)
        head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {coding}\r\ncontent-length: {len(packed)}\r\n\r\n".encode()
        with server(saying(head + packed)) as running:
            small, whole = got(running, body_max=1000), got(running, body_max=10_000_000)
        assert (small.fault, small.body) == ("too_large", b"x" * 1000)
        assert (whole.fault, len(whole.body)) == ("", 10_000_000)
        assert b"accept-encoding: identity" in running.heads[0].lower()

    @pytest.mark.parametrize("coding", ["br", "gzip"])
    def test_a_coding_that_cannot_be_read(self, allowed, coding):
        with server(saying(OK.replace(b"OK\r\n", b"OK\r\ncontent-encoding: " + coding.encode() + b"\r\n"))) as running:
            answer = got(running)
        assert (answer.status, answer.fault) == (200, "malformed")

    @pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n"])
    def test_a_trickle_does_not_outlast_the_time(self, allowed, first):
        def serve(connection: socket.socket) -> None:
            connection.sendall(first)
            while True:
                connection.sendall(b"x")
                time.sleep(0.05)

        began = time.monotonic()
        with server(serve) as running:
            answer = got(running, timeout_s=0.4)
        assert answer.fault == "silence"
        assert time.monotonic() - began < 3

    def test_a_name_server_that_does_not_answer(self, monkeypatch):
        release = threading.Event()
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_options: release.wait(10) and [])
        began = time.monotonic()
        answer = fetch("GET", f"http://{NAME}/", {}, timeout_s=0.2)
        release.set()
        assert (answer.fault, time.monotonic() - began < 3) == ("dns", True)


class TestFaults:
    @pytest.mark.parametrize(
        ("answer", "fault", "status"),
        [
            (b"", "closed", None),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi", "closed", 200),
            (b"nonsense\r\n\r\n", "malformed", None),
            (b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "malformed", None),
        ],
    )
    def test_answers_that_are_none(self, allowed, answer, fault, status):
        with server(saying(answer)) as running:
            fetched = got(running)
        assert (fetched.fault, fetched.status, fetched.ok) == (fault, status, False)
        assert fault not in NEVER_SENT

    def test_nobody_listens(self, allowed):
        with closed_port() as url:
            answer = fetch("POST", url, {}, b"{}")
        assert (answer.fault, answer.why) == ("refused", "the connection was refused")

    def test_a_certificate_is_asked_for(self, allowed):
        with server(saying(b"this is no TLS\r\n" * 10)) as running:
            assert fetch("GET", f"https://127.0.0.1:{running.port}/", {}).fault == "tls"

    def test_headers_outside_ascii_do_not_break_it(self, allowed):
        with server(saying(OK)) as running:
            assert fetch("GET", f"http://127.0.0.1:{running.port}/", {"x-name": "团队"}).ok
        assert "x-name: 团队".encode() in running.heads[0]

    @pytest.mark.parametrize("headers", [{"bad name": "x"}, {"x": "a\r\nb: c"}, {"x": "a\0"}])
    def test_headers_that_cannot_be_sent(self, allowed, headers):
        with server(saying(OK)) as running:
            assert fetch("GET", f"http://127.0.0.1:{running.port}/", headers).fault == "malformed"
        assert running.heads in ([], [b""])


class TestTls:
    @pytest.fixture
    def secure(self, monkeypatch, tmp_path):
        """A server with a certificate for `good.example.com`, which is trusted here."""
        key, certificate = made_for("good.example.com")
        (tmp_path / "both.pem").write_bytes(key + certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "both.pem")
        monkeypatch.setattr(outbound, "_certificates", lambda: ssl.create_default_context(cadata=certificate.decode()))
        with FakeUpstream(tls=context) as up:
            yield up

    @pytest.fixture(autouse=True)
    def names(self, settings, resolver):
        settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS = private_upstreams.parse("127.0.0.1")
        resolver(("127.0.0.1",))

    def test_the_certificate_must_be_the_names_not_the_addresss(self, secure):
        secure.models = ("m",)
        url = f"https://good.example.com:{secure.port}/v1/models"
        assert fetch("GET", url, {"authorization": "Bearer k"}).ok
        assert secure.requests[0].header("host") == f"good.example.com:{secure.port}"

    def test_another_name_is_refused(self, secure):
        answer = fetch("GET", f"https://bad.example.com:{secure.port}/v1/models", {"authorization": "Bearer k"})
        assert (answer.fault, secure.requests) == ("tls", [])


def made_for(name: str) -> tuple[bytes, bytes]:
    """Make a key and a certificate that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject).issuer_name(subject).public_key(key.public_key()).serial_number(1)
        .not_valid_before(datetime.now(UTC) - timedelta(days=1)).not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    return pem, made.public_bytes(serialization.Encoding.PEM)
