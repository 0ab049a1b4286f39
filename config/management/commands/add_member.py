"""`manage.py add_member`: give a person a role in a tenant."""

import getpass
import os
import sys
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from tenants.models import AuditEntry, Membership, Role, Tenant

PASSWORD_VARIABLE = "POINTSMAN_PASSWORD"  # noqa: S105  # the name of a variable


class Command(BaseCommand):
    help = f"Give a person a role in a tenant. A new person's password comes from {PASSWORD_VARIABLE} or is asked for."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username", metavar="USERNAME")
        parser.add_argument("--tenant", metavar="SLUG", required=True)
        parser.add_argument("--role", choices=Role.values, required=True)

    def handle(self, *args: Any, username: str, tenant: str, role: str, **options: Any) -> None:
        owner = Tenant.objects.filter(slug=tenant).first()
        if owner is None:
            raise CommandError(f'unknown tenant "{tenant}"')
        person = User.objects.filter(username=username).first()
        password = "" if person is not None else self._password(username)
        with transaction.atomic():
            done = []
            if person is None:
                person = create_person(username, password)
                done.append(f"{username} was created.")
            elif not person.is_staff:
                User.objects.filter(pk=person.pk).update(is_staff=True)
                done.append(f"{username} may now use the admin.")
            if person is not None and PASSWORD_VARIABLE in os.environ:
                self.stderr.write(f"Note: {username} exists and keeps the password; change it in the admin.")
            if set_role(person, owner, role):
                done.append(f"{username} now has the role {role} in {tenant}.")
        for line in done or ["No changes."]:
            self.stdout.write(line)

    def _password(self, username: str) -> str:
        password = os.environ.get(PASSWORD_VARIABLE, "")
        if not password and sys.stdin.isatty():
            password = getpass.getpass(f"Password for {username}: ")
        if not password:
            raise CommandError(f"{username} is new: set {PASSWORD_VARIABLE} or run this in a terminal")
        try:
            validate_password(password, User(username=username))
        except ValidationError as exc:
            self.stderr.write("Warning: weak password. " + " ".join(exc.messages))
        return password


def create_person(username: str, password: str) -> User:
    """Create somebody who may log in to the admin. Raises CommandError for a name that cannot be used."""
    person = User(username=username, is_staff=True)
    person.set_password(password)
    try:
        person.full_clean()
    except ValidationError as exc:
        raise CommandError(f"{username}: {' '.join(exc.messages)}") from None
    person.save()
    AuditEntry.objects.create(
        username="add_member", action="added", model=User._meta.label, object_id=str(person.pk), object_name=username
    )
    return person


def set_role(person: User, tenant: Tenant, role: str) -> bool:
    """Give the role; False when the person has it already."""
    held = Membership.objects.select_for_update().filter(user=person, tenant=tenant).first()
    if held is not None and held.role == role:
        return False
    row, created = Membership.objects.update_or_create(user=person, tenant=tenant, defaults={"role": role})
    AuditEntry.objects.create(
        tenant=tenant,
        username="add_member",
        action="added" if created else "changed",
        model=Membership._meta.label,
        object_id=str(row.pk),
        object_name=str(row)[:200],
        fields={"role": role},
    )
    return True
