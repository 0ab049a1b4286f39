"""A NUL in an address is left out before any page can ask the database for it."""

import pytest
from django.contrib.auth import get_user_model

PAGES = [
    "billing/requestrecord/?q=%00abc",
    "tenants/tenant/?q=%00",
    "keys/upstreamkey/?q=a%00",
    "dry-run/?like=%00&line=%00",
    "statements/?team=%00",
    "?team=%00&line=%00",
]


@pytest.mark.django_db
@pytest.mark.parametrize("page", PAGES)
def test_a_nul_in_the_query_is_no_error(client, page):
    client.force_login(get_user_model().objects.create_superuser("root", "", "a long enough word"))
    answer = client.get(f"/admin/{page}")
    assert answer.status_code in {200, 302}
