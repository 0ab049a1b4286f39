"""An account that is nearly out of its own credit goes last for new conversations."""

from datetime import timedelta
from decimal import Decimal

import pytest

from keys.core.report import account_target
from tests.factories import AccountFactory
from tests.gateway import chat, wait_until


@pytest.mark.parametrize(("left", "first"), [(0.1, "k-2"), (0.5, "k-1")])
def test_low_credit_sends_a_key_to_the_end(gateway, up, left, first):
    world = gateway.serving(up, "k-1", "k-2")
    account = AccountFactory(
        tenant=world.tenant, credit_amount=Decimal(100), credit_currency="USD", credit_period="month"
    )
    world.keys[0].account = account
    world.keys[0].save()
    gateway.refresh()
    figures, now = gateway.runtime.store.figures, gateway.runtime.now()
    figures.saw_water(account_target(account.pk), 0.9, now + timedelta(minutes=1))  # a window's header says plenty
    figures.saw_credit(account_target(account.pk), left, now + timedelta(minutes=1))
    assert gateway.post(world, chat()).status_code == 200
    assert up.keys() == [first]
    wait_until(gateway.is_idle)
