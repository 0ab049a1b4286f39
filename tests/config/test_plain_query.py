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


HUGE = "9" * 25
REFUSED = [
    f"tenants/gatewaykey/revoke/?ids={HUGE}",
    f"billing/requestrecord/?period=all&line_id={HUGE},1",
    f"billing/requestrecord/?period=all&tenant__id__in={HUGE},1",
    f"billing/attempt/?upstream_key_id__in={HUGE},1",
]


@pytest.mark.django_db
def test_a_number_that_no_column_holds_is_the_askers_mistake(client):
    client.force_login(get_user_model().objects.create_superuser("root", "", "a long enough word"))
    for page in REFUSED:  # SQLite cannot ask; PostgreSQL finds nothing
        assert client.get(f"/admin/{page}").status_code in {200, 400, 404}, page
    chosen = {"action": "delete_selected", "_selected_action": [HUGE]}
    assert client.post("/admin/tenants/gatewaykey/", chosen).status_code in {200, 302, 400}


@pytest.mark.django_db
@pytest.mark.parametrize("line", [HUGE, "x", "²"])
def test_a_new_row_begins_without_what_is_no_row(client, line):
    client.force_login(get_user_model().objects.create_superuser("root", "", "a long enough word"))
    assert client.get("/admin/tenants/gatewaykey/add/", {"line": line, "name": "kept"}).status_code == 200
    assert client.get("/admin/keys/upstreamkey/add/", {"upstream": line}).status_code == 200
