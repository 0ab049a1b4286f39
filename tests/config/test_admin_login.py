"""Logging in: waits in words, the second factor, and what gets somebody in again who is shut out."""

from datetime import timedelta
from io import StringIO

import pyotp
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils.timezone import now

from config.pages import login as login_module
from tenants import factors
from tenants.login_models import RecoveryCode, SecondFactor
from tenants.models import AuditEntry
from tests import factories
from tests.config.admin_world import member, person

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"
HOME = reverse("admin:index")


@pytest.fixture
def ann(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the real one takes its time
    return User.objects.create_user("ann", password=PASSWORD, is_staff=True, is_superuser=True)


def log_in(client, password=PASSWORD, username="ann", **headers):
    data = {"username": username, "password": password, "next": HOME}
    return client.post(reverse("admin:login"), data, **headers)


def is_in(client):
    return client.get(HOME).status_code == 200


def said(answer):
    return str(answer.context["form"].errors)


def enrolled(user):
    """A confirmed factor; its app's code of now is taken already."""
    factor = factors.begin(user)
    codes = factors.confirm(factor, app_code(factor), now())
    factor.refresh_from_db()
    return factor, codes


def app_code(factor, steps=0):
    return pyotp.TOTP(factor.secret).at(now(), counter_offset=steps)


class TestPassword:
    def test_a_right_one_lets_in(self, client, ann):
        assert log_in(client).url == HOME
        assert is_in(client)

    def test_after_five_wrong_ones_the_page_says_how_long_to_wait(self, client, ann):
        for _ in range(5):
            assert log_in(client, "wrong").status_code == 200
        slowed = log_in(client)
        assert slowed.status_code == 429
        left = slowed["Retry-After"]
        assert 20 <= int(left) <= 30  # a slow machine's hashing takes its time off
        assert f"Too many failed tries. Try again in {left} s." in said(slowed)
        assert not is_in(client)

    def test_a_name_that_nobody_has_is_slowed_just_the_same(self, client, ann):
        answers = {name: [log_in(client, "wrong", name).status_code for _ in range(6)] for name in ("ann", "nobody")}
        assert answers["ann"] == answers["nobody"] == [200] * 5 + [429]

    def test_the_owner_elsewhere_is_let_in_meanwhile(self, client, ann):
        for _ in range(9):
            log_in(client, "wrong", REMOTE_ADDR="198.51.100.9")
        assert log_in(client, REMOTE_ADDR="192.0.2.1").url == HOME

    def test_a_header_of_the_client_is_not_its_address(self, client, ann):
        for n in range(5):
            log_in(client, "wrong", HTTP_X_FORWARDED_FOR=f"192.0.2.{n}")
        assert log_in(client, HTTP_X_FORWARDED_FOR="192.0.2.77").status_code == 429

    def test_the_beginning_of_a_wait_is_in_the_audit_log(self, client, ann):
        for name in ("ann", "hunter2"):
            for _ in range(7):
                log_in(client, "wrong", name)
        rows = AuditEntry.objects.filter(action="login_slowed")
        assert [(row.object_name, row.fields) for row in rows] == [("ann", {"address": "127.0.0.1"})]
        assert "hunter2" not in str(list(AuditEntry.objects.values()))

    def test_an_operator_lets_somebody_try_again(self, client, ann):
        for _ in range(6):
            log_in(client, "wrong")
        root = Client()
        root.force_login(person("root", is_superuser=True))
        page = reverse("admin:auth_user_changelist")
        root.post(page, {"action": "unlock_selected", "_selected_action": [ann.pk]})
        assert log_in(client).url == HOME
        row = AuditEntry.objects.get(action="login_unlocked")
        assert (row.username, row.object_name) == ("root", "ann")

    def test_the_command_does_too(self, client, ann):
        for _ in range(6):
            log_in(client, "wrong")
        said_by = StringIO()
        call_command("unlock_login", "ann", stdout=said_by)
        assert said_by.getvalue() == "ann: may try to log in again\n"
        assert log_in(client).url == HOME

    @pytest.mark.parametrize("arguments", [[], ["nobody"]])
    def test_the_command_wants_somebody(self, arguments):
        with pytest.raises(CommandError, match=r"name a person|nobody is called"):
            call_command("unlock_login", *arguments)

    def test_the_command_frees_an_address(self, client, ann):
        for n in range(60):
            log_in(client, "wrong", f"guess-{n}")
        assert log_in(client).status_code == 429
        call_command("unlock_login", "--address", "127.0.0.1", stdout=StringIO())
        assert log_in(client).url == HOME


class TestSecondFactor:
    def test_without_one_nothing_is_asked(self, client, ann):
        factors.begin(ann)  # begun is not on
        assert log_in(client).url == HOME

    def test_the_password_alone_opens_nothing(self, client, ann):
        enrolled(ann)
        assert log_in(client).url == reverse("admin:login_code")
        assert not is_in(client)

    def test_the_code_of_the_app_lets_in(self, client, ann):
        factor, _codes = enrolled(ann)
        log_in(client)
        assert "authenticator app" in client.get(reverse("admin:login_code")).content.decode()
        done = client.post(reverse("admin:login_code"), {"code": app_code(factor, 1)})
        assert done.url == HOME
        assert is_in(client)

    def test_no_code_is_taken_twice(self, client, ann):
        factor, _codes = enrolled(ann)
        log_in(client)
        code = app_code(factor, 1)
        client.post(reverse("admin:login_code"), {"code": code})
        other = Client()
        log_in(other)
        refused = other.post(reverse("admin:login_code"), {"code": code})
        assert "was used already" in said(refused)
        assert not is_in(other)

    def test_a_recovery_code_works_once(self, client, ann):
        _factor, codes = enrolled(ann)
        assert len(set(codes)) == 10
        for taken, expected in ((codes[0].upper(), True), (codes[0], False), (codes[1].replace("-", " "), True)):
            other = Client()
            log_in(other)
            other.post(reverse("admin:login_code"), {"code": taken})
            assert is_in(other) is expected
        assert AuditEntry.objects.filter(action="recovery_code_used").count() == 2
        assert RecoveryCode.objects.count() == 8

    def test_codes_are_slowed_down_whatever_the_address(self, client, ann):
        factor, _codes = enrolled(ann)
        log_in(client)
        for n in range(5):
            client.post(reverse("admin:login_code"), {"code": "000000"}, REMOTE_ADDR=f"192.0.2.{n}")
        slowed = client.post(reverse("admin:login_code"), {"code": app_code(factor, 1)})
        assert slowed.status_code == 429
        assert not is_in(client)

    def test_the_code_is_asked_within_five_minutes(self, client, ann, monkeypatch):
        factor, _codes = enrolled(ann)
        log_in(client)
        moment = now() + timedelta(minutes=5, seconds=1)
        monkeypatch.setattr(login_module, "now", lambda: moment)
        late = client.post(reverse("admin:login_code"), {"code": app_code(factor, 1)})
        assert late.url == reverse("admin:login")

    def test_a_password_changed_meanwhile_ends_it(self, client, ann):
        factor, _codes = enrolled(ann)
        log_in(client)
        ann.set_password("another horse")
        ann.save()
        assert client.post(reverse("admin:login_code"), {"code": app_code(factor, 1)}).url == reverse("admin:login")

    def test_without_a_password_there_is_no_code_page(self, client, ann):
        assert client.get(reverse("admin:login_code")).url == reverse("admin:login")

    def test_it_goes_where_one_wanted_to_and_nowhere_else(self, client, ann):
        factor, _codes = enrolled(ann)
        client.post(reverse("admin:login"), {"username": "ann", "password": PASSWORD, "next": "https://evil.example/"})
        assert client.post(reverse("admin:login_code"), {"code": app_code(factor, 1)}).url in {
            HOME,
            "/accounts/profile/",
        }

    def test_nothing_of_it_is_stored_in_the_clear(self, client, ann):
        factor, codes = enrolled(ann)
        with connection.cursor() as cursor:
            cursor.execute("SELECT secret FROM tenants_secondfactor")
            stored = cursor.fetchone()[0]
        assert factor.secret not in stored
        assert not {row.digest for row in RecoveryCode.objects.all()} & {code.replace("-", "") for code in codes}

    def test_an_operator_switches_it_off_for_somebody(self, client, ann):
        enrolled(ann)
        root = Client()
        root.force_login(person("root", is_superuser=True))
        page = reverse("admin:auth_user_changelist")
        root.post(page, {"action": "remove_factors", "_selected_action": [ann.pk]})
        assert log_in(client).url == HOME
        row = AuditEntry.objects.get(action="second_factor_off")
        assert (row.username, row.object_name) == ("root", "ann")

    def test_so_does_the_command(self, client, ann):
        enrolled(ann)
        call_command("unlock_login", "ann", "--forget-second-factor", stdout=StringIO())
        assert log_in(client).url == HOME

    def test_a_team_admin_does_not(self, client):
        tenant = factories.TenantFactory()
        victim = member(tenant, "viewer")
        enrolled(victim)
        client.force_login(member(tenant, "admin"))
        page = reverse("admin:auth_user_changelist")
        assert client.post(page, {"action": "remove_factors", "_selected_action": [victim.pk]}).status_code == 403
        assert factors.factor_of(victim) is not None


class TestDemanded:
    @pytest.fixture(autouse=True)
    def demanded(self, settings):
        settings.POINTSMAN_REQUIRE_TOTP = True

    @pytest.mark.parametrize("page", ["index", "pool", "start", "billing_requestrecord_changelist"])
    def test_without_one_every_page_leads_to_where_it_is_set_up(self, client, ann, page):
        client.force_login(ann)
        assert client.get(reverse(f"admin:{page}")).url == reverse("admin:security")

    @pytest.mark.parametrize("page", ["security", "password_change"])
    def test_what_one_needs_for_it_is_open(self, client, ann, page):
        client.force_login(ann)
        assert client.get(reverse(f"admin:{page}")).status_code == 200

    def test_with_one_all_is_open(self, client, ann):
        enrolled(ann)
        client.force_login(ann)
        assert is_in(client)


class TestAccountPage:
    @pytest.fixture
    def account(self, client, ann):
        client.force_login(ann)

        def post(do, **data):
            return client.post(reverse("admin:security"), {"do": do, **data}, follow=True)

        return post

    def test_it_is_switched_on_with_password_and_code(self, client, ann, account):
        page = account("begin")
        factor = SecondFactor.objects.get(user=ann)
        text = page.content.decode()
        assert factor.secret in text
        assert "<svg" in text
        assert "no-store" in page["Cache-Control"]
        wrong = account("confirm", code=app_code(factor), password="wrong")
        assert "This is not your password." in said(wrong)
        done = account("confirm", code=app_code(factor), password=PASSWORD)
        assert len(done.context["codes"]) == 10
        assert factor.secret not in done.content.decode()
        again = client.get(reverse("admin:security")).content.decode()
        assert done.context["codes"][0] not in again
        assert AuditEntry.objects.get(action="second_factor_on").username == "ann"

    def test_a_wrong_code_switches_nothing_on(self, ann, account):
        account("begin")
        refused = account("confirm", code="000000", password=PASSWORD)
        assert "This code is not right" in said(refused)
        assert factors.factor_of(ann) is None

    def test_it_is_switched_off_with_a_code_only(self, ann, account):
        _factor, codes = enrolled(ann)
        account("off", code="000000")
        assert factors.factor_of(ann) is not None
        account("off", code=codes[0])
        assert factors.factor_of(ann) is None
        assert not RecoveryCode.objects.exists()
        assert AuditEntry.objects.get(action="second_factor_off").username == "ann"

    def test_new_recovery_codes_replace_the_old(self, ann, account):
        factor, codes = enrolled(ann)
        new = account("codes", code=app_code(factor, 1)).context["codes"]
        assert not set(new) & set(codes)
        assert not factors.is_right(factor, codes[0], now())
        assert factors.is_right(factor, new[0], now())

    def test_guessing_there_is_slowed_down_too(self, ann, account):
        factor, _codes = enrolled(ann)
        for _ in range(5):
            account("off", code="000000")
        assert account("off", code=app_code(factor, 1)).status_code == 429
        assert factors.factor_of(ann) is not None

    def test_begin_does_not_replace_what_is_on(self, ann, account):
        factor, _codes = enrolled(ann)
        account("begin")
        assert SecondFactor.objects.get().pk == factor.pk

    def test_guessing_the_password_from_an_open_session_is_slowed_down(self, client, ann, account):
        new = {"new_password1": "a-long-passphrase-7", "new_password2": "a-long-passphrase-7"}
        page = reverse("admin:password_change")
        client.post(page, {"old_password": PASSWORD, "new_password1": "a", "new_password2": "b"})  # no guess
        for _ in range(5):
            assert client.post(page, {"old_password": "wrong", **new}).status_code == 200
        waits = client.post(page, {"old_password": PASSWORD, **new}, follow=True)
        assert "Too many failed tries." in waits.content.decode()
        ann.refresh_from_db()
        assert ann.check_password(PASSWORD)
        assert AuditEntry.objects.filter(action="login_slowed").count() == 1

    def test_a_viewer_has_the_page_too(self, client):
        client.force_login(member(factories.TenantFactory(), "viewer"))
        assert client.get(reverse("admin:security")).status_code == 200
