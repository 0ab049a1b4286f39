"""Alert deliveries: claimed before sending, sent again only after a definite refusal, one outcome each."""

import smtplib
import socket
from datetime import UTC, datetime, timedelta

import pytest
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend
from django.test import override_settings

from tenants import delivery
from tenants.alerts import close_alert, open_alert
from tenants.delivery import MAX_TRIES, Sent, due_deliveries, payload_of, send_delivery, signature, watch_mail
from tenants.models import Alert, AlertDelivery, AlertKind, Tenant
from tests.factories import TenantFactory

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOOK = "https://hooks.example.com/x"


class Backend(EmailBackend):
    """Fails as `faults` says: at opening or at sending."""

    at_open: Exception | None = None
    at_send: Exception | None = None

    def open(self):
        if self.at_open is not None:
            raise self.at_open

    def send_messages(self, messages):
        if self.at_send is not None:
            raise self.at_send
        return super().send_messages(messages)


@pytest.fixture(autouse=True)
def configured(settings, monkeypatch):
    settings.POINTSMAN_MAIL_CONFIGURED = True
    settings.EMAIL_BACKEND = "tests.tenants.test_delivery.Backend"
    settings.OPS_EMAILS = []
    monkeypatch.setattr(Backend, "at_open", None)
    monkeypatch.setattr(Backend, "at_send", None)
    mail.outbox = []


def never(*_call):
    raise AssertionError("no webhook was to be called")


def opened(kind=AlertKind.KEY_DEAD, tenant=None, **details):
    tenant = tenant or TenantFactory(slug="acme", timezone="Asia/Shanghai", alert_emails=["ops@example.com"])
    open_alert(tenant=tenant, kind=kind, subject="key:1", text="401: no such key", now=NOW, **details)
    return tenant


def send(row: AlertDelivery, now=NOW, post=never) -> AlertDelivery:
    assert send_delivery(delivery_id=row.pk, now=now, post=post)
    return AlertDelivery.objects.get(pk=row.pk)


def test_a_mail_is_sent_once():
    opened(name="relay-a · …abcdef")
    (pk,) = due_deliveries(now=NOW)
    assert send_delivery(delivery_id=pk, now=NOW, post=never)
    assert not send_delivery(delivery_id=pk, now=NOW, post=never)
    (message,) = mail.outbox
    assert (message.to, message.subject) == (
        ["ops@example.com"],
        "[Pointsman acme] Upstream key dead: relay-a · …abcdef",
    )
    assert "relay-a · …abcdef: 401: no such key" in message.body
    assert "2026-11-15 20:00 (Asia/Shanghai)" in message.body
    row = AlertDelivery.objects.get()
    assert (row.status, row.sent, row.tries, row.error) == ("sent", NOW, 1, "")
    assert due_deliveries(now=NOW + timedelta(days=1)) == []


def test_a_claimed_row_is_left_to_its_sender_and_ends_unsent_when_that_vanished():
    opened()
    AlertDelivery.objects.update(status="claimed")
    pk = AlertDelivery.objects.get().pk
    assert not send_delivery(delivery_id=pk, now=NOW, post=never)
    assert due_deliveries(now=NOW + timedelta(minutes=9)) == []
    assert AlertDelivery.objects.get().status == "claimed"
    assert due_deliveries(now=NOW + timedelta(minutes=10)) == []
    row = AlertDelivery.objects.get()
    assert (row.status, row.error) == ("failed", "the sender ended before it knew whether this arrived")
    assert mail.outbox == []


