"""`manage.py rotate_secrets`: re-encrypt everything with the newest key, while the gateway runs."""

from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError

from tenants.encryption import UndecryptableError, encrypted_columns, reencrypt
from tenants.models import AuditEntry, InstallationSecret

ROUNDS = 5  # a row that changes under each of them is written with the newest key by whoever changes it


class Command(BaseCommand):
    help = "Re-encrypt every stored secret with the newest of POINTSMAN_ENCRYPTION_KEYS. Safe while serving."

    def handle(self, *args: Any, **options: Any) -> None:
        failed: list[str] = []
        done: dict[str, int] = {}
        for model in sorted(apps.get_models(), key=lambda each: each._meta.db_table):
            for column in encrypted_columns(model):
                name = f"{model._meta.db_table}.{column.column}"
                try:
                    count = self._rotate(model, column)
                except UndecryptableError as exc:
                    failed.append(str(exc))
                else:
                    done[name] = count
                    self.stdout.write(f"{name}: {count} re-encrypted")
        AuditEntry.objects.create(
            username="rotate_secrets", action="changed", model=InstallationSecret._meta.label, fields=done
        )
        if failed:
            raise CommandError("\n".join(failed))

    def _rotate(self, model: Any, column: Any) -> int:
        """Return how many values the last round wrote; rounds repeat while rows change underneath."""
        count = 0
        for _ in range(ROUNDS):
            count, raced = reencrypt(model, column)
            if not raced:
                break
        return count
