"""Pages that show a secret once: no cache keeps them, no link tells where it was read."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from tenants.adminbase import TenantScopedAdmin
from tenants.models import GatewayKey
from tenants.services import IssuedKey
from tenants.snippets import snippets


def shown_once(response: HttpResponse) -> HttpResponse:
    """Mark an answer that holds a secret."""
    response["Cache-Control"] = "no-store"
    response["Referrer-Policy"] = "no-referrer"
    return response


def secret_page(
    page: TenantScopedAdmin, request: HttpRequest, template: str, issued: IssuedKey, **more: Any
) -> HttpResponse:
    """Return the page that shows a gateway key's new secret with the snippets that use it."""
    key: GatewayKey = issued.row
    base = request.build_absolute_uri("/").rstrip("/")
    context = {
        **page.admin_site.each_context(request),
        "opts": page.opts,
        "key": key,
        "secret": issued.secret,
        "snippets": snippets(base, issued.secret, key.line),
        **more,
    }
    return shown_once(TemplateResponse(request, template, context))
