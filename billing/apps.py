"""Billing's start-up."""

from django.apps import AppConfig

from billing import sqlite


class BillingConfig(AppConfig):
    name = "billing"

    def ready(self) -> None:
        """Teach SQLite to add decimals."""
        sqlite.install()
