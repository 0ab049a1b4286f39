"""In which zone a person sees times: that of the own teams where they agree, else UTC. The footer says which."""

from collections.abc import Callable
from zoneinfo import ZoneInfo

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone

from tenants.models import Tenant
from tenants.scoping import EVERYONE, reach_of, scoped

ADMIN = "/admin/"


class PersonZone:
    """Chooses the zone for pages of the admin; what is typed there is read in it too."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path.startswith(ADMIN) or not request.user.is_authenticated:
            return self.get_response(request)
        with timezone.override(zone_of(request)):
            return self.get_response(request)


def zone_of(request: HttpRequest) -> ZoneInfo:
    """Return the one zone of all teams that the person sees, else UTC. One query."""
    rows = scoped(Tenant.objects.order_by("timezone"), reach_of(request.user), EVERYONE)
    zones = list(rows.values_list("timezone", flat=True).distinct()[:2])
    return ZoneInfo(zones[0] if len(zones) == 1 else "UTC")
