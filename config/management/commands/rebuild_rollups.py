"""`manage.py rebuild_rollups`: reckon hours and days anew from the records, or only compare."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Min
from django.utils.timezone import now

from billing.models import LineHour, RequestRecord
from billing.rollup_check import Found, day_differences, differences, next_run
from billing.rollups import HOUR, add_up_days, floor, rebuild_hour

_AT_ONCE = 24  # hours, before their days are added up


class Command(BaseCommand):
    """May be stopped and started again anywhere."""

    help = "Make the hourly and daily sums anew; with --check only compare them with the records."

    def add_arguments(self, parser: CommandParser) -> None:
        """Days in UTC; everything by default."""
        parser.add_argument("--from", dest="start", type=date.fromisoformat, metavar="YYYY-MM-DD")
        parser.add_argument("--to", dest="end", type=date.fromisoformat, metavar="YYYY-MM-DD", help="that day included")
        parser.add_argument(
            "--check",
            action="store_true",
            help="change nothing; exit code 1 on a difference that the next roll-up does not settle",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Go through the hours."""
        moment = now()
        if options["start"] is None:
            records = RequestRecord.objects.aggregate(first=Min("created"))["first"]
            sums = LineHour.objects.aggregate(first=Min("hour"))["first"]
            first = min([at for at in (records, sums) if at is not None], default=moment)
        else:
            first = _midnight(options["start"])
        end = _midnight(options["end"]) + timedelta(days=1) if options["end"] else moment
        hours = list(_hours(floor(first), end))
        if options["check"]:
            self._check(hours, moment)
            return
        for start in range(0, len(hours), _AT_ONCE):
            part = hours[start : start + _AT_ONCE]
            for hour in part:
                rebuild_hour(hour)
            add_up_days(part)
        self.stdout.write(f"{_count(len(hours), 'hour')} made.")

    def _check(self, hours: list[datetime], moment: datetime) -> None:
        run, wrong, behind = next_run(moment), 0, set()
        for hour in hours:
            found = differences(hour, run)
            wrong += self._say(found)
            behind |= {hour} if found.behind and not found.wrong else set()
        if hours:
            day = timedelta(days=1)
            wrong += self._say(day_differences(hours[0].date() - day, hours[-1].date() + day, run))
        if wrong:
            differ = "1 sum differs" if wrong == 1 else f"{wrong} sums differ"
            raise CommandError(f"{differ} from the records; run rebuild_rollups without --check.")
        right = len(hours) - len(behind)
        text = f"{_count(right, 'hour')} {'is' if right == 1 else 'are'} as the records say"
        if behind:
            text += f"; {_count(len(behind), 'hour')} {'waits' if len(behind) == 1 else 'wait'} for the next roll-up"
        self.stdout.write(text + ".")

    def _say(self, found: Found) -> int:
        for line in found.behind:
            self.stdout.write(f"pending: {line}")
        for line in found.wrong:
            self.stdout.write(f"differs: {line}")
        return len(found.wrong)


def _hours(first: datetime, end: datetime) -> Iterator[datetime]:
    while first < end:
        yield first
        first += HOUR


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
