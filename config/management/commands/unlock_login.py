"""`manage.py unlock_login`: let somebody try to log in again, and forget a lost second factor."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from tenants.factors import remove
from tenants.services import audit
from tenants.throttling import unlock


class Command(BaseCommand):
    help = "Forgets the failed logins of a person, or of a client's address, so that there is no wait any more."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", nargs="?", default="")
        parser.add_argument("--address", default="", metavar="ADDRESS", help="a client's address, such as 192.0.2.7")
        parser.add_argument(
            "--forget-second-factor", action="store_true", help="also switch the person's second factor off"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        username, address = options["username"], options["address"]
        if not username and not address:
            raise CommandError("name a person, or an address with --address")
        user = User.objects.filter(username=username).first() if username else None
        if username and user is None:
            raise CommandError(f"nobody is called {username!r}")
        unlock(username=username, user_id=user.pk if user is not None else None, address=address)
        if user is not None:
            audit(user=None, by="unlock_login", action="login_unlocked", target=user, tenant=None)
        said = " and ".join(filter(None, (username, address)))
        self.stdout.write(f"{said}: may try to log in again")
        if user is not None and options["forget_second_factor"]:
            gone = remove(user=user, by=None)
            self.stdout.write("second factor switched off" if gone else "there was no second factor")
