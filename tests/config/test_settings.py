import ast
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from config import variables
from tests.environment import ROOT
from tests.environment import variables as documented

KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
OTHER_KEY = "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWY="


def variables_read(path: Path) -> Counter[str]:
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    readers = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in {"text", "parsed"}]
    return Counter(call.args[0].value for call in readers)


def test_each_variable_is_read_once_and_explained_in_env_example():
    read = variables_read(ROOT / "config" / "settings.py")
    assert set(read) == set(documented())
    assert set(read.values()) == {1}


def settings_value(expression: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Evaluate an expression over config.settings as `s` in a process with just these variables."""
    code = f"from config import settings as s; print(({expression}))"
    blank = dict.fromkeys(documented(), "")
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, env={**os.environ, **blank, "POINTSMAN_DATA": str(folder), **env},
        check=False, capture_output=True, text=True,
    )  # fmt: skip


def test_an_empty_environment_means_the_embedded_setup(tmp_path):
    expression = "s.POINTSMAN_PORT, s.POINTSMAN_WORKERS, s.POINTSMAN_EMBEDDED, s.CELERY_BROKER_URL, s.LANGUAGE_CODE"
    found = settings_value(expression, tmp_path / "data")
    assert found.stdout == "(8000, 1, True, 'filesystem://localhost//', 'en')\n"
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data" / "queue" / "messages").is_dir()


def test_secrets_are_made_once_with_mode_600(tmp_path):
    first = settings_value("s.SECRET_KEY, s.POINTSMAN_ENCRYPTION_KEYS", tmp_path)
    again = settings_value("s.SECRET_KEY, s.POINTSMAN_ENCRYPTION_KEYS", tmp_path)
    assert first.stdout == again.stdout != ""
    for name in ("secret.key", "encryption.keys"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_secrets_of_the_environment_win_and_leave_no_file(tmp_path):
    found = settings_value(
        "s.SECRET_KEY, s.POINTSMAN_ENCRYPTION_KEYS", tmp_path, SECRET_KEY="z" * 40,
        POINTSMAN_ENCRYPTION_KEYS=f"{KEY}, {OTHER_KEY}",
    )  # fmt: skip
    assert found.stdout == f"('{'z' * 40}', ('{KEY}', '{OTHER_KEY}'))\n"
    assert not (tmp_path / "secret.key").exists()
    assert not (tmp_path / "encryption.keys").exists()


def test_redis_becomes_store_and_broker(tmp_path):
    found = settings_value("s.POINTSMAN_EMBEDDED, s.CELERY_BROKER_URL", tmp_path, REDIS_URL="redis://r/0")
    assert found.stdout == "(False, 'redis://r/0')\n"


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("POINTSMAN_PORT", "80x", "POINTSMAN_PORT: '80x' is not a whole number from 0 to 65535"),
        ("POINTSMAN_PORT", "65536", "POINTSMAN_PORT: '65536' is not a whole number from 0 to 65535"),
        ("POINTSMAN_WORKERS", "0", "POINTSMAN_WORKERS: '0' is not a whole number from 1 to 64"),
        ("POINTSMAN_LANGUAGE", "de", "POINTSMAN_LANGUAGE: 'de' is none of en, zh-hans"),
        ("OPS_EMAILS", "a@example.com,,b@example.com", "OPS_EMAILS: item 2 is empty"),
        ("OPS_EMAILS", "a@example.com,a@example.com", "OPS_EMAILS: item 2 stands twice"),
        ("POINTSMAN_ENCRYPTION_KEYS", f"{KEY},", "POINTSMAN_ENCRYPTION_KEYS: item 2 is empty"),
        ("DATABASE_URL", "mysql://a/b", "DATABASE_URL: mysql: only sqlite:///FILE and postgres://… are supported"),
        ("EMAIL_URL", "carrier-pigeon://x:secret@y", "EMAIL_URL: not a mail URL"),
        ("POINTSMAN_ALLOW_PRIVATE_UPSTREAMS", "10.0.0.0/8,", "POINTSMAN_ALLOW_PRIVATE_UPSTREAMS: item 2 is empty"),
    ],
)
def test_a_bad_variable_is_one_line_that_names_it(tmp_path, name, value, complaint):
    command = [sys.executable, "manage.py", "check"]
    env = {**os.environ, **dict.fromkeys(documented(), ""), "POINTSMAN_DATA": str(tmp_path), name: value}
    found = subprocess.run(command, cwd=ROOT, env=env, check=False, capture_output=True, text=True)
    assert found.returncode == 1
    assert found.stderr.startswith(f"Configuration: {complaint}")
    assert found.stderr.count("\n") == 1
    assert "secret" not in found.stderr


def test_a_bad_encryption_key_is_named_by_position_only():
    with pytest.raises(ValueError, match=r"^item 2 is not a Fernet key") as caught:
        variables.fernet_keys(f"{KEY},not-a-key")
    assert "not-a-key" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_the_key_file_may_have_comments_and_blank_lines(tmp_path):
    assert variables.fernet_key_lines(tmp_path, f"# newest\n{KEY}\n\n{OTHER_KEY}\n") == (KEY, OTHER_KEY)
    with pytest.raises(ImproperlyConfigured, match=r"no key in it$"):
        variables.fernet_key_lines(tmp_path, "# none\n")


def test_sqlite_waits_for_locks_and_survives_a_power_cut(tmp_path):
    found = variables.database("sqlite:///here.db", tmp_path)
    assert found["NAME"] == str(tmp_path / "here.db")
    assert found["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert "journal_mode=WAL" in found["OPTIONS"]["init_command"]
    assert "synchronous=FULL" in found["OPTIONS"]["init_command"]
    with pytest.raises(ValueError, match="cannot be shared"):
        variables.database("sqlite://:memory:", tmp_path)


@pytest.mark.parametrize(
    ("url", "port", "tls", "ssl"),
    [
        ("smtp://mail.example", 25, False, False),
        ("smtp+tls://u:p@mail.example", 587, True, False),
        ("smtp+ssl://u:p@mail.example", 465, False, True),
        ("smtp+tls://u:p@mail.example:2525", 2525, True, False),
    ],
)
def test_mail_urls(url, port, tls, ssl):
    found = variables.mail(url)
    assert (found["EMAIL_PORT"], found["EMAIL_USE_TLS"], found["EMAIL_USE_SSL"]) == (port, tls, ssl)


def test_mails_that_go_to_the_log_count_as_not_configured(tmp_path):
    assert settings_value("s.POINTSMAN_MAIL_CONFIGURED", tmp_path).stdout == "False\n"
    assert settings_value("s.POINTSMAN_MAIL_CONFIGURED", tmp_path, EMAIL_URL="smtp://m").stdout == "True\n"


def test_the_public_address_must_be_one(tmp_path):
    found = settings_value("s.POINTSMAN_PUBLIC_URL", tmp_path, POINTSMAN_PUBLIC_URL="https://gateway.example.com/")
    assert found.stdout == "https://gateway.example.com\n"
    for wrong in ("gateway.example.com", "ftp://x", "https://", "https://x/?a=1"):
        found = settings_value("s.POINTSMAN_PUBLIC_URL", tmp_path, POINTSMAN_PUBLIC_URL=wrong)
        assert found.returncode == 1
        assert f"POINTSMAN_PUBLIC_URL: {wrong!r} is not an address" in found.stderr


def test_proxies_are_addresses_and_networks(tmp_path):
    expression = "s.POINTSMAN_TRUSTED_PROXIES, s.POINTSMAN_REQUIRE_TOTP, s.SECURE_HSTS_SECONDS"
    assert settings_value(expression, tmp_path).stdout == "(['127.0.0.1', '::1'], False, 0)\n"
    given = {
        "POINTSMAN_TRUSTED_PROXIES": "10.1.0.0/16, 192.0.2.7",
        "POINTSMAN_REQUIRE_TOTP": "on",
        "POINTSMAN_HSTS_S": "60",
    }
    assert settings_value(expression, tmp_path, **given).stdout == "(['10.1.0.0/16', '192.0.2.7'], True, 60)\n"
    wrong = settings_value("1", tmp_path, POINTSMAN_TRUSTED_PROXIES="proxy.example")
    assert "POINTSMAN_TRUSTED_PROXIES: 'proxy.example' is no address or network" in wrong.stderr
