"""Calls to webhooks: guarded against inner addresses at the moment of connecting, redirects not followed."""

import socket
from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

import httpx
from django.conf import settings

from keys.core.addresses import refusal, url_problem
from tenants.delivery import Sent

TIMEOUT_S = 10.0
_DEFAULT_PORTS = {"http": 80, "https": 443}


def post(url: str, headers: Mapping[str, str], body: bytes) -> Sent:
    """Send one body. Only a 2xx answer is a success; never raises for what the other side does."""
    if problem := url_problem(url):
        return Sent(refused=True, error=f"the address {problem}", hopeless=True)
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
    allowed = settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS
    if why := refusal(host, allowed):
        return Sent(refused=True, error=why, hopeless=True)
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return Sent(refused=True, error="the name does not resolve")
    for answer in answers:
        if why := refusal(host, allowed, str(answer[4][0])):
            return Sent(refused=True, error=why, hopeless=True)
    # The call goes to the very address that was judged, whatever the name says a moment later.
    address = str(answers[0][4][0])
    literal = f"[{address}]" if ":" in address else address
    target = urlunsplit((parts.scheme, f"{literal}:{port}", parts.path or "/", parts.query, ""))
    return _exchange(target, {**headers, "host": parts.netloc.rpartition("@")[2]}, body, host)


def _exchange(target: str, headers: Mapping[str, str], body: bytes, host: str) -> Sent:
    try:
        with httpx.Client(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False) as client:
            request = client.build_request(
                "POST", target, headers=dict(headers), content=body, extensions={"sni_hostname": host}
            )
            answer = client.send(request, stream=True)  # the body is of no interest
            answer.close()
    except (httpx.ConnectError, httpx.ConnectTimeout) as problem:
        return Sent(refused=True, error=f"no connection ({type(problem).__name__})")
    except httpx.HTTPError as problem:
        return Sent(error=f"not known whether it arrived ({type(problem).__name__})")
    if answer.is_success:
        return Sent(ok=True)
    return Sent(refused=True, error=f"answered {answer.status_code}")
