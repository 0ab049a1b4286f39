from django.apps import AppConfig
from django.core.checks import Tags, register

from config.celery import app as celery_app
from config.checks import impossible_settings

# Having loaded the queue's application makes it current, so that shared tasks find the broker in every process.
__all__ = ["ConfigConfig", "celery_app"]


class ConfigConfig(AppConfig):
    name = "config"

    def ready(self) -> None:
        register(impossible_settings, Tags.security)
