"""What is known about a request's conversation before a decision."""

from collections.abc import Mapping
from dataclasses import field

from routing.core.views import Owner, Pin
from tenants.core.values import valueclass


@valueclass(frozen=True, slots=True)
class Memory:
    """`names` are those under which the conversation's pin is kept, empty without an identity."""

    names: tuple[str, ...] = ()
    pin: Pin | None = None
    owners: Mapping[str, Owner] = field(default_factory=dict)
