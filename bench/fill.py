"""Fill a migrated PostgreSQL with many finished requests, made inside the database: `python -m bench.fill RECORDS`.

Four teams, forty lines, a hundred upstream keys and a month of traffic that ends now: records, attempts, ledger and
the sums of hours and days. Indexes are taken away first and made again at the end.
"""

import sys
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal

import django
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

django.setup()

# Models exist only behind django.setup().
from django.utils.timezone import now  # noqa: E402

from billing.models import Budget, LedgerEntry, Price, RollupMark  # noqa: E402
from billing.rollups import HOUR, add_up_days, floor  # noqa: E402
from keys.models import Account, Upstream, UpstreamKey  # noqa: E402
from keys.services import save_key  # noqa: E402
from routing.models import GroupMember, Route, RoutingRule, StrategyGroup  # noqa: E402
from tenants.models import BusinessLine, Tenant  # noqa: E402
from tenants.services import issue_gateway_key  # noqa: E402

DAYS = 31
CHUNK = 500_000
ZONES = ("Asia/Shanghai", "UTC", "America/New_York", "Asia/Shanghai")
LINES, UPSTREAMS, KEYS = 10, 5, 5  # of each team; keys of each upstream
BIG = ("billing_requestrecord", "billing_attempt", "billing_ledgerentry")

RECORDS = """
INSERT INTO billing_requestrecord (
  id, request_id, tenant_id, line_id, line_slug, line_name, gateway_key_id, key_name, key_last4, created, day, dialect,
  endpoint, stream, model_requested, model_served, status, http_status, error_code, message, refusal_limit, duration_ms,
  first_content_ms, session, conversation, route, rule, "group", upstream, upstream_key_id, upstream_key, attempt_count,
  skips_left_out, decision, input_tokens, cached_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens,
  reasoning_tokens, usage_source, usage_flags, charge, cost, currency, priced, estimated, price, replay_of)
SELECT
  ((extract(epoch FROM at) * 1000)::bigint << 22) | (n & 4095), 'req_' || md5('r' || n), tenant_id, line_id, slug, name,
  key_id, key_name, 'wxyz', at, (at AT TIME ZONE zone)::date, 'openai', 'chat', n %% 3 = 0, model, served, status,
  http_status, CASE WHEN status = 'failed' THEN 'upstream_failed' ELSE '' END, '', refusal, 400 + h * 7,
  CASE WHEN status <> 'failed' THEN 80 + h * h / 700 END, 'cache', substr(md5('c' || n / 8), 1, 16), 'default',
  'everything', 'main', CASE WHEN refusal = '' THEN upstream ELSE '' END,
  CASE WHEN refusal = '' THEN upstream_key_id END, CASE WHEN refusal = '' THEN label ELSE '' END,
  CASE WHEN refusal <> '' THEN 0 WHEN n %% 25 = 0 THEN 2 ELSE 1 END, 0, '{"strategy": "priority"}', 200 + h * 9,
  CASE WHEN n %% 2 = 0 THEN h * 4 ELSE 0 END, 0, 0, 20 + h, 0, 'upstream', '[]',
  CASE WHEN status = 'failed' THEN 0 WHEN n %% 499 <> 0 THEN (200 + h * 9) * 0.0000025 + (20 + h) * 0.00001 END,
  CASE WHEN status <> 'failed' AND n %% 499 <> 0 THEN (200 + h * 9) * 0.000002 + (20 + h) * 0.000008 END,
  'USD', status = 'failed' OR n %% 499 <> 0, n %% 97 = 0, '{}', ''
FROM (
  SELECT n, %(start)s::timestamptz + n * %(step)s * interval '1 microsecond' AS at, (n * 7919 %% 1000)::int AS h, l.*,
    k.*, 'model-' || (n * 31 %% 97)::int %% 12 AS model,
    CASE WHEN n %% 200 = 7 THEN '' ELSE 'model-' || (n * 31 %% 97)::int %% 12 END AS served,
    CASE WHEN n %% 200 = 7 OR n %% 50 = 3 THEN 'failed' WHEN n %% 100 = 5 THEN 'cancelled' ELSE 'finished' END
      AS status,
    CASE WHEN n %% 200 = 7 THEN 429 WHEN n %% 50 = 3 THEN CASE WHEN n %% 100 = 3 THEN 502 ELSE 400 END ELSE 200 END
      AS http_status,
    CASE WHEN n %% 200 = 7 THEN 'rpm' ELSE '' END AS refusal
  FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n
  JOIN bench_line l ON l.place = floor(power((n * 7919 %% 1009) / 1009.0, 2) * %(lines)s)::int
  JOIN bench_key k ON k.team = l.team AND k.number = (n * 13 %% 89)::int %% %(keys)s
) AS drawn
"""

