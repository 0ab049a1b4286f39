"""The audit log as CSV: what the list shows with its search and filters, all pages of it."""

from zoneinfo import ZoneInfo

from django.contrib.admin import AdminSite
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, StreamingHttpResponse
from django.utils.timezone import get_current_timezone_name

from billing.exports import audit_rows_text
from config.pages.downloads import csv_file
from tenants.models import AuditEntry


def audit_csv(request: HttpRequest, site: AdminSite) -> StreamingHttpResponse:
    """Stream the entries; the list's own code decides which of them the person may see."""
    page = site._registry[AuditEntry]
    if not page.has_view_permission(request):
        raise PermissionDenied
    try:
        listed = page.get_changelist_instance(request)
    except IncorrectLookupParameters:
        raise Http404 from None
    parts = audit_rows_text(listed.queryset, ZoneInfo(get_current_timezone_name()))
    return csv_file(request, parts, "audit.csv")
