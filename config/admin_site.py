"""The admin's site: its name, its own pages beside those of the models, and who may come in."""

from django.contrib.admin import AdminSite
from django.utils.translation import gettext_lazy


class PointsmanSite(AdminSite):
    site_header = gettext_lazy("Pointsman")
    site_title = gettext_lazy("Pointsman")
    index_title = gettext_lazy("What needs attention")
    site_url = None
    empty_value_display = "–"
