"""What every page of the admin and the API documentation carries; the proxied paths do not pass here."""

import re
from collections.abc import Callable

from django.db import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.http.response import HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

POLICY = {
    "default-src": "'self'",
    "img-src": "'self' data:",
    "style-src": "'self'",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
# Swagger brings style elements of its own; no other page has them (pygal's rules are a file, lengths come as data).
DOCS = "/api/docs/"
_HUGE = re.compile(r"\d{19}")  # the largest number of a column has 19 digits


def content_policy(path: str) -> str:
    """Return the content policy of a page: nothing inline, nothing from other hosts."""
    policy = POLICY | {"style-src": "'self' 'unsafe-inline'"} if path.startswith(DOCS) else POLICY
    return "; ".join(f"{name} {value}" for name, value in policy.items())


class SecurityHeaders:
    """Adds the content policy, and marks cookies Secure where the request came over https."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", content_policy(request.path))
        response.headers.setdefault("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
        if request.is_secure():
            for cookie in response.cookies.values():
                cookie["secure"] = True
        return response


class PlainQuery:
    """Takes NUL out of query strings: PostgreSQL has no such character, so a page that searched for it would fail.

    A number that no column holds is the asker's mistake, not a fault of the page.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "%00" in request.META.get("QUERY_STRING", ""):
            request.META["QUERY_STRING"] = request.META["QUERY_STRING"].replace("%00", "")
            request.__dict__.pop("GET", None)  # read anew from what is left
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Refuse a request that the database cannot ask because of a number in it."""
        asked = f"{request.META.get('QUERY_STRING', '')} {request.POST.urlencode()}"
        if isinstance(exception, OverflowError | DataError) and _HUGE.search(asked):
            return HttpResponseBadRequest("a number is too large")
        return None


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]  # whitenoise has no types
    """WhiteNoise with answers in one piece: under ASGI its files are read whole all the same, with a warning."""

    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> HttpResponse:
        found = static_file.get_response(request.method, request.META)
        content = b""
        if found.file is not None:
            with found.file:
                content = found.file.read()
        response = HttpResponse(content, status=int(found.status))
        del response.headers["content-type"]
        for name, value in found.headers:
            response.headers[name] = value
        return response
