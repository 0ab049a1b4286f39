"""What every test shares; the environment is set earlier, in tests/environment.py."""

from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

from tests.sessions import hang_up

# A slow machine is no failure, and a run is repeatable: what is found once is found again and becomes a row.
hypothesis.settings.register_profile(
    "pointsman", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("pointsman")


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """pytest-django's, which drops the test database at the end: nobody else has a session then."""
    yield
    with django_db_blocker.unblock():
        hang_up()
