"""Webhook calls: inner addresses refused also behind a name, redirects not followed, answers told apart."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from config import private_upstreams
from keys.webhooks import post
from tenants.delivery import Sent


class Receiver(HTTPServer):
    """Answers with `status`; keeps what it got."""

    status, got = 200, None


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got = (self.path, dict(self.headers), body)
        if self.server.status == 0:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(self.server.status)
        self.send_header("location", "http://example.com/")
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def receiver():
    server = Receiver(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def allowed(settings):
    settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS = private_upstreams.parse("127.0.0.1")


def test_the_body_and_headers_arrive_as_they_are(receiver, allowed):
    url = f"http://127.0.0.1:{receiver.server_port}/hook?team=a"
    assert post(url, {"x-pointsman-signature": "s"}, b'{"a": 1}').ok
    path, headers, body = receiver.got
    assert (path, body) == ("/hook?team=a", b'{"a": 1}')
    lowered = {name.lower(): value for name, value in headers.items()}
    assert (lowered["host"], lowered["x-pointsman-signature"]) == (f"127.0.0.1:{receiver.server_port}", "s")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/", "http://2130706433/", "http://[::ffff:169.254.169.254]/", "http://localhost/"]
)
def test_inner_addresses_are_not_called(url):
    answered = post(url, {}, b"")
    assert (answered.ok, answered.refused, answered.hopeless) == (False, True, True)


def test_a_public_name_that_leads_inside_is_not_called(monkeypatch):
    inside = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.5", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_options: inside)
    answered = post("https://hooks.example.com/", {}, b"")
    assert answered.hopeless
    assert "10.0.0.5" in answered.error


@pytest.mark.parametrize("status", [301, 307, 400, 404, 410, 500, 503])
def test_anything_but_2xx_is_a_refusal(receiver, allowed, status):
    receiver.status = status
    answered = post(f"http://127.0.0.1:{receiver.server_port}/", {}, b"")
    assert (answered.ok, answered.refused, answered.error) == (False, True, f"answered {status}")


def test_a_line_that_broke_leaves_it_open_whether_it_arrived(receiver, allowed):
    receiver.status = 0
    answered = post(f"http://127.0.0.1:{receiver.server_port}/", {}, b"")
    assert (answered.ok, answered.refused) == (False, False)
    assert answered.error.startswith("not known whether it arrived")


def test_nobody_listens(allowed):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert post(f"http://127.0.0.1:{port}/", {}, b"") == Sent(refused=True, error="the connection was refused")