ATTEMPTS = """
INSERT INTO billing_attempt (
  record_id, n, upstream, upstream_key_id, upstream_key, account_id, model_sent, outcome, content, skipped, status,
  started_ms, ms, queued_ms, first_content_ms, message, reason, evidence, upstream_request_id, input_tokens,
  cached_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens, reasoning_tokens, usage_source, cost)
SELECT r.id, t.n, r.upstream, CASE WHEN t.n < r.attempt_count THEN other.upstream_key_id ELSE r.upstream_key_id END,
  CASE WHEN t.n < r.attempt_count THEN other.label ELSE r.upstream_key END, k.account_id, r.model_requested,
  CASE WHEN t.n < r.attempt_count THEN 'rate_limited' WHEN r.status = 'failed' THEN
    CASE WHEN r.http_status = 400 THEN 'bad_request' ELSE 'server_error' END
    WHEN r.status = 'cancelled' THEN 'aborted' ELSE 'served' END,
  t.n = r.attempt_count, '', CASE WHEN t.n < r.attempt_count THEN 429 ELSE r.http_status END, 0, r.duration_ms, 0,
  CASE WHEN t.n = r.attempt_count THEN r.first_content_ms END, '', '', '', '', r.input_tokens, r.cached_read_tokens, 0,
  0, r.output_tokens, 0, 'upstream', CASE WHEN t.n = r.attempt_count THEN r.cost END
FROM billing_requestrecord r
JOIN bench_key k ON k.upstream_key_id = r.upstream_key_id
JOIN bench_key other ON other.team = k.team AND other.number = (k.number + 1) %% %(keys)s
CROSS JOIN LATERAL generate_series(1, r.attempt_count) AS t(n)
WHERE r.id >= %(low)s AND r.id <= %(high)s
"""

LEDGER = """
INSERT INTO billing_ledgerentry (
  tenant_id, kind, record_id, line_id, account_id, upstream_key_id, attempt_n, amount, currency, day, created, note)
SELECT r.tenant_id, e.kind, r.id, r.line_id, k.account_id, r.upstream_key_id,
  CASE WHEN e.kind = 'cost' THEN r.attempt_count END, CASE e.kind WHEN 'cost' THEN r.cost ELSE r.charge END, r.currency,
  r.day, r.created, ''
FROM billing_requestrecord r
JOIN bench_key k ON k.upstream_key_id = r.upstream_key_id
CROSS JOIN (VALUES ('charge'), ('cost')) AS e(kind)
WHERE r.id >= %(low)s AND r.id <= %(high)s AND r.cost IS NOT NULL
"""