REFUSED = {
    "connection": ("at_open", ConnectionRefusedError("refused"), "ConnectionRefusedError: refused"),
    "login": ("at_open", smtplib.SMTPAuthenticationError(535, b"no"), "535 no"),
    "recipient": ("at_send", smtplib.SMTPRecipientsRefused({"ops@example.com": (550, b"unknown")}), "550 unknown"),
    "busy": ("at_send", smtplib.SMTPDataError(451, b"later"), "451 later"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_definite_refusal_is_tried_again_with_growing_pauses(case, monkeypatch):
    where, fault, said = REFUSED[case]
    monkeypatch.setattr(Backend, where, fault)
    opened()
    now, pauses = NOW, []
    for _ in range(MAX_TRIES):
        row = send(AlertDelivery.objects.filter(alert__kind="key_dead").get(), now)
        assert row.error == said
        pauses.append((row.due - now) // timedelta(minutes=1))
        now = row.due
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 0]
    assert (row.status, row.sent) == ("failed", None)
    assert mail.outbox == []


@pytest.mark.parametrize(
    "fault", [smtplib.SMTPServerDisconnected("gone"), TimeoutError("slow"), ConnectionResetError()]
)
def test_what_may_have_arrived_is_not_sent_twice(fault, monkeypatch):
    monkeypatch.setattr(Backend, "at_send", fault)
    opened()
    row = send(AlertDelivery.objects.get())
    assert row.status == "failed"
    assert row.error.startswith(f"not known whether it arrived: {type(fault).__name__}")


def test_a_mail_server_that_refuses_is_an_alert_itself_until_it_takes_a_mail(monkeypatch, settings):
    settings.OPS_EMAILS = ["root@example.com"]
    monkeypatch.setattr(Backend, "at_open", ConnectionRefusedError("refused"))
    opened()
    row = send(AlertDelivery.objects.filter(target="ops@example.com").get())
    (alert,) = Alert.objects.filter(kind="mail")
    assert (alert.tenant, alert.closed, alert.text) == (None, None, f"Mail could not be sent: {row.error}")
    send(AlertDelivery.objects.filter(alert=alert).get())
    assert Alert.objects.filter(kind="mail").count() == 1
    monkeypatch.setattr(Backend, "at_open", None)
    send(row, row.due)
    assert Alert.objects.get(kind="mail").closed is not None


def test_the_notice_that_it_is_over():
    tenant = opened(name="a1")
    close_alert(tenant=tenant, kind=AlertKind.KEY_DEAD, subject="key:1", now=NOW + timedelta(hours=1))
    send(AlertDelivery.objects.get(occasion="resolved"), NOW + timedelta(hours=1))
    (message,) = mail.outbox
    assert message.subject == "[Pointsman acme] Over: Upstream key dead: a1"
    assert "This is over since 2026-11-15 21:00 (Asia/Shanghai)" in message.body
    said = [payload_of(row)["text"] for row in AlertDelivery.objects.order_by("pk")]
    assert said == [said[0], f"Over: {said[0]}"]


BUDGET = {
    "of": "line Bot", "of_zh": "业务线 Bot", "period": "month", "period_start": "2026-10-31T16:00:00+00:00",
    "resets_at": "2026-11-30T16:00:00+00:00", "spent": "812.40", "amount": "1000.00", "currency": "CNY",
    "percent": "81.2", "threshold": 80, "hard": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("language", "subject", "lines"),
    [
        ("en", "[Pointsman acme] line Bot: 81.2 % of the budget used",
         ["line Bot has crossed 80 % of its budget.", "from 2026-11-01 00:00 to 2026-12-01 00:00 (Asia/Shanghai)",
          "Spent:         812.40 CNY", "Limit:         1000.00 CNY", "Used:          81.2 %", "calls are refused"]),
        ("zh-hans", "[Pointsman acme] 业务线 Bot：预算已用 81.2 %",
         ["业务线 Bot的支出已超过预算的 80 %。", "已支出：　　812.40 CNY", "限额：　　　1000.00 CNY", "拒绝后续请求"]),
    ],
)  # fmt: skip
def test_a_budget_mail_says_what_is_meant(language, subject, lines):
    with override_settings(LANGUAGE_CODE=language):
        opened(AlertKind.BUDGET, **BUDGET)
        send(AlertDelivery.objects.get())
    (message,) = mail.outbox
    assert message.subject == subject
    for line in lines:
        assert line in message.body


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("kind", AlertKind.values)
def test_every_kind_has_words_in_both_languages(kind, language):
    with override_settings(LANGUAGE_CODE=language):
        tenant = opened(
            AlertKind(kind), name="a1", model="gpt", month="2026-11", **{**BUDGET, "exhausted_at": BUDGET["resets_at"]}
        )
        send(AlertDelivery.objects.get())
    (message,) = mail.outbox
    assert message.subject.startswith("[Pointsman acme] ")
    assert len(message.subject) > len("[Pointsman acme] ")
    assert "{%" not in message.body
    assert "\n\n\n" not in message.body
    assert tenant.alert_emails == message.to


def test_without_mail_the_log_has_it_and_the_alert_says_so(settings, caplog):
    settings.POINTSMAN_MAIL_CONFIGURED = False
    tenant = opened()
    row = send(AlertDelivery.objects.get())
    assert (row.status, row.error) == ("failed", delivery.NOT_SET_UP)
    assert "401: no such key" in caplog.text
    for _ in range(2):
        watch_mail(now=NOW)
    (alert,) = Alert.objects.filter(kind="mail")
    assert (alert.tenant, alert.closed) == (tenant, None)
    settings.POINTSMAN_MAIL_CONFIGURED = True
    watch_mail(now=NOW + timedelta(minutes=1))
    assert Alert.objects.get(kind="mail").closed == NOW + timedelta(minutes=1)


def test_nobody_who_expects_no_mail_is_told_that_there_is_none(settings):
    settings.POINTSMAN_MAIL_CONFIGURED = False
    TenantFactory()
    watch_mail(now=NOW)
    assert not Alert.objects.exists()


@pytest.fixture
def hooked():
    return opened(tenant=TenantFactory(slug="acme", alert_webhook=HOOK), name="a1")


def test_a_webhook_call_is_signed_with_a_secret_made_at_first_use(hooked):
    calls = []
    row = send(AlertDelivery.objects.get(), post=lambda *call: calls.append(call) or Sent(ok=True))
    assert row.status == "sent"
    ((url, headers, body),) = calls
    secret = Tenant.objects.get(pk=hooked.pk).webhook_secret
    assert secret.startswith("whsec_")
    assert (url, headers["x-pointsman-timestamp"]) == (HOOK, str(int(NOW.timestamp())))
    assert headers["x-pointsman-signature"] == signature(secret, str(int(NOW.timestamp())), body)
    assert b'"kind": "key_dead"' in body
    assert b'"details": {"name": "a1"}' in body
    assert delivery.webhook_secret(hooked.pk) == secret


def test_the_signature_is_hmac_over_timestamp_and_body():
    # printf '1.{}' | openssl dgst -sha256 -hmac s
    assert signature("s", "1", b"{}") == "sha256=b253639bcd705ed1cda3073f66104f16988bd40272584dea7d0d345ae93e61cc"


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (Sent(refused=True, error="answered 500"), "pending"),
        (Sent(refused=True, error="inner", hopeless=True), "failed"),
        (Sent(error="not known"), "failed"),
    ],
)
def test_what_a_webhook_call_leads_to(hooked, result, status):
    row = send(AlertDelivery.objects.get(), post=lambda *_: result)
    assert (row.status, row.error) == (status, result.error)


def test_a_webhook_that_was_replaced_is_not_called_any_more(hooked):
    Tenant.objects.filter(pk=hooked.pk).update(alert_webhook="https://other.example.com")
    assert send(AlertDelivery.objects.get()).status == "failed"


@pytest.mark.parametrize(
    ("host", "public", "begins"),
    [
        ("127.0.0.1", "", "http://127.0.0.1:8000/admin/"),
        ("::1", "", "http://[::1]:8000/admin/"),
        ("0.0.0.0", "", f"http://{socket.gethostname()}:8000/admin/"),  # noqa: S104  # compared, not bound
        ("0.0.0.0", "https://gateway.example.com/pm", "https://gateway.example.com/pm/admin/"),  # noqa: S104
    ],
)
def test_mails_link_to_where_the_admin_is(settings, host, public, begins):
    settings.POINTSMAN_HOST, settings.POINTSMAN_PORT, settings.POINTSMAN_PUBLIC_URL = host, 8000, public
    opened()
    send(AlertDelivery.objects.get())
    alert = Alert.objects.get()
    assert f"Look at it:    {begins}tenants/alert/{alert.pk}/change/\n" in mail.outbox[0].body
