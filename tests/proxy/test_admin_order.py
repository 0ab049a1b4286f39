"""An order saved in the admin routes within two seconds."""

import time

from django.test import Client
from django.urls import reverse

from tests.config.admin_world import person
from tests.gateway import wait_until

SEEN_S = 2.0


def test_a_new_order_of_members_routes_within_two_seconds(gateway, up):
    world = gateway.serving(up, "k-1", "k-2")
    assert gateway.post(world, None).status_code == 200
    assert up.keys()[-1] == "k-1"
    client = Client()
    client.force_login(person("orderer", is_superuser=True))
    address = reverse("admin:routing_strategygroup_change", args=[world.group.pk])
    formset = client.get(address).context["inline_admin_formsets"][0].formset
    data = {"name": "main", "strategy": "priority", "basis": "share", "stream_hold": "first_content"}
    data |= {field.html_name: field.value() for field in formset.management_form}
    for form in formset.initial_forms:
        data |= {field.html_name: field.value() for field in form if field.value() is not None}
    assert client.post(address, data | {"members-1-position": "1"}).status_code == 302
    saved = time.monotonic()

    def moved():
        gateway.post(world, None)
        return up.keys()[-1] == "k-2"

    wait_until(moved, SEEN_S)
    assert time.monotonic() - saved < SEEN_S
