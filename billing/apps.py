"""Billing's start-up."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from billing import sqlite


class BillingConfig(AppConfig):
    name = "billing"
    verbose_name = _("Billing")

    def ready(self) -> None:
        """Teach SQLite to add decimals."""
        sqlite.install()
