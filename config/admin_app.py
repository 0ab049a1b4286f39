"""Puts Pointsman's own site in the place of Django's stock admin."""

from django.contrib.admin.apps import AdminConfig


class PointsmanAdmin(AdminConfig):
    default_site = "config.admin_site.PointsmanSite"