LINE_HOURS = """
WITH base AS (
  SELECT tenant_id, day, line_id, line_slug, currency, status, http_status, refusal_limit, priced, estimated,
    attempt_count, input_tokens, cached_read_tokens, cache_write_tokens, output_tokens, charge, cost, waste,
    first_content_ms, date_trunc('hour', created) AS hour,
    CASE WHEN model_served = '' THEN model_requested ELSE model_served END AS model,
    refusal_limit = '' AND status <> 'failed' AS billed, refusal_limit = '' AND status = 'failed' AS lapsed
  FROM billing_requestrecord WHERE created >= %(from)s AND created < %(to)s AND replay_of = ''
), sized AS (
  SELECT tenant_id, hour, day, line_id, line_slug, model, currency, count(*) AS n,
    CASE WHEN first_content_ms <= 1 THEN 0 ELSE ceil(ln(first_content_ms::float8) / ln(2) * 4 - 1e-9) END::int AS bucket
  FROM base WHERE billed AND first_content_ms IS NOT NULL GROUP BY 1, 2, 3, 4, 5, 6, 7, 9
), timed AS (
  SELECT tenant_id, hour, day, line_id, line_slug, model, currency, jsonb_object_agg(bucket, n) AS counts
  FROM sized GROUP BY 1, 2, 3, 4, 5, 6, 7
), summed AS (
  SELECT tenant_id, hour, day, line_id, line_slug, model, currency, count(*) FILTER (WHERE billed) AS calls,
    count(*) FILTER (WHERE lapsed) AS failed,
    count(*) FILTER (WHERE lapsed AND (http_status IS NULL OR http_status >= 500 OR http_status = 429)) AS lost,
    count(*) FILTER (WHERE refusal_limit <> '') AS refused,
    count(*) FILTER (WHERE billed AND status = 'cancelled') AS cancelled,
    count(*) FILTER (WHERE billed AND NOT priced) AS unpriced,
    count(*) FILTER (WHERE billed AND estimated) AS estimated,
    count(*) FILTER (WHERE refusal_limit = '' AND attempt_count > 1) AS retried,
    count(*) FILTER (WHERE billed AND status = 'finished' AND attempt_count > 1) AS rescued,
    coalesce(sum(input_tokens) FILTER (WHERE billed), 0) AS input_tokens,
    coalesce(sum(cached_read_tokens) FILTER (WHERE billed), 0) AS cached_read_tokens,
    coalesce(sum(cache_write_tokens) FILTER (WHERE billed), 0) AS cache_write_tokens,
    coalesce(sum(output_tokens) FILTER (WHERE billed), 0) AS output_tokens,
    coalesce(sum(charge) FILTER (WHERE billed), 0) AS charge, coalesce(sum(cost) FILTER (WHERE billed), 0) AS cost,
    coalesce(sum(waste), 0) AS waste
  FROM base GROUP BY 1, 2, 3, 4, 5, 6, 7
)
INSERT INTO billing_linehour (
  tenant_id, hour, day, line_id, line_slug, model, currency, calls, failed, lost, refused, cancelled, unpriced,
  estimated, retried, rescued, input_tokens, cached_read_tokens, cache_write_tokens, output_tokens, charge, cost, waste,
  first_content, outputs)
SELECT summed.*, coalesce(timed.counts, '{}'), '{}'
FROM summed LEFT JOIN timed USING (tenant_id, hour, day, line_id, line_slug, model, currency)
"""

KEY_HOURS = """
INSERT INTO billing_keyhour (
  tenant_id, hour, upstream_key_id, upstream, upstream_key, attempts, failed, moved_on, cost, waste, first_content)
SELECT r.tenant_id, date_trunc('hour', r.created), a.upstream_key_id, min(a.upstream), min(a.upstream_key), count(*),
  count(*) FILTER (WHERE a.outcome IN ('rate_limited', 'server_error')),
  count(*) FILTER (WHERE a.outcome = 'rate_limited'), coalesce(sum(a.cost), 0), coalesce(sum(a.waste), 0), '{}'
FROM billing_attempt a JOIN billing_requestrecord r ON r.id = a.record_id
WHERE r.created >= %(from)s AND r.created < %(to)s AND a.skipped = '' AND a.upstream_key_id IS NOT NULL
GROUP BY 1, 2, 3
"""


@transaction.atomic
def prepare() -> None:
    """Make the teams with what they own, and the two tables that the statements draw from."""
    Price.objects.create(model="model-*", currency="USD", input=Decimal("2.5"), output=Decimal(10))
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE bench_line (place int, team int, tenant_id bigint, line_id bigint, slug text, name text,"
            " key_id bigint, key_name text, zone text)"
        )
        cursor.execute(
            "CREATE TABLE bench_key (team int, number int, upstream text, upstream_key_id bigint, label text,"
            " account_id bigint)"
        )
        for team, zone in enumerate(ZONES):
            tenant = Tenant.objects.create(slug=f"team-{team}", name=f"Team {team}", timezone=zone)
            _upstreams(cursor, team, tenant)
            _lines(cursor, team, tenant)


