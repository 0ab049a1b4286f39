import pytest
from django.test import override_settings

from config.checks import impossible_settings

FINE = {
    "POINTSMAN_WORKERS": 1,
    "REDIS_URL": "",
    "CELERY_BROKER_URL": "filesystem://localhost//",
    "OPS_EMAILS": [],
    "POINTSMAN_MAIL_CONFIGURED": True,
    "SECRET_KEY": "k" * 50,
}


def found(**changes):
    with override_settings(**{**FINE, **changes}):
        return [message.id for message in impossible_settings(app_configs=None)]


@pytest.mark.parametrize(
    ("changes", "ids"),
    [
        ({}, []),
        ({"POINTSMAN_WORKERS": 2}, ["pointsman.E001"]),
        ({"POINTSMAN_WORKERS": 2, "REDIS_URL": "redis://r"}, []),
        ({"REDIS_URL": "http://r"}, ["pointsman.E002"]),
        ({"CELERY_BROKER_URL": "memory://"}, ["pointsman.E003"]),
        ({"OPS_EMAILS": ["ops@example.com"]}, []),
        ({"OPS_EMAILS": ["ops@example.com", "ops"]}, ["pointsman.E004"]),
        ({"OPS_EMAILS": ["ops@example.com"], "POINTSMAN_MAIL_CONFIGURED": False}, ["pointsman.W001"]),
        ({"SECRET_KEY": "k" * 31}, ["pointsman.E005"]),
    ],
)
def test_combinations(changes, ids):
    assert found(**changes) == ids


def test_a_secret_that_others_can_read_is_a_warning(tmp_path):
    path = tmp_path / "secret.key"
    path.write_text("x")
    path.chmod(0o644)
    assert found(SECRET_KEY_FILE=path) == ["pointsman.W002"]
    path.chmod(0o600)
    assert found(SECRET_KEY_FILE=path) == []
