"""`manage.py rebuild_rollups`: reckon hours anew from the records, or only compare."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Min
from django.utils.timezone import now

from billing.models import RequestRecord
from billing.rollups import HOUR, differences, floor, rebuild_hour


class Command(BaseCommand):
    """May be stopped and started again anywhere."""

    help = "Make the hourly sums anew; with --check only compare them with the records."

    def add_arguments(self, parser: CommandParser) -> None:
        """Days in UTC; everything by default."""
        parser.add_argument("--from", dest="start", type=date.fromisoformat, metavar="YYYY-MM-DD")
        parser.add_argument("--to", dest="end", type=date.fromisoformat, metavar="YYYY-MM-DD", help="that day included")
        parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 on a difference")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Go through the hours."""
        first = RequestRecord.objects.aggregate(first=Min("created"))["first"] or now()
        hour = floor(_midnight(options["start"]) if options["start"] else first)
        end = _midnight(options["end"]) + timedelta(days=1) if options["end"] else now()
        hours, wrong = 0, 0
        while hour < end:
            if options["check"]:
                for line in differences(hour):
                    wrong += 1
                    self.stdout.write(line)
            else:
                rebuild_hour(hour)
            hours += 1
            hour += HOUR
        if wrong:
            raise CommandError(f"{wrong} sums differ from the records; run rebuild_rollups without --check.")
        self.stdout.write(f"{hours} hours {'are as the records say' if options['check'] else 'made'}.")


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