def _upstreams(cursor: CursorWrapper, team: int, tenant: Tenant) -> None:
    group = StrategyGroup.objects.create(tenant=tenant, name="main")
    route = Route.objects.create(tenant=tenant, name="default", is_default=True)
    RoutingRule.objects.create(route=route, name="everything", group=group)
    for place in range(UPSTREAMS):
        name = f"relay-{team}-{place}"
        upstream = Upstream.objects.create(tenant=tenant, name=name, base_url=f"https://{name}.example/v1")
        GroupMember.objects.create(group=group, upstream=upstream, position=place)
        for number in range(KEYS):
            account = Account.objects.create(tenant=tenant, name=f"{name}-{number}")
            key = UpstreamKey(upstream=upstream, name=f"k{number}", account=account)
            save_key(key=key, secret=f"sk-{name}-{number:020d}")
            label = f"{key.name} (…{key.tail})"
            row = (team, place * KEYS + number, name, key.pk, label, account.pk)
            cursor.execute("INSERT INTO bench_key VALUES (%s, %s, %s, %s, %s, %s)", row)


def _lines(cursor: CursorWrapper, team: int, tenant: Tenant) -> None:
    for number in range(LINES):
        line = BusinessLine.objects.create(tenant=tenant, slug=f"line-{team}-{number}", name=f"Line {team}/{number}")
        key = issue_gateway_key(line=line, name="prod").row
        Budget.objects.create(tenant=tenant, line=line, amount=Decimal(20_000), currency="USD")
        row = (team * LINES + number, team, tenant.pk, line.pk, line.slug, line.name, key.pk, key.name, tenant.timezone)
        cursor.execute("INSERT INTO bench_line VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", row)


def fill(records: int, end: datetime) -> None:
    """Write the records and what hangs on them."""
    start = end - timedelta(days=DAYS)
    step = DAYS * 86_400_000_000 // records  # µs between two calls
    taken, high = _take_indexes(), 0
    for first in range(0, records, CHUNK):
        last = min(records, first + CHUNK) - 1
        drawn = {"start": start, "step": step, "first": first, "last": last, "lines": LINES * len(ZONES)}
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")  # no checks of foreign keys, row by row
            cursor.execute(RECORDS, {**drawn, "keys": UPSTREAMS * KEYS})
            cursor.execute("SELECT max(id) FROM billing_requestrecord")
            span = {"low": high + 1, "high": (high := int(cursor.fetchone()[0]))}
            cursor.execute(ATTEMPTS, {**span, "keys": UPSTREAMS * KEYS})
            cursor.execute(LEDGER, span)
        _say(f"{last + 1:,} records")
    with connection.cursor() as cursor:
        for statement in taken:
            cursor.execute(statement)
            _say(statement.partition(" USING")[0])
        cursor.execute("VACUUM ANALYZE")


def _take_indexes() -> Sequence[str]:
    """Drop the big tables' indexes but for primary keys; returns the statements that make them again."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE contype = 'u' AND conrelid::regclass::text = ANY(%s)",
            [list(BIG)],
        )
        unique = cursor.fetchall()
        for table, name, _definition in unique:
            cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
        cursor.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = ANY(%s) AND indexname NOT LIKE '%%\\_pkey'",
            [list(BIG)],
        )
        found = cursor.fetchall()
        for name, _statement in found:
            cursor.execute(f'DROP INDEX "{name}"')
    again = [f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {definition}' for table, name, definition in unique]
    return [*again, *(statement for _name, statement in found)]


def sum_up(start: datetime, end: datetime) -> None:
    """Make the sums of hours as `roll_up` would, but in the database; those of days as the product does.

    Histograms of answers' sizes are left out: no page reads them.
    """
    hours, day = [], floor(start)
    while day < end:
        until = min(day + timedelta(days=1), floor(end) + timedelta(hours=1))
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(LINE_HOURS, {"from": day, "to": until})
            cursor.execute(KEY_HOURS, {"from": day, "to": until})
        _say(f"summed up to {until:%Y-%m-%d %H:%M}")
        hours += [day + timedelta(hours=n) for n in range(round((until - day) / timedelta(hours=1)))]
        day = until
    RollupMark.objects.update_or_create(
        pk=1, defaults={"done_until": floor(end), "ledger_id": LedgerEntry.objects.latest("pk").pk}
    )
    add_up_days(hours, until=floor(end) - HOUR)  # the home page adds up the most records that it ever has to
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE billing_linehour, billing_keyhour, billing_lineday, billing_dayspeed")


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    moment = now()
    prepare()
    fill(int(sys.argv[1]), moment)
    sum_up(moment - timedelta(days=DAYS), moment)
